/// CONNACK: the server's answer to CONNECT. One of the two codes counts, by version; the other stays at success.
public struct ConnackPacket: Hashable, Sendable {
    public var sessionPresent: Bool
    /// What MQTT 5.0 says.
    public var reasonCode: ReasonCode
    /// What MQTT 3.1 and 3.1.1 say.
    public var returnCode: ConnectReturnCode
    public var properties: Properties

    public init(
        sessionPresent: Bool = false, reasonCode: ReasonCode = .success, returnCode: ConnectReturnCode = .accepted,
        properties: Properties = Properties()
    ) {
        self.sessionPresent = sessionPresent
        self.reasonCode = reasonCode
        self.returnCode = returnCode
        self.properties = properties
    }

    /// Whether the connection stands, in any version.
    public var isAccepted: Bool { reasonCode == .success && returnCode == .accepted }
}
