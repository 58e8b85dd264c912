import BrokerModel

/// One subscription in the tree: a link in the chain of its node and in the chain of its session.
struct SubscriptionRecord {
    var node: UInt32
    var subscriber: Subscriber
    var terms: SubscriptionTerms
    var nextOfNode: UInt32
    var previousOfNode: UInt32
    var nextOfSession: UInt32
    var previousOfSession: UInt32
    /// The key of its row in the store in two halves, which need no alignment; 0 for none.
    private var storeNumberHigh: UInt32 = 0
    private var storeNumberLow: UInt32 = 0

    /// The end of a chain.
    static let none: UInt32 = .max

    /// The key of its row in the store, 0 for none.
    var storeNumber: UInt64 {
        get { UInt64(storeNumberHigh) << 32 | UInt64(storeNumberLow) }
        set {
            (storeNumberHigh, storeNumberLow) = (UInt32(truncatingIfNeeded: newValue >> 32), UInt32(truncatingIfNeeded: newValue))
        }
    }

    init(node: UInt32, subscriber: Subscriber, terms: SubscriptionTerms, nextOfNode: UInt32) {
        self.node = node
        self.subscriber = subscriber
        self.terms = terms
        self.nextOfNode = nextOfNode
        previousOfNode = Self.none
        nextOfSession = Self.none
        previousOfSession = Self.none
    }
}
