/// Checks topic names and topic filters where they lie in a frame.
public enum TopicValidation {
    /// What is wrong with a topic name, or nil: at least one character, UTF-8, no wildcard. One pass. [MQTT-4.7.0-1 v5]
    public static func validateName(_ bytes: UnsafeRawBufferPointer) -> WireError? {
        if bytes.isEmpty { return .emptyTopic }  // [MQTT-4.7.3-1 v5]
        return TextScan.validate(bytes, rejectsWildcards: true)  // [MQTT-3.3.2-2 v5]
    }

    /// What is wrong with a topic filter, or nil; one that begins with $share/ is checked as a shared subscription's.
    public static func validateFilter(_ bytes: UnsafeRawBufferPointer) -> WireError? {
        if let error = TextScan.validate(bytes, rejectsWildcards: false) { return error }
        guard let start = matchingOffset(bytes) else { return .invalidTopicFilter }
        return areWildcardsWhole(bytes, from: start) ? nil : .invalidTopicFilter
    }

    /// Where the part begins that is matched against topics: 0, or behind $share/NAME/; nil if NAME or that part is missing or wrong.
    /// [MQTT-4.8.2-1 v5]
    static func matchingOffset(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.starts(with: sharePrefix) else { return bytes.isEmpty ? nil : 0 }  // [MQTT-4.7.3-1 v5]
        var index = sharePrefix.count
        while index < bytes.count, bytes[index] != TextScan.levelSeparator {
            let byte = bytes[index]
            if byte == TextScan.wildcardOne || byte == TextScan.wildcardMany { return nil }  // [MQTT-4.8.2-2 v5]
            index &+= 1
        }
        let isNamed = index > sharePrefix.count
        return isNamed && index &+ 1 < bytes.count ? index &+ 1 : nil
    }

    /// Whether every + fills its level [MQTT-4.7.1-2 v5] and a # is a level of its own and the last. [MQTT-4.7.1-1 v5]
    private static func areWildcardsWhole(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Bool {
        let count = bytes.count
        for index in start..<count {
            let byte = bytes[index]
            guard byte == TextScan.wildcardOne || byte == TextScan.wildcardMany else { continue }
            let isLast = index &+ 1 == count
            guard index == start || bytes[index &- 1] == TextScan.levelSeparator else { return false }
            guard isLast || (byte == TextScan.wildcardOne && bytes[index &+ 1] == TextScan.levelSeparator) else { return false }
        }
        return true
    }

    static let sharePrefix = Array("$share/".utf8)
}
