extension BrokerConfiguration {
    /// The strictest of the listeners' promises: it says when the store is given what has changed, since all of it has one order.
    public var strictestDurability: Durability {
        var shortest: Int?
        for listener in listeners {
            switch listener.durability {
            case .commit: return .commit
            case .interval(let seconds): shortest = min(shortest ?? seconds, seconds)
            case .none: continue
            }
        }
        return shortest.map { .interval(seconds: $0) } ?? .none
    }
}
