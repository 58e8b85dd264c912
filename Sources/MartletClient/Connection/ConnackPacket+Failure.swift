internal import MQTTCodec

extension ConnackPacket {
    /// Why the server does not let us in, in the words of MQTT 5.0.
    var failureReason: ReasonCode {
        switch returnCode {
        case .accepted: reasonCode
        case .unacceptableProtocolVersion: .unsupportedProtocolVersion
        case .identifierRejected: .clientIdentifierNotValid
        case .serverUnavailable: .serverUnavailable
        case .badUserNameOrPassword: .badUserNameOrPassword
        case .notAuthorized: .notAuthorized
        }
    }
}
