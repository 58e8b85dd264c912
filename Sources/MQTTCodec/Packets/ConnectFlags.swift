/// The flags of a CONNECT, of which not every combination is legal.
struct ConnectFlags {
    let cleanStart: Bool
    let hasWill: Bool
    let willQoS: QoS
    let willRetain: Bool
    let hasUserName: Bool
    let hasPassword: Bool

    /// The flags of a packet to be sent.
    init(of packet: ConnectPacket) {
        cleanStart = packet.cleanStart
        hasWill = packet.will != nil
        willQoS = packet.will?.qos ?? .atMostOnce  // [MQTT-3.1.2-11 v5]
        willRetain = packet.will?.retain ?? false  // [MQTT-3.1.2-13 v5]
        hasUserName = packet.userName != nil
        hasPassword = packet.password != nil
    }

    /// Reads the byte that a client sent. MQTT 3.1 does not use the lowest bit.
    init(validating byte: UInt8, version: ProtocolVersion) throws(WireError) {
        if byte & 0x01 != 0 && version != .v31 { throw .reservedConnectFlag }  // [MQTT-3.1.2-3 v5]
        cleanStart = byte & 0x02 != 0
        hasWill = byte & 0x04 != 0
        willRetain = byte & 0x20 != 0
        hasPassword = byte & 0x40 != 0
        hasUserName = byte & 0x80 != 0
        guard let qos = QoS(rawValue: (byte >> 3) & 0x03) else { throw .willFlags }  // [MQTT-3.1.2-12 v5]
        willQoS = qos
        if !hasWill && (qos != .atMostOnce || willRetain) { throw .willFlags }  // [MQTT-3.1.2-11 v5] [MQTT-3.1.2-13 v5]
        if hasPassword && !hasUserName && version != .v5 { throw .passwordWithoutUserName }  // [MQTT-3.1.2-22 v3.1.1]
    }

    /// The byte on the wire.
    var byte: UInt8 {
        (cleanStart ? 0x02 : 0) | (hasWill ? 0x04 : 0) | willQoS.rawValue << 3 | (willRetain ? 0x20 : 0) | (hasPassword ? 0x40 : 0)
            | (hasUserName ? 0x80 : 0)
    }
}
