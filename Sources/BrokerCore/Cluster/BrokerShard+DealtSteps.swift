public import BrokerModel
import MQTTCodec

/// What share groups have dealt to sessions, in the cluster's log, mostly to those whose clients are away: whoever takes a session up without its node's
/// disk gets it from there.
///
///     a member's queue ──► recordDealt ──► the log ──► settleKept: its DealtMark ends
///     (sent with QoS 2 ──► noteSent  ──► the log ──► the same)
///
/// Until then the message counts as dealt and not done with: of a node that is lost before, another one deals it again.
extension BrokerShard {
    /// A share group's message waits for a client that is away, or nothing else says that it is not done with: the log is to know whose it is.
    func recordDealt(_ name: MessageName, _ mark: DealtMark?, to session: Session) {
        // Also of a session that nobody has claimed since the node was started.
        guard name.isDealt, let port = cluster, let log = port.log, session.keepsMessages, port.moves != nil, session.epoch > 0
        else {
            return
        }
        let receiver = logReceiver
        guard let serial = durability?.requireConfirmation(besidesPacketOf: receiver).serial else { return }
        let place = log.nextStep(epoch: session.epoch, shard: index, milliseconds: wallClock(now))
        port.append(SessionStep(FlowStep(.dealt(name), 0, at: place), of: session))
        port.stamp(serial)
        log.kept.append(ShardLog.Kept(serial: serial, session: (session.index, session.generation), name: name, mark: mark))
    }

    /// A step that stands in a record since a node that is gone was done: what is a session's is not dealt again, for whoever takes that up gets it.
    public func learnDealt(_ step: FlowStep, by node: UInt64) {
        guard let port = cluster, let log = port.log else { return }
        recordStep(step.place.number, log)
        if let name = step.name, name.isDealt { port.learned[node, default: []].insert(name) }
    }

    /// A message of a share group was passed on: under its name before it is not dealt again.
    public func learnPassedOn(_ before: MessageName, by node: UInt64) { cluster?.learned[node, default: []].insert(before) }

    /// What was a node's is dealt again.
    public func forgetDealt(by node: UInt64) { cluster?.learned[node] = nil }

    /// A client has gone: what it has not taken of its share groups waits for it.
    func recordDealt(to session: Session) {
        guard clusterLog != nil else { return }
        for (name, mark) in session.outbox.takeMarks() { recordDealt(name, mark, to: session) }
    }

    /// A message of a share group is about to be sent with QoS 2: it is this client's when the log says so. [MQTT-4.8.2-4 v5]
    func keepUntilLogged(_ entry: OutboxEntry, _ session: Session, _ serial: UInt64) {
        guard let log = clusterLog, let mark = entry.takeMark() else { return }
        log.kept.append(ShardLog.Kept(serial: serial, session: (session.index, session.generation), name: entry.name, mark: mark))
    }

    /// What was told up to a serial is in the log; or is not, and is told once more.
    func settleKept(_ serial: UInt64, isLogged: Bool, isRefused: Bool) {
        guard let log = clusterLog, !log.kept.isEmpty else { return }
        let settled = log.kept.prefix { $0.serial <= serial }
        log.kept.removeFirst(settled.count)
        guard !isLogged, !isRefused else { return }
        for kept in settled {
            guard let session = sessions.find(index: kept.session.index, generation: kept.session.generation) else { continue }
            recordDealt(kept.name, kept.mark, to: session)
        }
    }
}
