public import Bytes
public import ClientCore
public import MQTTCodec

/// What lists in a field are made of: numbers with the highest byte first, bytes behind their length in four.
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

/// A message in a row, as fields; the payload has the last tag, as it is the longest.
struct StoredPublication: FieldCoded {
    var publication: Publication
    /// Whether the server has sent it again.
    var duplicate = false
    /// When it is too old, in milliseconds since 1970; `UInt64.max` for never.
    var expiresAt = UInt64.max
    /// When it came, in milliseconds since 1970; 0 where that is not stored.
    var arrivedAt: UInt64 = 0

    init(_ publication: Publication) { self.publication = publication }

    static var blank: StoredPublication { StoredPublication(Publication("-")) }

    mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &publication.topic, as: \.bytes, { TopicName($0) })
        var qos = publication.qos.rawValue
        coder.field(2, &qos, mostly: 0)
        if let known = QoS(rawValue: qos) { publication.qos = known } else { coder.refuse() }
        coder.field(3, &publication.retain, mostly: false)
        coder.field(4, &duplicate, mostly: false)
        coder.field(5, &expiresAt, mostly: .max)
        coder.field(6, &arrivedAt, mostly: 0)
        var content = publication.hasProperties ? publication.properties.encodedContent() : []
        coder.field(7, &content, mostly: [])
        if !content.isEmpty, !publication.hasProperties {
            if let properties = Properties(publishContent: content) { publication.properties = properties } else { coder.refuse() }
        }
        coder.field(Self.payloadTag, &publication.payload, mostly: Payload())
    }

    private static let payloadTag: UInt8 = 32

    /// Bytes of the fields of a message that neither is a duplicate nor has a time, counted without making them.
    ///
    /// - Parameter propertyByteCount: of its properties, as they will be.
    static func byteCount(_ publication: Publication, propertyByteCount: Int) -> Int {
        1 + size(publication.topic.bytes.count) + (publication.qos == .atMostOnce ? 0 : size(1))
            + (publication.retain ? size(1) : 0)
            + (propertyByteCount == 0 ? 0 : size(propertyByteCount))
            + (publication.payload.isEmpty ? 0 : size(publication.payload.count))
    }

    /// Bytes of a field: its tag, its value, and the length of that, seven bits a byte.
    private static func size(_ count: Int) -> Int { 1 + max(1, (Int.bitWidth - count.leadingZeroBitCount + 6) / 7) + count }
}

extension Payload: FieldValue {
    public func append(to bytes: inout [UInt8]) { withUnsafeBytes { bytes.append(contentsOf: $0) } }

    public init?(field bytes: UnsafeRawBufferPointer) { self.init(copying: bytes) }
}

/// A row that says one number.
struct NumberRow: FieldCoded {
    var number: UInt64 = 0

    init(_ number: UInt64 = 0) { self.number = number }

    static let blank = NumberRow()

    mutating func code(_ coder: inout some FieldCoder) { coder.field(1, &number) }

    /// The number of a row's body; nil if it says none.
    static func number(_ body: [UInt8]) -> UInt64? { NumberRow(body: body)?.number }
}

extension FieldCoded {
    /// Reads a row's body, or a part of it; nil if it is none.
    init?(body: some Sequence<UInt8>) {
        let read = body.withContiguousStorageIfAvailable { Self(fields: UnsafeRawBufferPointer($0)) }
        guard let value = read ?? Array(body).withUnsafeBytes({ Self(fields: $0) }) else { return nil }
        self = value
    }
}

/// The answer to a request, as it is stored to be given again.
///
///     key: scope, topic, hash of the request      body: fields
///
/// Of two requests with the same hash the later one is stored.
public struct AnswerRow: Hashable, Sendable {
    public var key: AnswerTable.Key
    public var answer: AnswerTable.Answer

    public init(_ key: AnswerTable.Key, _ answer: AnswerTable.Answer) { (self.key, self.answer) = (key, answer) }

    /// A row of the table `answer`; nil if it is none.
    public init?(_ row: StoreRow) {
        guard let scope = row.key.text(behind: StoreKey()),
            let topic = row.key.text(behind: StoreKey().text(scope)).flatMap({ TopicName($0) }), let fields = Fields(body: row.body)
        else { return nil }
        key = AnswerTable.Key(scope: String(decoding: scope, as: UTF8.self), topic: topic, request: fields.request)
        answer = AnswerTable.Answer(fields.answer, storedAt: fields.storedAt)
    }

    public var put: StoreChange {
        let fields = Fields(storedAt: answer.storedAt, request: key.request, answer: answer.payload)
        return .put(.answer, Self.rowKey(key), fields.encodedFields)
    }

    /// What a row says.
    private struct Fields: FieldCoded {
        var storedAt: UInt64 = 0
        var request = Payload()
        var answer = Payload()

        static let blank = Fields()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &storedAt)
            coder.field(2, &request, mostly: Payload())
            coder.field(3, &answer, mostly: Payload())
        }
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
///     key: endpoint, topic      body: fields
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
        guard let name = row.key.text(behind: StoreKey(endpoint)), let topic = TopicName(name), let fields = Fields(body: row.body)
        else { return nil }
        self.init(topic, generation: fields.generation, EntryContent(fields.payload, contentType: fields.contentType))
    }

    public func put(in endpoint: String) -> StoreChange {
        let fields = Fields(generation: generation, contentType: content.contentType, payload: content.payload)
        return .put(.entry, Self.key(topic, in: endpoint), fields.encodedFields)
    }

    /// What a row says.
    private struct Fields: FieldCoded {
        var generation: UInt64 = 0
        var contentType: EncodedString?
        var payload = Payload()

        static let blank = Fields()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &generation)
            coder.field(2, &contentType, as: \.bytes, { EncodedString($0) })
            coder.field(3, &payload, mostly: Payload())
        }
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
        guard let fields = Fields(body: row.body) else { return nil }
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
///     key: number      body: expires at 8, as the store looks for the earliest | message's fields
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
        guard let number = row.key.lastNumber, row.body.count >= 8, let stored = StoredPublication(body: row.body.dropFirst(8))
        else { return nil }
        let expiresAt = StoreMeasure.head(row.body)
        self.init(number, stored.publication, expiresAt: expiresAt == .max ? nil : expiresAt)
    }

    var row: StoreRow {
        let expiry = withUnsafeBytes(of: (expiresAt ?? .max).bigEndian) { Array($0) }
        return StoreRow(StoreKey(number), expiry + StoredPublication(publication).encodedFields)
    }

    /// How many bytes a row has.
    ///
    /// - Parameter propertyByteCount: of the message's properties, as they will be.
    static func byteCount(_ publication: Publication, propertyByteCount: Int) -> Int {
        8 + StoredPublication.byteCount(publication, propertyByteCount: propertyByteCount)
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
