/// One line of a SUBSCRIBE.
public struct Subscription: Hashable, Sendable {
    public var filter: TopicFilter
    public var options: SubscriptionOptions

    public init(filter: TopicFilter, options: SubscriptionOptions = SubscriptionOptions()) {
        self.filter = filter
        self.options = options
    }
}
