import BrokerModel

/// The questions that a shard has been asked and has not answered, oldest first.
///
/// Invariant: at most `Limits.queriesMax` wait besides the shard's own; each has fewer rows than it asks for. Owned by a shard, used on its
/// thread only.
struct QueryScheduler {
    /// The party that gets an answer.
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
        /// Of sessions in an order: the best ones so far, and at the end whether there are more than the page has.
        var best: BestClients?
        var hasMore: Bool?
        /// Of a topic tree: the levels found so far.
        var levels: TopicLevels?
        /// How many there are in all; nil where that is not counted.
        var count: Int?

        init(_ query: ShardQuery, _ asker: Asker) {
            (self.query, self.asker) = (query, asker)
            cursor = query.cursor ?? ShardCursor(place: 0)
            switch query.subject {
            case .clients(let selection) where selection.order != nil:
                best = BestClients(selection, max: max(query.rowsMax, Limits.clientsListedMax))
                // All are looked at.
                cursor = ShardCursor(place: 0)
            case .topicTree(let prefix, let name):
                levels = TopicLevels(under: prefix, after: name)
                cursor = ShardCursor(place: 0)
            default: break
            }
        }

        var isFull: Bool {
            rows.count >= query.rowsMax || rows.payloadBytes >= Limits.queryPayloadBytesMax
                || rows.textBytes >= Limits.queryTextBytesMax
        }
    }

    /// Rows of one kind.
    struct Rows {
        var clients: [ClientRow] = []
        var queue: [QueueRow] = []
        var subscriptions: [SubscriptionRow] = []
        var retained: [RetainedRow] = []
        /// Bytes of content in them.
        var payloadBytes = 0
        /// Bytes of topics and filters in them, and of the clients' names with these.
        var textBytes = 0

        var count: Int { clients.count + queue.count + subscriptions.count + retained.count }
    }

    private(set) var open: [OpenQuery] = []
    /// What was found for pages before, of sessions in an order.
    var clientLists = ClientLists()
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
