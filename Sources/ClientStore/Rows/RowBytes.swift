internal import Bytes
public import ClientCore
public import MQTTCodec

/// What a row's body is made of: numbers with the highest byte first, bytes behind their length in four.
struct RowWriter {
    private(set) var bytes: [UInt8] = []

    init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    mutating func write(_ number: UInt8) { bytes.append(number) }

    mutating func write(_ number: UInt16) { withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) } }

    mutating func write(_ number: UInt32) { withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) } }

    mutating func write(_ number: UInt64) { withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) } }

    mutating func write(_ field: some Collection<UInt8>) {
        write(UInt32(truncatingIfNeeded: field.count))
        bytes.append(contentsOf: field)
    }

    /// What stands at the end, without a length.
    mutating func write(rest: some Collection<UInt8>) { bytes.append(contentsOf: rest) }
}

/// Reads the same. A body that ends too early gives nil: it is no row of this version.
struct RowReader {
    private let bytes: ArraySlice<UInt8>
    private var position: Int

    init(_ bytes: [UInt8]) { (self.bytes, position) = (bytes[...], 0) }

    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(_ type: Number.Type = Number.self) -> Number? {
        let size = MemoryLayout<Number>.size
        guard bytes.endIndex - position >= size else { return nil }
        defer { position += size }
        return bytes[position..<(position + size)].reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }

    mutating func field() -> ArraySlice<UInt8>? {
        guard let count = number(UInt32.self), bytes.endIndex - position >= Int(count) else { return nil }
        defer { position += Int(count) }
        return bytes[position..<(position + Int(count))]
    }

    mutating func rest() -> ArraySlice<UInt8> {
        defer { position = bytes.endIndex }
        return bytes[position...]
    }
}

/// A message in a row.
///
///     flags 1 | expires at 8, if flagged | topic | properties, without their length | payload
///     flags: QoS in bits 0 and 1, retain in 2, duplicate in 3, whether it expires in 4; that in milliseconds since 1970
enum StoredPublication {
    static func write(_ publication: Publication, duplicate: Bool = false, expiresAt: UInt64 = .max, to writer: inout RowWriter) {
        writer.write(publication.qos.rawValue | (publication.retain ? 4 : 0) | (duplicate ? 8 : 0) | (expiresAt < .max ? 16 : 0))
        if expiresAt < .max { writer.write(expiresAt) }
        writer.write(publication.topic.bytes)
        writer.write(publication.hasProperties ? publication.properties.encodedContent() : [])
        writer.write(rest: publication.payload)
    }

    static func read(_ reader: inout RowReader) -> (publication: Publication, duplicate: Bool, expiresAt: UInt64)? {
        guard let flags = reader.number(UInt8.self), let qos = QoS(rawValue: flags & 3),
            let expiresAt = flags & 16 == 0 ? UInt64.max : reader.number(UInt64.self), let bytes = reader.field(),
            let topic = TopicName(bytes), let content = reader.field()
        else { return nil }
        var publication = Publication(topic, Payload(reader.rest()), qos: qos, retain: flags & 4 != 0)
        if !content.isEmpty {
            guard let properties = Properties(publishContent: Array(content)) else { return nil }
            publication.properties = properties
        }
        return (publication, flags & 8 != 0, expiresAt)
    }
}

/// The answer to a request, as it is stored to be given again.
///
///     key: scope, topic, hash of the request      body: stored at 8 | request | answer
///
/// Of two requests with the same hash the later one is stored.
public struct AnswerRow: Hashable, Sendable {
    public var key: AnswerTable.Key
    public var answer: AnswerTable.Answer

    public init(_ key: AnswerTable.Key, _ answer: AnswerTable.Answer) { (self.key, self.answer) = (key, answer) }

    /// A row of the table `answer`; nil if it is none.
    public init?(_ row: StoreRow) {
        var reader = RowReader(row.body)
        guard let scope = row.key.text(behind: StoreKey()),
            let topic = row.key.text(behind: StoreKey().text(scope)).flatMap({ TopicName($0) }),
            let storedAt = reader.number(UInt64.self), let request = reader.field()
        else { return nil }
        key = AnswerTable.Key(scope: String(decoding: scope, as: UTF8.self), topic: topic, request: Payload(Array(request)))
        answer = AnswerTable.Answer(Payload(Array(reader.rest())), storedAt: storedAt)
    }

    public var put: StoreChange {
        var writer = RowWriter(capacity: 12 + key.request.count + answer.payload.count)
        writer.write(answer.storedAt)
        writer.write(key.request)
        writer.write(rest: answer.payload)
        return .put(.answer, Self.rowKey(key), writer.bytes)
    }

    public static func remove(_ key: AnswerTable.Key) -> StoreChange { .remove(.answer, rowKey(key)) }

    /// Removes all of a scope.
    public static func removeAll(scope: String) -> StoreChange { .removeAll(.answer, under: scopeKey(scope)) }

    private static func rowKey(_ key: AnswerTable.Key) -> StoreKey {
        // FNV-1a, the same in every process.
        let hash = key.request.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return scopeKey(key.scope).text(key.topic.bytes).number(hash)
    }

    /// A text of a key has no byte 0.
    private static func scopeKey(_ scope: String) -> StoreKey { StoreKey().text(scope.utf8.filter { $0 != 0 }) }
}

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

