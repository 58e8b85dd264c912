internal import Platform

/// One subscription of a collection: a collection makes another when it asks for everything again.
final class CollectionSubscription: Sendable {
    /// On which a Martlet broker tells that all retained messages have come: the SUBSCRIBE names this topic beside the filter. To other servers it
    /// is a filter on which nothing comes.
    let mark: TopicName
    /// On which the collection's own message comes back.
    let fence: TopicName?
    let messages: Messages
    let progress = Locked(Progress())

    struct Progress {
        /// How many retained messages have come.
        var retainedCount = 0
        /// The Subscription Identifier of the fence message, 0 for none; nil before it comes.
        var fenceIdentifier: UInt32?
        /// Those who read and wait for this subscription.
        var tasks: [Task<Void, Never>] = []
    }

    /// - Parameter chance: random bits, which no other subscription has.
    init(_ messaging: any Messaging, _ filter: TopicFilter, _ settings: CollectionSettings, chance: UInt64) {
        let nonce = String(chance, radix: 16)
        mark = TopicName("$SYS/broker/subscribed/\(nonce)") ?? "$SYS/broker/subscribed/0"
        fence = settings.fence.flatMap { TopicName("\($0)/\(nonce)") }
        // What waits is lost with the process, and so is the collection: the next one asks for everything.
        var subscription = SubscriptionSettings(
            qos: max(settings.qos, .atLeastOnce),
            backlog: .hold(Limits.collectionBacklogMax, bytes: Limits.collectionBacklogBytesMax), acknowledging: .atOnce)
        subscription.retainAsPublished = true
        // Who asks a broker for the other two may be refused.
        subscription.optionalFilterCount = fence == nil ? 1 : 2
        let filters = [filter] + [mark, fence].compactMap { $0.flatMap { TopicFilter($0.bytes) } }
        messages = messaging.messages(filters, subscription)
    }

    /// Whether the server will send the mark, by what it has granted. A Martlet broker grants QoS 0 for it, whatever is asked.
    func willBeMarked(_ granted: [ReasonCode]) -> Bool {
        granted.count >= 2 && granted[1] == .grantedQoS0 && (granted[0] == .grantedQoS1 || granted[0] == .grantedQoS2)
    }

    func cancel() {
        messages.cancel()
        for task in progress.withLock({ $0.tasks }) { task.cancel() }
    }
}
