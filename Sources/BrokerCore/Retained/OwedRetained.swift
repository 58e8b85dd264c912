import BrokerModel

/// The subscriptions of a session that lasts whose retained messages its client has not had, or not all of them:
/// whoever goes on with the session after a crash asks for these again. [MQTT-3.3.1-9 v5]
///
///     SUBSCRIBE ─► asked ─► under way, behind SUBACK ─► queued, when all that matches stands in its queue ─► nothing, when the client has
///                                                                                                           acknowledged that
///
/// The queue is in the store, so a broker that is alone owes nothing of what is queued. A node's store may be lost, and
/// then these messages are nowhere: they come out of no log.
final class OwedRetained {
    typealias Stage = StoredSubscription.OwedStage

    /// Filters.
    private var asked: Set<[UInt8]> = []
    private var underWay: Set<[UInt8]> = []
    private var queued: Set<[UInt8]> = []
    /// The journal's number when the last message of those that are queued stood there.
    private(set) var lastNumber: UInt64 = 0

    var isEmpty: Bool { isAllQueued && queued.isEmpty }
    /// Whether nothing is left to be looked for.
    var isAllQueued: Bool { asked.isEmpty && underWay.isEmpty }

    func stage(of filter: [UInt8]) -> Stage? {
        if asked.contains(filter) || underWay.contains(filter) { return .asked }
        return queued.contains(filter) ? .queued : nil
    }

    func ask(_ filter: [UInt8]) { asked.insert(filter) }

    /// Nobody looks for anything: what is to be looked for.
    func takeUnfinished() -> [[UInt8]] {
        asked.formUnion(underWay)
        underWay = []
        return asked.sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// The look-up of what is retained for a filter begins.
    func begin(_ filter: [UInt8]) { if asked.remove(filter) != nil { underWay.insert(filter) } }

    /// As another node, or an earlier incarnation, has had it.
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
        underWay.remove(filter)
        queued.remove(filter)
    }

    /// All that was looked for is in the queue, at most with this number.
    ///
    /// - Returns: the filters.
    func queueFound(lastNumber: UInt64) -> Set<[UInt8]> {
        defer { underWay = [] }
        queued.formUnion(underWay)
        self.lastNumber = lastNumber
        return underWay
    }

    /// Takes the filters whose queued messages have been acknowledged, or need no more care.
    ///
    /// - Returns: the filters.
    func takeQueued() -> Set<[UInt8]> {
        defer { queued = [] }
        return queued
    }
}
