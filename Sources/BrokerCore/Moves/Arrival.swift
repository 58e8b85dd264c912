import BrokerModel
import MQTTCodec

/// A session on its way from another node, as far as it has come.
///
/// Its row says that it is not whole: a crash leaves nothing of it. Nobody routes to it before its last piece.
final class Arrival {
    /// Tells it from an earlier one of the identifier.
    let number: UInt64
    /// By which claim this node keeps it.
    let epoch: UInt64
    /// The number of the piece that comes next.
    var nextPiece = 0
    /// nil before the first piece.
    var session: Session?
    var subscriptions: [(filter: TopicFilter, terms: SubscriptionTerms)] = []
    /// The retained messages that its client has not had, by filter.
    var owed: [(filter: [UInt8], stage: OwedRetained.Stage)] = []
    /// Up to where the node that kept it had read the log.
    var places: LogPlaces?
    /// The share groups that its messages name, by their place among its subscriptions to such: the group's serial number here.
    var groups: [UInt32] = []
    /// Whether a message is among them that was never sent: behind it stands none that was.
    var hasUnsent = false
    /// Whether the log may have more of what its client has sent.
    var lacksSteps = false
    /// Whether it comes from what the cluster has stored of it.
    var isTakenUp = false
    /// Whether its last piece is here.
    var isWhole = false

    init(number: UInt64, epoch: UInt64) { (self.number, self.epoch) = (number, epoch) }
}
