/// The subscriptions of a session that lasts whose retained messages its client has not had, or not all of them: whoever goes on with the session after
/// a crash asks for these again. [MQTT-3.3.1-9 v5]
///
///     SUBSCRIBE ─► asked ─► queued, when all that matches stands in its queue ─► nothing, when the client has acknowledged that
///
/// The queue is in the store, so a broker that is alone owes nothing of what is queued. A node's store may be lost, and then these messages are
/// nowhere: they come out of no log.
final class OwedRetained {
    enum Stage: UInt8, Sendable { case asked = 1, queued }

    /// Filters.
    private(set) var asked: Set<[UInt8]> = []
    private(set) var queued: Set<[UInt8]> = []
    /// The journal's number when the last message of those that are queued stood there.
    private(set) var lastNumber: UInt64 = 0

    var isEmpty: Bool { asked.isEmpty && queued.isEmpty }

    func stage(of filter: [UInt8]) -> Stage? { asked.contains(filter) ? .asked : queued.contains(filter) ? .queued : nil }

    func ask(_ filter: [UInt8]) { asked.insert(filter) }

    /// As another node, or an earlier run, has had it.
    func restore(_ filter: [UInt8], _ stage: Stage, lastNumber: UInt64) {
        switch stage {
        case .asked: asked.insert(filter)
        case .queued:
            queued.insert(filter)
            self.lastNumber = max(self.lastNumber, lastNumber)
        }
    }

    /// The session has unsubscribed.
    func forget(_ filter: [UInt8]) {
        asked.remove(filter)
        queued.remove(filter)
    }

    /// All that was asked for is in the queue, at most with this number.
    ///
    /// - Returns: the filters.
    func queueAsked(lastNumber: UInt64) -> Set<[UInt8]> {
        defer { asked = [] }
        queued.formUnion(asked)
        self.lastNumber = lastNumber
        return asked
    }

    /// What is queued has been acknowledged, or needs no more care.
    ///
    /// - Returns: the filters.
    func takeQueued() -> Set<[UInt8]> {
        defer { queued = [] }
        return queued
    }
}
