import MQTTCodec

/// Taking messages out of the queue again.
extension Outbox {
    /// Drops the message that has waited longest and was never sent; false if there is none.
    mutating func dropOldestUnsent() -> Bool {
        var isDone = false
        removeWaiting { entry in
            guard !isDone, entry.state == .waiting, !entry.wasSent else { return false }
            isDone = true
            return true
        }
        return isDone
    }

    /// Takes the messages of share groups that may go to other members: not the QoS 2 ones that were sent. Call when nothing is in
    /// flight, after `rewind`.
    ///
    /// - Parameter serials: the groups to take from; nil for all.
    mutating func takeShared(of serials: Set<UInt32>? = nil) -> [SharedEntry] {
        precondition(sentEnd == 0)
        var taken: [SharedEntry] = []
        removeWaiting { entry in
            guard entry.group != 0, serials?.contains(entry.group) ?? true, let message = entry.message else { return false }
            if entry.wasSent, entry.qos == .exactlyOnce { return false }
            taken.append(SharedEntry(message: message.takeUnretainedValue(), group: entry.group))
            return true
        }
        return taken
    }
}
