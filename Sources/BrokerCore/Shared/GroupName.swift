import MQTTCodec

/// Names a share group: the ShareName and the filter behind it. [MQTT-4.8.2-2 v5]
struct GroupName: Hashable, Sendable {
    let shareName: EncodedString
    /// The filter without `$share/NAME/`.
    let filter: [UInt8]

    /// All bytes at once: an array hashes one by one.
    func hash(into hasher: inout Hasher) {
        hasher.combine(shareName)
        filter.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    /// The whole filter, as SUBSCRIBE has it.
    var topicFilter: TopicFilter? { TopicFilter(Array("$share/".utf8) + shareName.bytes + [UInt8(ascii: "/")] + filter) }
}
