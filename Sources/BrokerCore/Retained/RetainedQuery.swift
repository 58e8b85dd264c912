import BrokerModel
import MQTTCodec

/// A subscription's wish for the retained messages that match it, to be answered by the shards that hold them; or the mark behind such wishes.
struct RetainedQuery: Sendable {
    /// The filter, without a `$share` prefix.
    let filter: [UInt8]
    /// The shard and the session to deliver to.
    let shard: Int
    let sessionIndex: UInt32
    let sessionKey: UInt64
    /// The subscription's options when its turn came.
    var terms: SubscriptionTerms
    /// What `RetainedArrivals` of the asking shard gave when the subscription began.
    let stamp: UInt64
    /// The stamp of the asking shard's own store from which on messages came live.
    var startStamp: UInt64 = 0
    /// How many messages each other shard may send ahead of what the session has taken.
    var credit = 0
    /// The mark that this is instead, which has the turn behind all that were asked before it.
    var mark: EndMark?
}

extension RetainedQuery {
    /// A mark of a session of `shard`.
    init(mark: EndMark, shard: Int, _ session: Session) {
        self.init(
            filter: mark.topic.bytes, shard: shard, sessionIndex: session.index, sessionKey: session.key,
            terms: SubscriptionTerms(maximumQoS: .atMostOnce), stamp: 0, mark: mark)
    }
}
