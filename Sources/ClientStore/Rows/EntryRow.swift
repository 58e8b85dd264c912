public import ClientCore
public import MQTTCodec

/// An entry of a collection, as it is stored: the last message of a topic that an endpoint's filter matches.
///
///     key: endpoint, topic      body: generation 8 | Content Type, 4 + its length; empty for none | payload
public struct EntryRow: Hashable, Sendable {
    public var topic: TopicName
    /// Which picture of the topic tree it belongs to; those of earlier ones that did not come again are gone.
    public var generation: UInt64
    public var content: EntryContent

    public init(_ topic: TopicName, generation: UInt64, _ content: EntryContent) {
        (self.topic, self.generation, self.content) = (topic, generation, content)
    }

    /// A row of the table; nil if it is none of this endpoint.
    ///
    /// - `endpoint`: what tells the endpoint from others, such as its filter.
    public init?(_ row: StoreRow, of endpoint: String) {
        var reader = RowReader(row.body)
        guard let name = row.key.text(behind: StoreKey(endpoint)), let topic = TopicName(name),
            let generation = reader.number(UInt64.self), let contentType = reader.field().flatMap({ EncodedString($0) })
        else { return nil }
        self.init(
            topic, generation: generation,
            EntryContent(Payload(Array(reader.rest())), contentType: contentType.bytes.isEmpty ? nil : contentType))
    }

    public func put(in endpoint: String) -> StoreChange {
        let contentType = content.contentType?.bytes ?? []
        var writer = RowWriter(capacity: 12 + contentType.count + content.payload.count)
        writer.write(generation)
        writer.write(contentType)
        writer.write(rest: content.payload)
        return .put(.entry, Self.key(topic, in: endpoint), writer.bytes)
    }

    public static func remove(_ topic: TopicName, from endpoint: String) -> StoreChange {
        .remove(.entry, key(topic, in: endpoint))
    }

    /// All entries of an endpoint, by topic.
    public static func all(of endpoint: String) -> StoreQuery { StoreQuery(.entry, under: StoreKey(endpoint)) }

    private static func key(_ topic: TopicName, in endpoint: String) -> StoreKey { StoreKey(endpoint).text(topic.bytes) }
}
