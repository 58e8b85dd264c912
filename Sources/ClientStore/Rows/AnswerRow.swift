public import ClientCore
internal import MQTTCodec

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
