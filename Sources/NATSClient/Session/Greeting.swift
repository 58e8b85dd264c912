/// What has come from a server before its INFO, as far as it is worth showing: who answers there may be no NATS server.
struct Greeting {
    private var bytes: [UInt8] = []

    mutating func add(_ more: UnsafeRawBufferPointer) { bytes += more.prefix(Limits.shownGreetingBytesMax - bytes.count) }

    /// What to say of who is no NATS server; nil of one that is, and of one that has said nothing yet.
    var stranger: String? {
        let line = bytes.prefix { $0 != 0x0A && $0 != 0x0D }
        guard !bytes.isEmpty else { return nil }
        let isServer = ["INFO", "-ERR"].contains { name in
            zip(line, name.utf8).allSatisfy { $0 == $1 || $0 == $1 + 0x20 } && !line.isEmpty
        }
        return isServer ? nil : "it is not a NATS server: it begins with \"\(ControlLine.printable(line))\""
    }

    /// What to say of who has taken the connection and says nothing: a service that waits for its client's first word, such as HTTP or MQTT.
    static let silence =
        "no answer within \(Limits.joinMillisecondsMax / 1000) s, where a NATS server says INFO at once: it may be another service, or one "
        + "that wants TLS first (handshake_first)"
}
