import BrokerCore
import Federation
import MQTTCodec
import ServerLoops

/// What another number of connections makes of the queues that the store has kept.
extension BridgeSupervisor {
    /// Settles, at the broker's start, how many connections each bridge has: as many as it is to, unless messages wait that were dealt among
    /// another number of them. Sessions that are no connection's any more end.
    ///
    /// - Parameter backlog: what waits in the session of a client identifier; nil if the store had none.
    /// - Returns: whether a bridge has another number than was configured.
    func settleConnections(_ backlog: (EncodedString) -> SessionBacklog?) -> Bool {
        var hasChanged = false
        for (name, row) in rows.sorted(by: { $0.key < $1.key }) {
            guard let plan = row.plan else { continue }
            let first = plan.settings.localClientIdentifier
            // Another bridge may be called as this one's second connection would be.
            let others = Set(rows.filter { $0.key != name }.values.compactMap(\.plan).flatMap(\.localClientIdentifiers))
            let kept = (1...Limits.bridgeConnectionsMax).compactMap { number in
                BridgeSettings.clientIdentifier(first, ofConnection: number).flatMap { identifier in
                    others.contains(identifier)
                        ? nil : backlog(identifier).map { (number: number, identifier: identifier, messages: $0.messages) }
                }
            }
            guard let former = kept.last?.number, former != plan.connectionCount else { continue }
            let messages = kept.reduce(0) { $0 + $1.messages }
            if messages == 0 {
                for session in kept where session.number > plan.connectionCount {
                    endSession(session.identifier, of: plan)
                }
            } else {
                keep(former, of: name, instead: plan, waiting: messages)
                hasChanged = true
            }
        }
        return hasChanged
    }
}

extension BridgeStatus {
    /// All connections of a bridge together, the first one first: it is connected when all are, and else as the first that is not. Nil if
    /// there is none.
    init?(sumOf statuses: [BridgeStatus]) {
        guard let first = statuses.first else { return nil }
        guard statuses.count > 1 else {
            self = first
            return
        }
        let missing = statuses.first { $0.report.state != .connected }
        var (report, backlog, rates) = ((missing ?? first).report, SessionBacklog(), BridgeRates())
        report.connectedSince = missing == nil ? statuses.compactMap(\.report.connectedSince).max() : nil
        report.failure = missing?.report.failure ?? statuses.lazy.compactMap(\.report.failure).first
        for status in statuses { backlog.add(status.backlog) }
        rates.out = statuses.reduce(0) { $0 + $1.rates.out }
        rates.into = statuses.reduce(0) { $0 + $1.rates.into }
        for count in BridgeReport.counts {
            report[keyPath: count] = statuses.reduce(0) { $0 &+ $1.report[keyPath: count] }
        }
        self.init(
            name: first.name, connection: 1, clientIdentifier: first.clientIdentifier, report: report,
            address: (missing ?? first).address, backlog: backlog, rates: rates)
    }
}

extension BridgeReport {
    /// The counters of a bridge.
    fileprivate static var counts: [WritableKeyPath<BridgeReport, UInt64>] {
        [
            \.connectionCount, \.messagesOut, \.messagesIn, \.bytesOut, \.bytesIn, \.postponedOut, \.droppedOut, \.droppedIn,
            \.echoes,
        ]
    }
}
