package import BrokerModel

/// What must be true of a shard's state between two turns.
extension BrokerShard {
    /// Traps where a part of the shard's state does not fit the others; the simulation asks again and again.
    package func checkInvariants() {
        scans.checkInvariants()
        inspection.queries.checkInvariants()
        inspection.commands.checkInvariants()
        inspection.systemReport.checkInvariants(shardCount: shardCount)
        receipts.checkInvariants()
        shardMessages.checkInvariants()
        checkHeld()
        checkQueues()
    }

    private func checkQueues() {
        guard let journal else { return }
        journal.checkInvariants()
        // All of a queue is looked through: a long one is shown by its own tests.
        for session in sessions.all where session.queue.paged != nil && session.queue.pagedCount < 500 {
            session.queue.checkInvariants()
        }
    }

    private func checkHeld() {
        guard let durability else { return }
        durability.checkInvariants()
        let counts = durability.heldCounts()
        for connection in connections.all {
            precondition(Int(connection.holding.count) == counts[connection.id] ?? 0, "a connection knows how much is held for it")
        }
    }

    /// Checks the invariants of a local client.
    package func checkInvariants(ofLocal id: ConnectionID) { connections.find(id)?.extras?.local?.checkInvariants() }
}
