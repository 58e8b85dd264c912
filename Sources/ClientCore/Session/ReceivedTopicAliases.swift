import MQTTCodec

/// Topic Aliases that the server set on the connection.
struct ReceivedTopicAliases: Sendable {
    private var topics: [UInt16: EncodedString] = [:]

    /// The topic that is meant, noted for the alias if it is named; nil when the alias is not allowed or stands for nothing.
    mutating func resolve(_ alias: UInt16, _ topic: EncodedString, maximum: UInt16) -> EncodedString? {
        guard (1...UInt16.max).contains(alias), alias <= maximum else { return nil }
        guard topic.isEmpty else {
            topics[alias] = topic
            return topic
        }
        return topics[alias]
    }
}
