/// Fields with their own copy of the bytes, for packets off the way of a message.
extension PacketReader {
    mutating func readString() throws(WireError) -> EncodedString {
        try EncodedString(checked: Array(readText()))
    }

    mutating func readBinaryData() throws(WireError) -> [UInt8] {
        try Array(readLengthPrefixed())
    }

    mutating func readTopicName() throws(WireError) -> TopicName {
        let name = try readLengthPrefixed()
        if let error = TopicValidation.validateName(name) { throw error }
        return TopicName(checked: Array(name))
    }

    mutating func readTopicFilter() throws(WireError) -> TopicFilter {
        let text = try readText()  // [MQTT-3.8.3-1 v5] [MQTT-3.10.3-1 v5]
        guard let filter = TopicFilter(validating: text) else { throw .invalidTopicFilter }
        return filter
    }
}
