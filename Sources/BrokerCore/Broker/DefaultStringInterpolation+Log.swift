import MQTTCodec

/// The core makes strings for the log alone: what a peer has named goes into them as the log shows it.
extension DefaultStringInterpolation {
    mutating func appendInterpolation(_ text: EncodedString) { appendInterpolation(LoggedText(text.bytes)) }

    mutating func appendInterpolation(_ topic: TopicName) { appendInterpolation(LoggedText(topic.bytes)) }

    mutating func appendInterpolation(_ filter: TopicFilter) { appendInterpolation(LoggedText(filter.bytes)) }
}
