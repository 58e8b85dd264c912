/// CONNECT: a client introduces itself.
public struct ConnectPacket: Hashable, Sendable {
    public var version: ProtocolVersion
    /// Clean Start in MQTT 5.0, Clean Session before.
    public var cleanStart: Bool
    public var keepAliveSeconds: UInt16
    public var properties: Properties
    public var clientIdentifier: EncodedString
    public var will: Will?
    public var userName: EncodedString?
    public var password: [UInt8]?
    /// Whether the level had its highest bit set, as mosquitto's bridges send it: 0x83 and 0x84.
    public var isBridge: Bool

    public init(
        version: ProtocolVersion = .v5, cleanStart: Bool = true, keepAliveSeconds: UInt16 = 0,
        properties: Properties = Properties(),
        clientIdentifier: EncodedString = "", will: Will? = nil, userName: EncodedString? = nil, password: [UInt8]? = nil,
        isBridge: Bool = false
    ) {
        self.version = version
        self.cleanStart = cleanStart
        self.keepAliveSeconds = keepAliveSeconds
        self.properties = properties
        self.clientIdentifier = clientIdentifier
        self.will = will
        self.userName = userName
        self.password = password
        self.isBridge = isBridge
    }
}
