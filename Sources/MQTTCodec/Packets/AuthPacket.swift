/// AUTH: one step of an extended authentication, MQTT 5.0 only.
public struct AuthPacket: Hashable, Sendable {
    public var reasonCode: ReasonCode
    public var properties: Properties

    public init(reasonCode: ReasonCode = .success, properties: Properties = Properties()) {
        self.reasonCode = reasonCode
        self.properties = properties
    }
}
