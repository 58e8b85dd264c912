internal import Bytes
public import ClientCore
public import MQTTCodec

/// A message of the outbox that the server has refused, as it is stored until its owner has seen it.
///
///     key: number      body: fields; the User Properties in one, each name and value behind its length in four bytes
public struct RefusedRow: Hashable, Sendable {
    /// Its place among those that were refused.
    public var number: UInt64
    public var publication: Publication
    public var reason: ReasonCode
    /// What the server said beside its reason.
    public var texts: AnswerTexts?
    /// In milliseconds since 1970.
    public var refusedAt: UInt64

    public init(_ number: UInt64, _ publication: Publication, _ reason: ReasonCode, _ texts: AnswerTexts?, refusedAt: UInt64) {
        (self.number, self.publication, self.reason, self.texts) = (number, publication, reason, texts)
        self.refusedAt = refusedAt
    }

    /// A row of the table `refusal`; nil if it is none.
    public init?(_ row: StoreRow) {
        guard let number = row.key.lastNumber, let fields = Fields(body: row.body),
            let publication = fields.publication
        else { return nil }
        let texts = AnswerTexts(words: fields.words, userProperties: fields.userProperties ?? [])
        self.init(
            number, publication, ReasonCode(rawValue: fields.reason), texts == AnswerTexts() ? nil : texts,
            refusedAt: fields.refusedAt)
    }

    var row: StoreRow {
        let properties = texts?.userProperties ?? []
        let fields = Fields(
            refusedAt: refusedAt, reason: reason.rawValue, words: texts?.words,
            userProperties: properties.isEmpty ? nil : properties, publication: publication)
        return StoreRow(StoreKey(number), fields.encodedFields)
    }

    /// What a row says of a message.
    private struct Fields: FieldCoded {
        var refusedAt: UInt64 = 0
        var reason: UInt8 = 0
        var words: String?
        var userProperties: [UserProperty]?
        var publication: Publication?

        static let blank = Fields()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &refusedAt)
            coder.field(2, &reason)
            coder.field(3, &words)
            coder.field(4, &userProperties, as: Self.bytes, Self.properties)
            coder.field(5, &publication, as: { StoredPublication($0).encodedFields }, { StoredPublication(body: $0)?.publication })
        }

        private static func bytes(_ properties: [UserProperty]) -> [UInt8] {
            var writer = RowWriter()
            for property in properties {
                writer.write(property.name.bytes)
                writer.write(property.value.bytes)
            }
            return writer.bytes
        }

        private static func properties(_ bytes: [UInt8]) -> [UserProperty]? {
            var reader = RowReader(bytes)
            var properties: [UserProperty] = []
            while let name = reader.field() {
                guard let name = EncodedString(name), let value = reader.field().flatMap({ EncodedString($0) }) else { return nil }
                properties.append(UserProperty(name: name, value: value))
            }
            return reader.rest().isEmpty ? properties : nil
        }
    }
}

/// The messages of an outbox that the server has refused and whose owner has not let go of yet: which rows stay, which
/// go.
///
/// A value without store: it says what is to be written. Invariant: not more than `Limits.refusedMessagesMax` of
/// together not more than `Limits.refusedBytesMax` are kept; the oldest go first.
public struct RefusedMessages: Sendable {
    private var kept: [(number: UInt64, byteCount: Int)] = []
    private var byteCount = 0
    private var lastNumber: UInt64 = 0

    /// Reads the refused messages that a store has, whatever its bounds were.
    public init(in storage: any ClientStorage) throws(StoreError) {
        let found = try storage.rows(StoreQuery(.refusal))
        for row in found.rows { if let number = row.key.lastNumber { keep(number, row.body.count) } }
        lastNumber = max(lastNumber, found.damages.compactMap(\.key.lastNumber).max() ?? 0)
    }

    public var count: Int { kept.count }

    /// Keeps a message, and forgets the oldest where these are too many.
    public mutating func add(
        _ publication: Publication, _ reason: ReasonCode, _ texts: AnswerTexts?, now: UInt64
    ) -> [StoreChange] {
        let row = RefusedRow(lastNumber + 1, publication, reason, texts, refusedAt: now).row
        keep(lastNumber + 1, row.body.count)
        var changes: [StoreChange] = [.put(.refusal, row.key, row.body)]
        var surplus = 0
        while kept.count - surplus > Limits.refusedMessagesMax || (byteCount > Limits.refusedBytesMax && kept.count - surplus > 1) {
            byteCount -= kept[surplus].byteCount
            changes.append(.remove(.refusal, StoreKey(kept[surplus].number)))
            surplus += 1
        }
        kept.removeFirst(surplus)
        return changes
    }

    /// Forgets one whose owner has seen it; nil if it is gone already.
    public mutating func remove(_ number: UInt64) -> StoreChange? {
        guard let index = kept.firstIndex(where: { $0.number == number }) else { return nil }
        byteCount -= kept.remove(at: index).byteCount
        return .remove(.refusal, StoreKey(number))
    }

    private mutating func keep(_ number: UInt64, _ bytes: Int) {
        kept.append((number, bytes))
        byteCount += bytes
        lastNumber = max(lastNumber, number)
    }
}

extension Limits {
    /// Messages that the server has refused and whose owner has not let go of; then the oldest are forgotten.
    static let refusedMessagesMax = 1000

    /// Bytes of their rows; then the same, but for one message that is larger alone.
    static let refusedBytesMax = 4 << 20
}
