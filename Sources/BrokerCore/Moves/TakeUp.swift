import MQTTCodec

/// How far a session has come that is taken up from what the cluster has stored of it, because the node that kept it is lost: what its client
/// was sent stands in the log, which is read once for that before it is read for what the session lacks.
///
///     awaitingMark ──► steps ──► sent ──► rest
///
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
    }

    var phase = Phase.awaitingMark
    var flows = SentFlows()
    var found: [MessageName: Found] = [:]

    /// What is to be read now of the log.
    func spans(after floor: LogPlaces, through: LogPlaces) -> [LogSpan] {
        switch phase {
        case .awaitingMark: []
        case .steps, .rest: floor.spans(through: through)
        case .sent: floor.spans(through: through).compactMap { span(of: flows.unfinished.map(\.name), within: $0) }
        }
    }

    /// The part of a span in which messages stand; nil for none.
    private func span(of names: [MessageName], within span: LogSpan) -> LogSpan? {
        let numbers = names.filter { $0.partition == span.partition }.map { $0.sequence(from: span.after + 1) }
        guard let first = numbers.min(), let last = numbers.max(), first <= span.through else { return nil }
        return LogSpan(partition: span.partition, after: first - 1, through: min(last, span.through))
    }
}