/// What a message of the outbox belongs to beside it, for as long as it waits or is on its way.
///
///     key: number in the outbox      body: fields
public enum OutboxOwner: Hashable, Sendable {
    /// It is a local write to the collection of a filter.
    case collection(String)
    /// It is one's own message in an inbox: where it stands there.
    case inbox(String, conversation: String, number: UInt64)

    /// A row of the table `owner`; nil if it is none.
    public init?(_ row: StoreRow) {
        guard let fields = row.body.withUnsafeBytes({ Fields(fields: $0) }) else { return nil }
        switch (fields.collection, fields.inbox) {
        case (let name?, nil): self = .collection(name)
        case (nil, let name?): self = .inbox(name, conversation: fields.conversation, number: fields.number)
        default: return nil
        }
    }

    /// Says that a message of the outbox belongs to it.
    public func put(_ number: UInt64) -> StoreChange {
        var fields = Fields()
        switch self {
        case .collection(let name): fields.collection = name
        case .inbox(let name, let conversation, let place):
            (fields.inbox, fields.conversation, fields.number) = (name, conversation, place)
        }
        return .put(.owner, StoreKey(number), fields.encodedFields)
    }

    /// What a row says: the filter of a collection, or a place in an inbox.
    private struct Fields: FieldCoded {
        var collection: String?
        var inbox: String?
        var conversation = ""
        var number: UInt64 = 0

        static let blank = Fields()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &collection)
            coder.field(2, &inbox)
            coder.field(3, &conversation, mostly: "")
            coder.field(4, &number, mostly: 0)
        }
    }

    /// The message is over.
    public static func remove(_ number: UInt64) -> StoreChange { .remove(.owner, StoreKey(number)) }

    /// All that belong to something, by their numbers in the outbox.
    public static func all(in storage: any ClientStorage) throws(StoreError) -> [(number: UInt64, owner: OutboxOwner)] {
        try storage.rows(StoreQuery(.owner)).rows.compactMap { row in
            guard let number = row.key.lastNumber, let owner = OutboxOwner(row) else { return nil }
            return (number, owner)
        }
    }

    /// The messages that wait or are on their way and belong to a collection, in the order of the outbox.
    public static func writes(to collection: String, in storage: any ClientStorage) throws(StoreError) -> [OutboxMessage] {
        var messages: [OutboxMessage] = []
        for (number, owner) in try all(in: storage) where owner == .collection(collection) {
            let row = try storage.rows(StoreQuery(.outbox, at: StoreKey(number))).rows.first
            if let message = row.flatMap({ OutboxMessage($0) }) { messages.append(message) }
        }
        return messages
    }
}

/// A message that waits to be sent, as it is stored.
///
///     key: number      body: expires at 8 | message
public struct OutboxMessage: Hashable, Sendable {
    /// Its place in the outbox.
    public var number: UInt64
    public var publication: Publication
    /// When it is too old, in milliseconds since 1970; nil for never.
    public var expiresAt: UInt64?

    public init(_ number: UInt64, _ publication: Publication, expiresAt: UInt64? = nil) {
        (self.number, self.publication, self.expiresAt) = (number, publication, expiresAt)
    }

    /// A row of the table `outbox`; nil if it is none.
    public init?(_ row: StoreRow) {
        var reader = RowReader(row.body)
        guard let number = row.key.lastNumber, let expiresAt = reader.number(UInt64.self),
            let stored = StoredPublication.read(&reader)
        else { return nil }
        self.init(number, stored.publication, expiresAt: expiresAt == .max ? nil : expiresAt)
    }

    var row: StoreRow {
        var writer = RowWriter(capacity: 32 + publication.topic.bytes.count + publication.payload.count)
        writer.write(expiresAt ?? UInt64.max)
        StoredPublication.write(publication, to: &writer)
        return StoreRow(StoreKey(number), writer.bytes)
    }

    /// What all receivers know the message by, however often it comes; nil if it was not given any.
    public var identifier: String? { publication.properties.messageIdentifier }

    /// The message as it is to be sent now: what is left of its time is its Message Expiry Interval, and at least a
    /// second.
    public func publication(at now: UInt64) -> Publication { publication.aged(to: now, expiresAt: expiresAt ?? .max) }
}

extension Properties {
    /// The name of the User Property that says when an inbox sent a message, in milliseconds since 1970.
    public static let sentAtName: EncodedString = "sent-at"

    /// When a message was sent, by its publisher's clock, in milliseconds since 1970; nil where it does not say.
    public var sentAt: UInt64? {
        get { userProperties.first { $0.name == Self.sentAtName }.flatMap { UInt64($0.value.description) } }
        set {
            userProperties.removeAll { $0.name == Self.sentAtName }
            if let value = newValue.flatMap({ EncodedString("\($0)") }) {
                userProperties.append(UserProperty(name: Self.sentAtName, value: value))
            }
        }
    }

    /// The name of the User Property that all messages from an outbox have: their publisher's own identifier for the
    /// message.
    public static let messageIdentifierName: EncodedString = "message-id"

    /// What the publisher knows the message by; nil where it does not say.
    public var messageIdentifier: String? {
        get { userProperties.first { $0.name == Self.messageIdentifierName }?.value.description }
        set {
            userProperties.removeAll { $0.name == Self.messageIdentifierName }
            if let value = newValue.flatMap({ EncodedString($0) }) {
                userProperties.append(UserProperty(name: Self.messageIdentifierName, value: value))
            }
        }
    }
}
