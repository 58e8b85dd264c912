/// The type of a control packet: the upper four bits of its first byte.
public enum PacketType: UInt8, Sendable, CaseIterable {
    case connect = 1
    case connack
    case publish
    case puback
    case pubrec
    case pubrel
    case pubcomp
    case subscribe
    case suback
    case unsubscribe
    case unsuback
    case pingreq
    case pingresp
    case disconnect
    case auth

    /// The standard's name, such as `PUBLISH`.
    public var name: String { "\(self)".uppercased() }

    /// Whether that side may send this packet at all in that version (section 2.1.2 of the standard).
    public func isSent(by peer: Peer, version: ProtocolVersion) -> Bool {
        switch self {
        case .publish, .puback, .pubrec, .pubrel, .pubcomp: true
        case .connect, .subscribe, .unsubscribe, .pingreq: peer == .client
        case .connack, .suback, .unsuback, .pingresp: peer == .server
        case .disconnect: peer == .client || version == .v5
        case .auth: version == .v5
        }
    }

    /// The lower four bits of the first byte, which are fixed for every type but PUBLISH. [MQTT-2.1.3-1 v5]
    var fixedFlags: UInt8 {
        switch self {
        case .pubrel, .subscribe, .unsubscribe: 0b0010
        default: 0
        }
    }
}

extension PacketType {
    /// Whether the lower four bits of a first byte are what this type, which is not PUBLISH, asks for. [MQTT-2.1.3-1 v5]
    ///
    /// MQTT 3.1 does not use these bits but to mark repeated packets, so there any value will do.
    @inline(__always)
    func acceptsFlags(of firstByte: UInt8, version: ProtocolVersion) -> Bool {
        firstByte & 0x0F == fixedFlags || version == .v31
    }
}
