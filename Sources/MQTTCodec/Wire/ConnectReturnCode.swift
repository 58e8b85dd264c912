/// What a CONNACK of MQTT 3.1 and 3.1.1 says.
public enum ConnectReturnCode: UInt8, Sendable {
    case accepted = 0
    case unacceptableProtocolVersion = 1
    case identifierRejected = 2
    case serverUnavailable = 3
    case badUserNameOrPassword = 4
    case notAuthorized = 5
}
