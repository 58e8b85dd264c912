import BrokerModel
import MQTTCodec

/// Taking a queue back from the store.
extension Outbox {
    /// Applies what the store tells of the entries' flows, and puts the queue in the order that it has after a connection has ended: what
    /// waits for PUBCOMP, what was sent, what never was.
    ///
    /// QoS 1 messages are sent before their packet identifiers are on the disk, but never out of turn: what stands before an entry that was
    /// sent was sent too, and keeps its place. [MQTT-4.6.0-1 v5]
    ///
    /// - Parameters:
    ///   - flows: by store number; others' entries among them.
    ///   - inFlightMax: how many messages may have been in flight, if the client was connected when the broker ended; else 0. Those of
    ///     QoS 1 count as sent, for what is sent again must say so; one of QoS 2 waits for the disk, and what is behind it too.
    ///     [MQTT-3.3.1-1 v5] [MQTT-3.3.1-1 v3.1.1]
    /// - Returns: the store numbers of those that had a flow.
    mutating func arrange(_ flows: [UInt64: StoredFlow], inFlightMax: Int) -> [UInt64] {
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
        var sentCount = (0..<count).last { self[$0].packetIdentifier != 0 }.map { $0 + 1 } ?? 0
        while sentCount < min(count, inFlightMax), self[sentCount].qos == .atLeastOnce { sentCount += 1 }
        moveToFront { $0.state == .released }
        // There are no more packet identifiers than that, whatever a store says.
        nameSent(min(sentCount, Int(UInt16.max)))
        return applied
    }

    /// Gives those of the first entries that have no packet identifier one of their own, which their receiver does not know yet.
    private mutating func nameSent(_ sentCount: Int) {
        var used = Set((0..<sentCount).map { self[$0].packetIdentifier })
        var next: UInt16 = 1
        for position in 0..<sentCount where self[position].packetIdentifier == 0 {
            while !used.insert(next).inserted { next += 1 }
            self[position].packetIdentifier = next
            self[position].wasSent = true
        }
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
