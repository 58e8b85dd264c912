import MQTTCodec

extension TopicFilter {
    /// Whether a topic matches, level by level and in place. [MQTT-4.7.2-1 v5]
    func matches(_ topic: UnsafeRawBufferPointer) -> Bool {
        matchingBytes.withUnsafeBytes { filter in
            var (wanted, levels) = (LevelSequence(filter), LevelSequence(topic))
            var isFirst = true
            while let level = wanted.next() {
                let isSingle = LevelSequence.isSingleLevelWildcard(level)
                let isMulti = LevelSequence.isMultiLevelWildcard(level)
                if isFirst, isSingle || isMulti, topic.first == UInt8(ascii: "$") { return false }
                if isMulti { return true }
                isFirst = false
                guard let text = levels.next(), isSingle || text.elementsEqual(level) else { return false }
            }
            return levels.next() == nil
        }
    }
}
