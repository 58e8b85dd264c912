/// A subscription's wish for the retained messages that match it, to be answered by the shards that hold them.
struct RetainedQuery: Sendable {
    /// The filter, without a `$share` prefix.
    let filter: [UInt8]
    /// The shard and the session to deliver to.
    let shard: Int
    let sessionIndex: UInt32
    let sessionKey: UInt64
    let terms: SubscriptionTerms
    /// What `RetainedArrivals` of the asking shard gave when the subscription began.
    let stamp: UInt64
    /// How many messages each other shard may send ahead of what the session has taken.
    var credit = 0
}
