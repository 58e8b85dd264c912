/// What must be true of a shard's state between two turns.
extension BrokerShard {
    /// Traps where a part of the shard's state does not fit the others; the simulation asks after every turn.
    package func checkInvariants() {
        scans.checkInvariants()
        systemReport.checkInvariants(shardCount: shardCount)
    }
}
