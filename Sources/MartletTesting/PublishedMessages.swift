internal import BrokerCore
internal import MQTTCodec
internal import Platform

/// What clients have published to a broker, in the order in which it took it.
final class PublishedMessages: Sendable {
    private let messages = Locked<[Publication]>([])

    var all: [Publication] { messages.value }

    func append(_ packet: PublishPacket) {
        guard let topic = TopicName(packet.topic.bytes) else { return }
        let publication = Publication(
            topic, Payload(packet.payload), qos: packet.qos, retain: packet.retain, properties: packet.properties)
        messages.withLock { $0.append(publication) }
    }

    func to(_ topic: TopicName) -> [Publication] { messages.withLock { $0.filter { $0.topic == topic } } }
}
