import MQTTCodec

extension TopicName {
    /// The topic as it is called inside the broker, behind a listener's mount point; nil if that is too long to be a topic.
    func mounted(_ mountPoint: [UInt8]) -> TopicName? {
        mountPoint.isEmpty ? self : TopicName(mountPoint + bytes)
    }
}
