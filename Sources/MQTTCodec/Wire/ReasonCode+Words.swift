extension ReasonCode: CustomStringConvertible {
    /// The code in the standard's words, for logs.
    public var description: String {
        switch rawValue {
        case 0x00: "success"
        case 0x01: "granted QoS 1"
        case 0x02: "granted QoS 2"
        case 0x04: "disconnect with will message"
        case 0x10: "no matching subscribers"
        case 0x11: "no subscription existed"
        case 0x18: "continue authentication"
        case 0x19: "re-authenticate"
        default: isError ? failure : "unknown reason code \(rawValue)"
        }
    }

    private var failure: String {
        let index = Int(rawValue) - 0x80
        return index < Self.failures.count ? Self.failures[index] : "unknown reason code \(rawValue)"
    }

    /// From 0x80 on, without a gap.
    private static let failures = [
        "unspecified error", "malformed packet", "protocol error", "implementation specific error",
        "unsupported protocol version", "client identifier not valid", "bad user name or password", "not authorized",
        "server unavailable", "server busy", "banned", "server shutting down", "bad authentication method", "keep alive timeout",
        "session taken over", "topic filter invalid", "topic name invalid", "packet identifier in use",
        "packet identifier not found", "receive maximum exceeded", "topic alias invalid", "packet too large",
        "message rate too high", "quota exceeded", "administrative action", "payload format invalid", "retain not supported",
        "QoS not supported", "use another server", "server moved", "shared subscriptions not supported",
        "connection rate exceeded", "maximum connect time", "subscription identifiers not supported",
        "wildcard subscriptions not supported",
    ]
}
