import MQTTCodec

/// Bytes of which a few values are legal: reason codes, CONNECT's flags, protocol levels, subscription options.
extension GeneratedInputs {
    /// The reason codes that a client may send (the tables of sections 3.4 to 3.7, 3.14 and 3.15).
    private static let reasonCodes: [(name: String, text: String, legal: Set<UInt8>)] = [
        ("PUBACK", "40 { 0001 ? }", [0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]),
        ("PUBREC", "50 { 0001 ? }", [0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]),
        ("PUBREL", "62 { 0001 ? }", [0, 0x92]),
        ("PUBCOMP", "70 { 0001 ? }", [0, 0x92]),
        ("DISCONNECT", "E0 { ? }", [0, 4, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99]),
        ("AUTH", "F0 { ? { 15 'm' } }", [0x18, 0x19]),
    ]

    /// Each reason code in each packet that may not carry it.
    static var wrongReasonCodes: [InputCase] {
        reasonCodes.flatMap { packet in
            (UInt8(0)...255).filter { !packet.legal.contains($0) }.map { code in
                let words = packet.text.split(separator: " ").map { $0 == "?" ? Frame.hexadecimal(code) : String($0) }
                return InputCase(
                    .v5, .connected, Frame(words.joined(separator: " "), .v5).bytes, .disconnect(0x82),
                    "\(packet.name) with reason \(Frame.hexadecimal(code))")
            }
        }
    }

    /// Each byte of CONNECT's flags, with the fields that it announces.
    static var connectFlags: [InputCase] {
        [ProtocolVersion.v31, .v311, .v5].flatMap { version in
            (UInt8(0)...255).map { flags in
                var text = version == .v31 ? "10 { 'MQIsdp' 03" : "10 { 'MQTT' $"
                text += " \(Frame.hexadecimal(flags)) 0000 ~ 'a'"
                if flags & 0x04 != 0 { text += " ~ 'w' 'm'" }
                if flags & 0x80 != 0 { text += " 'u'" }
                if flags & 0x40 != 0 { text += " 'p'" }
                let refusal: InputCase.Answer = version == .v5 ? .connack(0x81) : .close
                return InputCase(
                    version, .fresh, Frame("\(text) }", version).bytes,
                    areLegal(flags, version) ? accepted(version) : refusal, "flags \(Frame.hexadecimal(flags))")
            }
        }
    }

    private static func areLegal(_ flags: UInt8, _ version: ProtocolVersion) -> Bool {
        let hasWill = flags & 0x04 != 0
        let willQoS = flags >> 3 & 3
        if flags & 0x01 != 0, version != .v31 { return false }
        if willQoS == 3 { return false }
        if !hasWill, willQoS != 0 || flags & 0x20 != 0 { return false }
        return version == .v5 || flags & 0xC0 != 0x40
    }

    private static func accepted(_ version: ProtocolVersion) -> InputCase.Answer {
        let connack = version == .v5 ? "20 { 0000 { 22000A 27001E8480 210014 } }" : "20 { 0000 }"
        return InputCase.Answer(bytes: Frame(connack, version).bytes, end: .open)
    }

    /// Each protocol level behind both names. Bit 7 marks a bridge's level, as mosquitto takes it.
    static var levels: [InputCase] {
        (UInt8(0)...255).flatMap { level in
            let known = level & 0x7F
            let properties = known == 5 ? "00" : ""
            let answer: InputCase.Answer =
                known == 5 ? accepted(.v5) : known == 4 ? accepted(.v311) : .connack(1)
            return [
                InputCase(
                    .v311, .fresh, Frame("10 { 'MQTT' \(Frame.hexadecimal(level)) 02 0000 \(properties) 'a' }", .v311).bytes,
                    answer,
                    "MQTT of level \(level)"),
                InputCase(
                    .v31, .fresh, Frame("10 { 'MQIsdp' \(Frame.hexadecimal(level)) 02 0000 'a' }", .v31).bytes,
                    known == 3 ? accepted(.v31) : .connack(1), "MQIsdp of level \(level)"),
            ]
        }
    }

    /// Each byte behind a filter.
    static var subscriptionOptions: [InputCase] {
        [ProtocolVersion.v311, .v5].flatMap { version in
            (UInt8(0)...255).map { options in
                let frame = Frame("82 { 0001 ~ 't' \(Frame.hexadecimal(options)) }", version).bytes
                return InputCase(version, .connected, frame, answer(options, version), "options \(Frame.hexadecimal(options))")
            }
        }
    }

    private static func answer(_ options: UInt8, _ version: ProtocolVersion) -> InputCase.Answer {
        let reserved: UInt8 = version == .v5 ? 0xC0 : 0xFC
        if options & reserved != 0 { return .disconnect(0x81) }
        if options & 0x03 == 3 || options & 0x30 == 0x30 { return .disconnect(0x82) }
        return InputCase.Answer(bytes: Frame("90 { 0001 ~ 0\(options & 3) }", version).bytes, end: .open)
    }
}
