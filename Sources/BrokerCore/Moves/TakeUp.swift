import BrokerModel
import MQTTCodec

/// How far a session has come that is taken up from what the cluster has stored of it, because the node that kept it is lost: what its client
/// was sent stands in the log, which is read once for that before it is read for what the session lacks.
///
///     awaitingMark ──► steps ──► sent ──► rest
///
/// What share groups have dealt it comes among the rest, as the log has it, which may be before what the session lacks of its own subscriptions.
/// Until the end its row says that it is not whole: after a crash it is taken up anew.
struct TakeUp {
    enum Phase {
        /// The lost node may have written more than this one has read.
        case awaitingMark
        /// What the client was sent, and has acknowledged.
        case steps
        /// The messages that it was sent and has not acknowledged: they come first, as they did.
        case sent
        /// All others.
        case rest
    }

    /// A message that is sent again, as the session's subscriptions want it now.
    struct Found {
        let message: Message
        let retain: Bool
        let identifiers: SubscriptionIdentifiers?
        /// The serial number of the share group that has dealt it; 0 for none.
        let group: UInt32
    }

    var phase = Phase.awaitingMark
    /// Whether it is not known yet what its client was sent.
    var lacksSteps: Bool { phase == .awaitingMark || phase == .steps }
    var flows = SentFlows()
    var found: [MessageName: Found] = [:]

    /// The spans of the log that are to be read now.
    func spans(after floor: LogPlaces, through: LogPlaces) -> [LogSpan] {
        switch phase {
        case .awaitingMark: []
        case .steps: floor.spans(through: through)
        case .rest: through.places.indices.compactMap { rest(of: $0, after: floor, through: through) }
        case .sent: through.places.indices.compactMap { sent(of: $0, after: floor, through: through) }
        }
    }

    /// The span that is lacking of a partition, from the first message on that was dealt; nil for nothing.
    private func rest(of partition: Int, after floor: LogPlaces, through: LogPlaces) -> LogSpan? {
        guard let last = through.places[partition]?.sequence else { return nil }
        let lacking = floor.spans(through: through).first { $0.partition == partition }
        let dealt = flows.dealt.keys.filter { $0.partition == partition }.map { max(1, $0.sequence(near: last)) - 1 }
        let after = min(lacking?.after ?? last, dealt.min() ?? last)
        return after < last ? LogSpan(partition: partition, after: after, through: last) : nil
    }

    /// The part of a partition in which messages stand that were sent; nil for none. What share groups have dealt stands anywhere in it, of all else what
    /// stands before what is lacking was done.
    private func sent(of partition: Int, after floor: LogPlaces, through: LogPlaces) -> LogSpan? {
        guard let end = through.places[partition]?.sequence else { return nil }
        let names = flows.unfinished.map(\.name).filter { $0.partition == partition }
        var numbers = names.filter(\.isDealt).map { max(1, $0.sequence(near: end)) }
        if let lacking = floor.spans(through: through).first(where: { $0.partition == partition }) {
            numbers += names.filter { !$0.isDealt }.map { $0.sequence(from: lacking.after + 1) }
        }
        guard let first = numbers.min(), let last = numbers.max(), first <= end else { return nil }
        return LogSpan(partition: partition, after: first - 1, through: min(last, end))
    }
}
