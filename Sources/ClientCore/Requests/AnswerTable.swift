public import MQTTCodec

/// The latest answer to each request, so that it can be given again without asking.
///
/// A value without clock: times are milliseconds since 1970, from the caller. Invariant: not more than `countMax` answers of together not more than
/// `bytesMax` are kept; those that were stored longest ago go first.
public struct AnswerTable: Sendable {
    /// What makes a request the same: for whom, where, and what is asked.
    public struct Key: Hashable, Sendable {
        public var scope: String
        public var topic: TopicName
        public var request: Payload

        public init(scope: String, topic: TopicName, request: Payload) {
            (self.scope, self.topic, self.request) = (scope, topic, request)
        }
    }

    public struct Answer: Hashable, Sendable {
        public var payload: Payload
        public var storedAt: UInt64

        public init(_ payload: Payload, storedAt: UInt64) { (self.payload, self.storedAt) = (payload, storedAt) }
    }

    public let countMax: Int
    /// Of requests, answers, topics and scopes.
    public let bytesMax: Int
    public private(set) var byteCount = 0
    private var entries: [Key: (answer: Answer, number: UInt64)] = [:]
    private var lastNumber: UInt64 = 0

    public init(countMax: Int, bytesMax: Int) { (self.countMax, self.bytesMax) = (countMax, bytesMax) }

    public var count: Int { entries.count }

    public func answer(_ key: Key) -> Answer? { entries[key]?.answer }

    /// Keeps an answer in the place of the one before. Returns what had to go for it: itself, if it alone is too large.
    public mutating func put(_ key: Key, _ answer: Answer) -> [Key] {
        remove(key)
        lastNumber += 1
        entries[key] = (answer, lastNumber)
        byteCount += Self.bytes(key, answer)
        var gone: [Key] = []
        while entries.count > countMax || byteCount > bytesMax,
            let oldest = entries.min(by: { $0.value.number < $1.value.number })?.key
        {
            remove(oldest)
            gone.append(oldest)
        }
        return gone
    }

    /// Forgets an answer. Returns whether there was one.
    @discardableResult
    public mutating func remove(_ key: Key) -> Bool {
        guard let old = entries.removeValue(forKey: key) else { return false }
        byteCount -= Self.bytes(key, old.answer)
        return true
    }

    /// Forgets all answers of a scope.
    public mutating func removeAll(scope: String) {
        for key in entries.keys where key.scope == scope { remove(key) }
    }

    private static func bytes(_ key: Key, _ answer: Answer) -> Int {
        key.scope.utf8.count + key.topic.bytes.count + key.request.count + answer.payload.count
    }
}
