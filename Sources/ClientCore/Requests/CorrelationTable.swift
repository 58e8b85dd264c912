import Bytes
public import MQTTCodec

/// The requests of a client that have no answer yet, each found by the Correlation Data that its answer repeats.
///
/// Inlinable where it is on a request's way: of a waiter's type that is known it costs a fifth.
///
/// Invariant: a request ends once, which gives its waiter out; an answer that comes later finds nobody and is counted
/// as late.
public struct CorrelationTable<Waiter: Sendable>: Sendable {
    /// So many requests may be open at once; what is more is refused.
    @inlinable
    public static var openMax: Int { 65_536 }

    @usableFromInline
    struct Entry: Sendable {
        @usableFromInline let waiter: Waiter
        @usableFromInline let deadline: Duration
        @usableFromInline let byteCount: Int

        @inlinable
        init(_ waiter: Waiter, _ deadline: Duration, _ byteCount: Int) {
            (self.waiter, self.deadline, self.byteCount) = (waiter, deadline, byteCount)
        }
    }

    @usableFromInline var entries: [UInt64: Entry] = [:]
    @usableFromInline var lastNumber: UInt64 = 0
    @usableFromInline var counts = (late: 0, strange: 0)
    @usableFromInline let bytesMax: Int
    @usableFromInline var openBytes = 0
    /// Bytes of the requests that have not ended.
    public var byteCount: Int { openBytes }
    /// How many answers came to requests that had ended.
    public var lateCount: Int { counts.late }
    /// How many answers came to no request of this table.
    public var strangeCount: Int { counts.strange }

    /// - Parameter bytesMax: how many bytes the open requests may have together; what is more is refused, unless it is
    ///   alone.
    @inlinable
    public init(bytesMax: Int = .max) { self.bytesMax = bytesMax }

    /// How many requests have not ended.
    public var count: Int { entries.count }

    /// Begins a request, and returns its number; nil if too many are open.
    ///
    /// - Parameters:
    ///   - waiter: who hears of its end.
    ///   - deadline: when it ends by itself, as `endDue` and `nextDeadline` count time.
    ///   - byteCount: what it counts against the bound.
    @inlinable
    public mutating func open(_ waiter: Waiter, deadline: Duration, byteCount: Int = 0) -> UInt64? {
        guard entries.count < Self.openMax, entries.isEmpty || openBytes + byteCount <= bytesMax else { return nil }
        lastNumber += 1
        entries[lastNumber] = Entry(waiter, deadline, byteCount)
        openBytes += byteCount
        return lastNumber
    }

    /// Whether the request has not ended.
    @inlinable
    public func isOpen(_ number: UInt64) -> Bool { entries[number] != nil }

    /// Ends a request, and returns who waits for it; nil if it has ended.
    @inlinable
    public mutating func end(_ number: UInt64) -> Waiter? {
        guard let entry = entries.removeValue(forKey: number) else { return nil }
        openBytes -= entry.byteCount
        return entry.waiter
    }

    /// Ends the request whose answer has this Correlation Data; without one the answer is counted as late or strange.
    @inlinable
    public mutating func answer(_ correlationData: [UInt8]?) -> Waiter? {
        guard let number = correlationData.flatMap(Self.number), number > 0, number <= lastNumber else {
            counts.strange += 1
            return nil
        }
        let waiter = end(number)
        if waiter == nil { counts.late += 1 }
        return waiter
    }

    /// Ends all requests, and returns who waits, in the order in which the requests began.
    public mutating func endAll() -> [Waiter] {
        entries.keys.sorted().compactMap { end($0) }
    }

    /// Ends all requests whose deadline has come, and returns who waits, in the order in which the requests began.
    /// Linear in those that are open.
    public mutating func endDue(now: Duration) -> [Waiter] {
        entries.filter { $0.value.deadline <= now }.keys.sorted().compactMap { end($0) }
    }

    /// The next deadline; nil if no request is open. Linear in those that are.
    public var nextDeadline: Duration? { entries.values.lazy.map(\.deadline).min() }

    /// What a request carries and its answer repeats: the number in 8 bytes, the highest first.
    public static func correlationData(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    @usableFromInline
    static func number(_ correlationData: [UInt8]) -> UInt64? {
        guard correlationData.count == 8 else { return nil }
        return correlationData.reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// The latest answer to each request, so that it can be given again without asking.
///
/// A value without clock: times are milliseconds since 1970, from the caller. Invariant: not more than `countMax`
/// answers of together not more than `bytesMax` are kept; those that were stored longest ago go first.
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

/// The answers that a responder gave lately, so that a request that comes again is answered and not run again.
///
/// Invariant: not more than `countMax` answers of together not more than `bytesMax` are kept; the oldest go first.
/// Requests that run are known until they end, and not counted.
public struct ResponseCache: Sendable {
    /// What makes a request the same: to whom it is answered, and which one of theirs it is.
    public struct Key: Hashable, Sendable {
        public var responseTopic: TopicName
        public var correlationData: [UInt8]

        public init(responseTopic: TopicName, correlationData: [UInt8]) {
            (self.responseTopic, self.correlationData) = (responseTopic, correlationData)
        }
    }

    /// What a responder does with a request that has come.
    public enum Admission: Hashable, Sendable {
        /// It is new: run it, and say `finish`.
        case run
        /// It runs already, and its answer will come.
        case isRunning
        /// It ran, and this was the answer.
        case answered(Publication)
    }

    private enum Entry {
        case running
        case answered(Publication)
    }

    public let countMax: Int
    /// Of payloads, topics and Correlation Data.
    public let bytesMax: Int
    public private(set) var bytes = 0
    private var entries: [Key: Entry] = [:]
    /// The keys of answers, the oldest first.
    private var order = Deque<Key>()

    public init(countMax: Int = 1000, bytesMax: Int = 4 << 20) { (self.countMax, self.bytesMax) = (countMax, bytesMax) }

    /// How many answers are kept.
    public var count: Int { order.count }

    public mutating func admit(_ key: Key) -> Admission {
        switch entries[key] {
        case nil:
            entries[key] = .running
            return .run
        case .running: return .isRunning
        case .answered(let answer): return .answered(answer)
        }
    }

    /// Keeps the answer of a request that ran.
    public mutating func finish(_ key: Key, _ answer: Publication) {
        guard case .running = entries[key] else { return }
        entries[key] = .answered(answer)
        order.append(key)
        bytes += Self.bytes(key, answer)
        while count > countMax || bytes > bytesMax { forgetOldest() }
    }

    private mutating func forgetOldest() {
        guard let key = order.popFirst() else { return }
        if case .answered(let answer) = entries.removeValue(forKey: key) { bytes -= Self.bytes(key, answer) }
    }

    private static func bytes(_ key: Key, _ answer: Publication) -> Int {
        key.responseTopic.bytes.count + key.correlationData.count + answer.payload.count
    }
}
