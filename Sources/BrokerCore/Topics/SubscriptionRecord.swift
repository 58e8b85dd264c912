/// One subscription in the tree: a link in the chain of its node and in the chain of its session.
struct SubscriptionRecord {
    var node: UInt32
    var subscriber: Subscriber
    var terms: SubscriptionTerms
    var nextOfNode: UInt32
    var previousOfNode: UInt32
    var nextOfSession: UInt32
    var previousOfSession: UInt32

    /// The end of a chain.
    static let none: UInt32 = .max
}
