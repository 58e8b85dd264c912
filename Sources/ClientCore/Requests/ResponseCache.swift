public import MQTTCodec

/// The answers that a responder gave lately, so that a request that comes again is answered and not run again.
///
/// Invariant: not more than `countMax` answers of together not more than `bytesMax` are kept; the oldest go first. Requests that run are
/// known until they end, and not counted.
public struct ResponseCache: Sendable {
    /// What makes a request the same: to whom it is answered, and which one of theirs it is.
    public struct Key: Hashable, Sendable {
        public var responseTopic: TopicName
        public var correlationData: [UInt8]

        public init(responseTopic: TopicName, correlationData: [UInt8]) {
            (self.responseTopic, self.correlationData) = (responseTopic, correlationData)
        }
    }

    /// What is to be done with a request.
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
    private var order = Queue<Key>()

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
