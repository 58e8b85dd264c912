/// The versions of MQTT that are spoken here, with the level that stands in CONNECT.
public enum ProtocolVersion: UInt8, Sendable {
    /// MQTT 3.1, which names itself "MQIsdp".
    case v31 = 3
    /// MQTT 3.1.1.
    case v311 = 4
    /// MQTT 5.0.
    case v5 = 5
}
