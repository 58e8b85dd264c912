import BrokerModel
import MQTTCodec

/// Taking messages out of the queue again.
extension Outbox {
    /// Drops the message that has waited longest and was never sent; false if there is none. O(messages that were sent), however many wait:
    /// no more of them than the client's window had places stand in front.
    mutating func dropOldestUnsent(_ journal: Journal?) -> Bool {
        var position = sentEnd
        while position < count, self[position].state != .waiting || self[position].wasSent { position &+= 1 }
        guard position < count else { return dropFirstPaged(journal) }
        removeWaiting(at: position, journal)
        return true
    }

    /// Takes the messages of share groups that may go to other members: not the QoS 2 ones that were sent. Their rows stay in the store
    /// until somebody else has them. Call when nothing is in flight, after `rewind`.
    ///
    /// - Parameter mayGo: which of them to take.
    mutating func takeShared(where mayGo: (SharedEntry) -> Bool = { _ in true }) -> [SharedEntry] {
        precondition(sentEnd == 0)
        var taken: [SharedEntry] = []
        let isTaken = { (entry: OutboxEntry) in
            guard entry.group != 0, let message = entry.message else { return false }
            if entry.wasSent, entry.qos == .exactlyOnce { return false }
            let shared = SharedEntry(
                message: message.object, group: entry.group, qos: entry.qos, storeNumber: entry.storeNumber,
                hasFlow: entry.hasFlow, mark: entry.mark, name: entry.name)
            guard mayGo(shared) else { return false }
            taken.append(shared)
            return true
        }
        removeWaiting(nil, where: isTaken)
        removePinned(nil, where: isTaken)
        return taken
    }

    /// Takes the marks of what waits, with the messages' names. Call when nothing is in flight, after `rewind`.
    mutating func takeMarks() -> [(name: MessageName, mark: DealtMark)] {
        precondition(sentEnd == 0)
        var taken: [(name: MessageName, mark: DealtMark)] = []
        let take = { (entry: OutboxEntry) in
            if let mark = entry.takeMark() { taken.append((entry.name, mark)) }
            return false
        }
        removeWaiting(nil, where: take)
        removePinned(nil, where: take)
        return taken
    }

    /// Gives each of its entries to `body`, but for those that the store alone has: no share group has dealt these.
    func forEach(_ body: (OutboxEntry) -> Void) {
        for position in 0..<count where self[position].state != .vacant { body(self[position]) }
        guard let paged else { return }
        for entry in paged.pinned.entries where entry.state != .vacant { body(entry) }
        paged.arriving.entries.forEach(body)
    }

    /// Drops a message that a share group has dealt, unless it was sent with QoS 1.
    mutating func removeDealt(_ name: MessageName, _ journal: Journal?) {
        let isIt = { (entry: OutboxEntry) in entry.name == name && (entry.qos == .exactlyOnce || !entry.wasSent) }
        removeWaiting(journal, where: isIt)
        removePinned(journal, where: isIt)
    }

    /// The position of the waiting entry with this store number, or nil. Numbers rise along what was never sent; the few that were
    /// sent stand in front.
    func position(ofStored number: UInt64) -> Int? {
        var low = sentEnd
        while low < count, self[low].packetIdentifier != 0 {
            if self[low].storeNumber == number { return low }
            low &+= 1
        }
        var high = count
        while low < high {
            let middle = (low &+ high) / 2
            let found = self[middle].storeNumber
            if found == number { return middle }
            // Entries that the store does not hold have no number; they say nothing of the order.
            if found == 0 { return (low..<high).first { self[$0].storeNumber == number } }
            if found < number { low = middle &+ 1 } else { high = middle }
        }
        return nil
    }
}
