/// The Topic Aliases that a client has set on its connection. [MQTT-3.3.2-12 v5]
struct ReceivedAliases {
    /// The topic of alias 1, 2, …; empty where none is set.
    private var topics: [[UInt8]] = []
    /// Of all topics.
    private(set) var byteCount = 0

    /// Sets the alias (1 or more, within the limit that CONNACK gave) to `topic`.
    mutating func set(_ alias: UInt16, to topic: UnsafeRawBufferPointer) {
        while topics.count < Int(alias) { topics.append([]) }
        byteCount += topic.count - topics[Int(alias) - 1].count
        topics[Int(alias) - 1] = Array(topic)
    }

    /// The topic of an alias, or nil if the client has not set it.
    func topic(of alias: UInt16) -> [UInt8]? {
        guard alias > 0, Int(alias) <= topics.count, !topics[Int(alias) - 1].isEmpty else { return nil }
        return topics[Int(alias) - 1]
    }
}
