extension TopicFilter {
    /// Whether a message published to `topic` is for this filter: level by level, byte by byte. [MQTT-4.7.3-4 v5]
    ///
    /// Plain and slow on purpose: what is faster is tested against it.
    public func matches(_ topic: TopicName) -> Bool {
        let filterLevels = matchingBytes.split(separator: TextScan.levelSeparator, omittingEmptySubsequences: false)
        let topicLevels = topic.bytes.split(separator: TextScan.levelSeparator, omittingEmptySubsequences: false)
        let beginsWithWildcard =
            isWildcard(filterLevels[0], TextScan.wildcardOne) || isWildcard(filterLevels[0], TextScan.wildcardMany)
        if beginsWithWildcard && topic.bytes.first == UInt8(ascii: "$") { return false }  // [MQTT-4.7.2-1 v5]

        for (index, level) in filterLevels.enumerated() {
            if isWildcard(level, TextScan.wildcardMany) { return true }  // Also the parent: a/# matches a.
            guard index < topicLevels.count else { return false }
            guard isWildcard(level, TextScan.wildcardOne) || level == topicLevels[index] else { return false }
        }
        return filterLevels.count == topicLevels.count
    }

    private func isWildcard(_ level: ArraySlice<UInt8>, _ wildcard: UInt8) -> Bool {
        level.count == 1 && level.first == wildcard
    }
}
