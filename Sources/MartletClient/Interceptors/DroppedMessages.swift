/// Messages that came and that nobody gets.
public struct DroppedMessages: Hashable, Sendable {
    /// Why nobody gets a message.
    public enum Reason: Hashable, Sendable {
        /// Its subscription had no room for it, or made room for a later one: see `SubscriptionSettings.Backlog`.
        case backlogFull
        /// No subscription wanted it: of a session that the server has kept, and for which none was declared in `ClientSettings.graceTime`. At QoS 1
        /// and 2 the server was told that it was taken.
        case noSubscription
    }

    /// Why nobody gets them.
    public var reason: Reason
    /// How many.
    public var count: Int
    /// The filters of the subscription; none where there was no subscription.
    public var filters: [TopicFilter]
    /// The topic of one of them, where there was no subscription.
    public var topic: TopicName?

    /// - Parameters:
    ///   - reason: why nobody gets them.
    ///   - count: how many they are.
    ///   - filters: those of the subscription, if there was one.
    ///   - topic: that of one of them, where there was none.
    public init(_ reason: Reason, count: Int, filters: [TopicFilter] = [], topic: TopicName? = nil) {
        (self.reason, self.count, self.filters, self.topic) = (reason, count, filters, topic)
    }
}

extension DroppedMessages: CustomStringConvertible {
    /// In words, as in “3 messages of “home/#” are dropped: its backlog is full”.
    public var description: String {
        let messages = count == 1 ? "1 message" : "\(count) messages"
        switch reason {
        case .backlogFull:
            let names = filters.map { "“\($0)”" }.joined(separator: ", ")
            return "\(messages) of \(names) \(count == 1 ? "is" : "are") dropped: its backlog is full"
        case .noSubscription:
            let place = topic.map { ", such as at “\($0)”," } ?? ""
            return "\(messages)\(place) \(count == 1 ? "is" : "are") dropped: no subscription was declared in time"
        }
    }
}

extension DroppedMessages {
    /// How many messages have come to a client that nobody got, since it was made.
    public struct Counts: Hashable, Sendable {
        /// Those for which the backlog of their subscription had no room, of all subscriptions. Each counts its own: `Messages.droppedCount`.
        public var backlogFull = 0
        /// Those that no subscription wanted.
        public var noSubscription = 0

        /// - Parameters:
        ///   - backlogFull: how many had no room in the backlog of their subscription.
        ///   - noSubscription: how many no subscription wanted.
        public init(backlogFull: Int = 0, noSubscription: Int = 0) {
            (self.backlogFull, self.noSubscription) = (backlogFull, noSubscription)
        }
    }
}
