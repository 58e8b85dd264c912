/// Taking a queue back from the store.
extension Outbox {
    /// Applies what the store tells of the entries' flows, and puts the queue in the order that it has after a connection has ended: what
    /// waits for PUBCOMP, what was sent, what never was.
    ///
    /// - Parameter flows: by store number; others' entries among them.
    /// - Returns: the store numbers of those that had a flow.
    mutating func arrange(_ flows: [UInt64: StoredFlow]) -> [UInt64] {
        precondition(sentEnd == 0, "a queue is restored before its client comes")
        var applied: [UInt64] = []
        if !flows.isEmpty {
            for position in 0..<count {
                guard let flow = flows[self[position].storeNumber] else { continue }
                applied.append(self[position].storeNumber)
                self[position].packetIdentifier = flow.packetIdentifier
                self[position].hasFlow = true
                self[position].wasSent = true
                if flow.state == .released { restoreReleased(position) }
            }
        }
        moveToFront { $0.packetIdentifier != 0 }
        moveToFront { $0.state == .released }
        return applied
    }

    /// Puts the entries for which `isFirst` says so before the others; both keep their order.
    private mutating func moveToFront(_ isFirst: (OutboxEntry) -> Bool) {
        var others: [OutboxEntry] = []
        var kept = 0
        for position in 0..<count {
            let entry = self[position]
            if isFirst(entry) {
                if kept != position { self[kept] = entry }
                kept &+= 1
            } else {
                others.append(entry)
            }
        }
        guard kept > 0, kept < count else { return }
        for entry in others {
            self[kept] = entry
            kept &+= 1
        }
    }
}
