import BrokerCore
import Cluster
import ServerLoops

/// What the keeper wants done.
extension SessionCoordinator: SessionKeeperSink {
    func read(_ session: [UInt8]) { records.read(session) }

    func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
        records.write(record, of: session, expecting: sequence, number: number)
    }

    func askToHandOver(_ session: [UInt8], from node: NodeID, epoch: UInt64) {
        let cleanStart = visits[session]?.claim.cleanStart ?? (unsettled[session] != nil)
        send(SessionMessage(.ask(cleanStart: cleanStart), node: self.node, epoch: epoch, identifier: session), to: node)
    }

    func takenUp(_ session: [UInt8], _ record: SessionRecord, state: [UInt8]?, isAdopted: Bool) {
        if isAdopted {
            leftNews.append(.taken(session, record))
            ticksAt = now
            return
        }
        guard visits[session] != nil else { return }
        visits[session]?.record = record
        visits[session]?.progressAt = now
        settled(session)
    }

    func stop(_ session: [UInt8]) -> [UInt8]? {
        guard !isFencing else { return nil }
        // A session that is looked after here for its client, who has come, is not another node's.
        if left.isHandling(session) {
            left.notTaken(session)
            (adoptions[session], awaitingShards[session]) = (nil, nil)
        }
        if isConnecting { return [] }
        overtake(session)
        return []
    }

    /// The client that waits here came before one that has come to another node.
    func overtake(_ session: [UInt8]) {
        replay.forget(session)
        guard let visit = visits.removeValue(forKey: session) else { return }
        let words = "another connection uses this Client Identifier on another node of the cluster."
        post(.failed(session, words, isTold: true), to: visit.shard)
    }

    func answer(_ session: [UInt8], to node: NodeID, epoch: UInt64, state: [UInt8]?) {
        guard let asker else { return }
        depart(session, to: node, epoch: epoch, asker.reply, cleanStart: asker.cleanStart)
    }
}
