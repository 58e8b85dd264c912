import MQTTCodec

/// Why a connection of a load came to its end.
enum LoadFailure: Error, Sendable, Hashable {
    /// CONNACK with this return code (MQTT 3) or reason code (MQTT 5.0).
    case refused(code: UInt8)
    /// SUBACK with this code.
    case subscriptionRefused(code: UInt8)
    /// The broker's DISCONNECT.
    case disconnected(ReasonCode)
    /// What the broker sent was no MQTT.
    case malformed
}

extension LoadFailure: CustomStringConvertible {
    var description: String {
        switch self {
        case .refused(let code): "the broker refused the connection with code \(code)\(Self.meaning(of: code))"
        case .subscriptionRefused(let code): "the broker refused the subscription with code \(code)"
        case .disconnected(let reason): "the broker disconnected with reason \(reason.rawValue)"
        case .malformed: "the broker sent what is no MQTT"
        }
    }

    /// What a code of CONNACK means, and what to do, in those cases that people meet.
    private static func meaning(of code: UInt8) -> String {
        switch code {
        case 1, 0x84: ", which means that it does not speak this version of MQTT: choose another with --mqtt-version"
        case 4, 0x86: ", which means that --user or --password is wrong"
        case 5, 0x87: ", which means not authorized: say who the load is with --user and --password"
        default: ""
        }
    }
}
