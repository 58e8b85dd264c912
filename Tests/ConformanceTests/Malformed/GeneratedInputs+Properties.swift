import MQTTCodec

/// Properties of MQTT 5.0 where they may not stand, twice, cut, or of no known kind.
extension GeneratedInputs {
    /// A place where a client puts properties; `?` stands for them.
    enum PropertyContext: String, CaseIterable {
        case connect = "10 { 'MQTT' 05 02 0000 { ? } 'a' }"
        case will = "10 { 'MQTT' 05 06 0000 {} 'a' { ? } 'w' 'm' }"
        case publish = "30 { 't' { ? } }"
        case puback = "40 { 0001 00 { ? } }"
        case pubrec = "50 { 0001 00 { ? } }"
        case pubrel = "62 { 0001 00 { ? } }"
        case pubcomp = "70 { 0001 00 { ? } }"
        case subscribe = "82 { 0001 { ? } 't' 00 }"
        case unsubscribe = "A2 { 0001 { ? } 't' }"
        case disconnect = "E0 { 00 { ? } }"
        case auth = "F0 { 19 { ? } }"

        /// The input that has these properties here.
        func input(_ properties: String, _ code: UInt8, _ name: String) -> InputCase {
            let words = rawValue.split(separator: " ").map { $0 == "?" ? properties : String($0) }
            let isConnect = self == .connect || self == .will
            return InputCase(
                .v5, isConnect ? .fresh : .connected, Frame(words.joined(separator: " "), .v5).bytes,
                isConnect ? .connack(code) : .disconnect(code), "\(self): \(name)")
        }
    }

    /// A property: an example of it, and where a client may put it (table 2-4 of the standard).
    private struct PropertyKind {
        let name: String
        let example: String
        let places: Set<PropertyContext>

        init(_ name: String, _ example: String, _ places: Set<PropertyContext> = []) {
            self.name = name
            self.example = example
            self.places = places
        }
    }

    private static let kinds: [PropertyKind] = [
        PropertyKind("Payload Format Indicator", "0101", [.publish, .will]),
        PropertyKind("Message Expiry Interval", "0200000001", [.publish, .will]),
        PropertyKind("Content Type", "03 'c'", [.publish, .will]),
        PropertyKind("Response Topic", "08 'r'", [.publish, .will]),
        PropertyKind("Correlation Data", "09 'd'", [.publish, .will]),
        PropertyKind("Subscription Identifier", "0B01", [.publish, .subscribe]),
        PropertyKind("Session Expiry Interval", "1100000000", [.connect, .disconnect]),
        PropertyKind("Assigned Client Identifier", "12 'i'"),
        PropertyKind("Server Keep Alive", "13003C"),
        PropertyKind("Authentication Method", "15 'm'", [.connect, .auth]),
        PropertyKind("Authentication Data", "15 'm' 16 'd'", [.connect, .auth]),
        PropertyKind("Request Problem Information", "1701", [.connect]),
        PropertyKind("Will Delay Interval", "1800000001", [.will]),
        PropertyKind("Request Response Information", "1901", [.connect]),
        PropertyKind("Response Information", "1A 'r'"),
        PropertyKind("Server Reference", "1C 's'"),
        PropertyKind("Reason String", "1F 'r'", [.puback, .pubrec, .pubrel, .pubcomp, .disconnect, .auth]),
        PropertyKind("Receive Maximum", "210001", [.connect]),
        PropertyKind("Topic Alias Maximum", "220001", [.connect]),
        PropertyKind("Topic Alias", "230001", [.publish]),
        PropertyKind("Maximum QoS", "2401"),
        PropertyKind("Retain Available", "2501"),
        PropertyKind("Maximum Packet Size", "2700001000", [.connect]),
        PropertyKind("Wildcard Subscription Available", "2801"),
        PropertyKind("Subscription Identifier Available", "2901"),
        PropertyKind("Shared Subscription Available", "2A01"),
    ]

    /// Each property in each packet that may not carry it: a malformed packet (section 2.2.2.2).
    static var misplacedProperties: [InputCase] {
        kinds.flatMap { kind in
            PropertyContext.allCases.filter { !kind.places.contains($0) }.map { $0.input(kind.example, 0x81, kind.name) }
        }
    }

    /// Each property twice in a packet that may carry it once: a protocol error.
    static var repeatedProperties: [InputCase] {
        kinds.flatMap { kind in
            PropertyContext.allCases.filter { kind.places.contains($0) }.map { place in
                place.input("\(kind.example) \(kind.example)", 0x82, "\(kind.name) twice")
            }
        }
    }

    /// Each property without its last byte, in the packets that may carry it. A text is cut behind its length.
    static var cutProperties: [InputCase] {
        kinds.flatMap { kind in
            PropertyContext.allCases.filter { kind.places.contains($0) }.compactMap { place in
                // A client's Subscription Identifier in PUBLISH is wrong however it goes on.
                if place == .publish, kind.name == "Subscription Identifier" { return nil }
                let digits = Frame(kind.example, .v5).bytes.dropLast().map(Frame.hexadecimal).joined()
                return place.input(digits, 0x81, "\(kind.name) cut")
            }
        }
    }

    /// Each property identifier that does not exist, in each packet.
    static var unknownProperties: [InputCase] {
        let known = Set(kinds.map { Frame($0.example, .v5).bytes[0] } + [0x16, 0x26])
        return PropertyContext.allCases.flatMap { place in
            (UInt8(0)...255).filter { !known.contains($0) && (place == .publish || $0 % 16 == 4) }.map { identifier in
                place.input("\(Frame.hexadecimal(identifier))01", 0x81, "property \(identifier)")
            }
        }
    }

    /// User Property, which may stand anywhere and often, in the middle of its second text.
    static var cutUserProperties: [InputCase] {
        PropertyContext.allCases.flatMap { place in
            [
                place.input("26", 0x81, "User Property without its texts"),
                place.input("26 'k'", 0x81, "User Property without its value"),
                place.input("26 'k' 0002 \"v\"", 0x81, "User Property with its value cut"),
            ]
        }
    }
}
