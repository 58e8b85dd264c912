/// The questions that a shard has been asked and has not answered, oldest first.
///
/// Invariant: at most `Limits.queriesMax` wait besides the shard's own; each has fewer rows than it asks for. Owned by a shard, used on its
/// thread only.
struct QueryDesk {
    /// Who gets an answer.
    enum Asker {
        case shell
        /// The log: the next page is asked for at once.
        case log
    }

    /// A question on its way to a full page.
    struct OpenQuery {
        let query: ShardQuery
        let asker: Asker
        var cursor: ShardCursor
        var rows = Rows()
        /// Of sessions in an order: the best ones so far.
        var best: BestClients?
        /// Of a topic tree: the levels found so far.
        var levels: TopicLevels?
        /// How many there are in all; nil where that is not counted.
        var count: Int?

        init(_ query: ShardQuery, _ asker: Asker) {
            (self.query, self.asker) = (query, asker)
            cursor = query.cursor ?? ShardCursor(place: 0)
            switch query.subject {
            case .clients(let selection) where selection.order != nil:
                best = BestClients(selection, max: query.rowsMax)
                // All are looked at.
                cursor = ShardCursor(place: 0)
            case .topicTree(let prefix, let name):
                levels = TopicLevels(under: prefix, after: name)
                cursor = ShardCursor(place: 0)
            default: break
            }
        }

        var isFull: Bool { rows.count >= query.rowsMax || rows.payloadBytes >= Limits.queryPayloadBytesMax }
    }

    /// Rows of one kind.
    struct Rows {
        var clients: [ClientRow] = []
        var queue: [QueueRow] = []
        var subscriptions: [SubscriptionRow] = []
        var retained: [RetainedRow] = []
        /// Bytes of content in them.
        var payloadBytes = 0

        var count: Int { clients.count + queue.count + subscriptions.count + retained.count }
    }

    private(set) var open: [OpenQuery] = []
    /// How many places were looked at so far: tests see by it how much a turn does.
    var stepCount = 0

    var isEmpty: Bool { open.isEmpty }

    /// Takes a question; false if too many wait.
    mutating func add(_ query: ShardQuery, for asker: Asker) -> Bool {
        guard asker == .log || open.count < Limits.queriesMax else { return false }
        open.append(OpenQuery(query, asker))
        return true
    }

    /// Takes the question out whose turn it is.
    mutating func takeFirst() -> OpenQuery { open.removeFirst() }

    /// Puts one back that needs another turn, behind the others.
    mutating func putBack(_ query: OpenQuery) { open.append(query) }

    /// Traps where the invariant does not hold.
    func checkInvariants() {
        precondition(open.count(where: { $0.asker == .shell }) <= Limits.queriesMax, "too many questions wait")
        precondition(open.allSatisfy { !$0.isFull }, "a page is full and not sent")
    }
}

/// The first sessions in an order behind some position, of those that were looked at so far.
///
/// A heap whose top is the worst of them: a session that is no better costs one comparison, and none is copied before the end.
struct BestClients {
    private struct Candidate {
        let position: ClientPosition
        let index: UInt32
        let key: UInt64
    }

    private let selection: ClientSelection
    private let max: Int
    private var heap: [Candidate] = []
    /// Whether there are others behind `after` than those that are kept.
    private(set) var hasMore = false

    /// - Parameter max: how many are kept.
    init(_ selection: ClientSelection, max: Int) {
        (self.selection, self.max) = (selection, max)
    }

    /// Takes a session in that is meant, if it is one of the best. O(log max).
    mutating func add(_ session: Session, now: UInt64) {
        let position = selection.position(of: session, now: now)
        if let after = selection.after, !precedes(after, position) { return }
        let candidate = Candidate(position: position, index: session.index, key: session.key)
        if heap.count < max {
            heap.append(candidate)
            rise(heap.count - 1)
        } else {
            hasMore = true
            guard precedes(position, heap[0].position) else { return }
            heap[0] = candidate
            sink(0)
        }
    }

    /// Those that are still there, the best first.
    func rows(of sessions: borrowing SessionTable, at now: UInt64) -> [ClientRow] {
        heap.sorted { precedes($0.position, $1.position) }.compactMap { candidate in
            sessions.find(index: candidate.index, key: candidate.key).map { ClientRow($0, at: now, candidate.position) }
        }
    }

    private func precedes(_ left: ClientPosition, _ right: ClientPosition) -> Bool {
        left.precedes(right, isDescending: selection.isDescending)
    }

    private mutating func rise(_ start: Int) {
        var place = start
        while place > 0, precedes(heap[(place - 1) / 2].position, heap[place].position) {
            heap.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    private mutating func sink(_ start: Int) {
        var place = start
        while true {
            var worst = place
            for child in [2 * place + 1, 2 * place + 2] where child < heap.count {
                if precedes(heap[worst].position, heap[child].position) { worst = child }
            }
            guard worst != place else { return }
            heap.swapAt(place, worst)
            place = worst
        }
    }
}
