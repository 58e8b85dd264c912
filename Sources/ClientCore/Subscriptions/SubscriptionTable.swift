public import MQTTCodec

/// What a client's consumers have subscribed to, what of it the server knows, and for whom a message is.
///
/// Each consumer has a number, which is also the Subscription Identifier of its SUBSCRIBE. Consumers may ask for the
/// same filter: for the server it is one subscription, of whoever asked last, and it ends with the last who wants it.
///
/// ```
///   add ──► unasked ──asked──► awaited ──answered──► granted ──remove──► leaving (until UNSUBACK, if nobody else wants the filter)
///              ▲                  └── connection lost, session lost ──┐       │
///              └──────────────────────────────────────────────────────┘◄──────┘ session lost: granted is unasked too
/// ```
public struct SubscriptionTable: Sendable {
    enum State: Sendable {
        /// The server has to be told.
        case unasked
        /// SUBSCRIBE is on its way.
        case awaited
        /// The server has it, as far as it granted it.
        case granted
    }

    struct Consumer: Sendable {
        var filters: [TopicFilter]
        var options: SubscriptionOptions
        var state = State.unasked
    }

    private var consumers: [UInt32: Consumer] = [:]
    /// The consumers that want a filter, in the order in which they came.
    private var wanted: [TopicFilter: [UInt32]] = [:]
    /// What the server may have, because it was asked for it.
    private var known: Set<TopicFilter> = []
    /// Unsubscribed, and not answered: what still comes for them is nobody's.
    private var leaving: [TopicFilter: Int] = [:]
    /// In the order in which they came.
    private var unasked: [UInt32] = []
    /// For whom messages of a topic are, by their filters alone.
    private var audiences: [TopicName: [UInt32]] = [:]
    /// Of consumers whose filters nobody else wants, themselves: for whom messages with their number are.
    private var alone: [UInt32: [UInt32]] = [:]

    private var lastNumber: UInt32

    /// - Parameter chance: where the numbers begin. A session that outlives the process has those of an earlier one,
    ///   which are not to be met again.
    public init(chance: UInt64) { lastNumber = UInt32(chance % UInt64(Self.numberMax / 2)) }

    /// Whether there is no consumer.
    public var isEmpty: Bool { consumers.isEmpty }

    /// Adds a consumer. Its number is greater than all before, but for one time in a hundred million.
    public mutating func add(_ filters: [TopicFilter], _ options: SubscriptionOptions) -> UInt32 {
        let filters = filters.reduce(into: [TopicFilter]()) { unique, filter in
            if !unique.contains(filter) { unique.append(filter) }
        }
        repeat { lastNumber = lastNumber % Self.numberMax + 1 } while consumers[lastNumber] != nil
        let number = lastNumber
        consumers[number] = Consumer(filters: filters, options: options)
        for filter in filters { wanted[filter, default: []].append(number) }
        unasked.append(number)
        forgetAudiences()
        return number
    }

    /// Removes a consumer. Returns the filters that nobody wants any more and that the server may know: UNSUBSCRIBE is
    /// due, if there is a connection; `left` follows its answer.
    public mutating func remove(_ number: UInt32) -> [TopicFilter] {
        guard let consumer = consumers.removeValue(forKey: number) else { return [] }
        unasked.removeAll { $0 == number }
        forgetAudiences()
        var orphaned: [TopicFilter] = []
        for filter in consumer.filters {
            wanted[filter]?.removeAll { $0 == number }
            guard wanted[filter]?.isEmpty == true else { continue }
            wanted[filter] = nil
            if known.remove(filter) != nil { orphaned.append(filter) }
        }
        for filter in orphaned { leaving[filter, default: 0] += 1 }
        return orphaned
    }

    /// UNSUBACK has come for these filters.
    public mutating func left(_ filters: [TopicFilter]) {
        for filter in filters {
            guard let count = leaving[filter] else { continue }
            leaving[filter] = count > 1 ? count - 1 : nil
        }
    }

    /// The next SUBSCRIBE that is due, and whose; nil when there is none.
    public mutating func nextToAsk() -> (number: UInt32, subscriptions: [Subscription])? {
        guard !unasked.isEmpty else { return nil }
        let number = unasked.removeFirst()
        guard let consumer = consumers[number] else { return nextToAsk() }
        consumers[number]?.state = .awaited
        known.formUnion(consumer.filters)
        return (number, consumer.filters.map { Subscription(filter: $0, options: consumer.options) })
    }

    /// SUBACK has come for this consumer.
    public mutating func answered(_ number: UInt32) {
        guard consumers[number]?.state == .awaited else { return }
        consumers[number]?.state = .granted
    }

    /// Asks the server once more, and so for its retained messages.
    public mutating func askAgain(_ number: UInt32) {
        guard let state = consumers[number]?.state, state != .unasked else { return }
        consumers[number]?.state = .unasked
        unasked.append(number)
    }

    /// Another connection begins. What was granted is if the server has kept the session. Returns what it has not been
    /// told to forget.
    public mutating func connected(sessionPresent: Bool) -> [TopicFilter] {
        let forgotten = sessionPresent ? leaving.keys.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) } : []
        leaving = [:]
        if !sessionPresent { known = [] }
        for filter in forgotten where wanted[filter] == nil { leaving[filter] = 1 }
        for (number, consumer) in consumers where consumer.state == .awaited || (consumer.state == .granted && !sessionPresent) {
            consumers[number]?.state = .unasked
            unasked.append(number)
        }
        unasked.sort()
        return forgotten.filter { wanted[$0] == nil }
    }

    /// For whom a message is: those whose filters match, and of retained ones only whose SUBSCRIBE brought them. Where
    /// that asked for Retain As Published, the flag does not tell.
    ///
    /// - Parameters:
    ///   - topic: the message's.
    ///   - number: the first Subscription Identifier that came with it, 0 if none did.
    ///   - isRetained: its RETAIN flag.
    public mutating func audience(of topic: TopicName, number: UInt32, isRetained: Bool) -> [UInt32] {
        if number > 0 {
            if let known = alone[number] { return known }
            if let consumer = consumers[number] {
                if isAlone(consumer) {
                    alone[number] = [number]
                    return [number]
                }
                if isRetained, !consumer.options.retainAsPublished { return [number] }
            }
        }
        if let known = audiences[topic] { return known }
        var found: Set<UInt32> = []
        for (filter, numbers) in wanted where filter.matches(topic) { found.formUnion(numbers) }
        let audience = found.sorted()
        if audiences.count >= Self.audiencesMax { audiences = [:] }
        audiences[topic] = audience
        return audience
    }

    /// Whether a message without audience is for a filter that was given up just now.
    public func isLeaving(_ topic: TopicName) -> Bool { leaving.keys.contains { $0.matches(topic) } }

    /// Whether the consumer wants messages of that topic.
    public func wants(_ number: UInt32, _ topic: TopicName) -> Bool {
        consumers[number]?.filters.contains { $0.matches(topic) } ?? false
    }

    private mutating func forgetAudiences() { (audiences, alone) = ([:], [:]) }

    /// Whether nobody else wants any filter of the consumer.
    private func isAlone(_ consumer: Consumer) -> Bool { consumer.filters.allSatisfy { wanted[$0]?.count == 1 } }

    /// The largest Subscription Identifier.
    private static let numberMax: UInt32 = 268_435_455
    /// How many topics are remembered.
    private static let audiencesMax = 1000
}
