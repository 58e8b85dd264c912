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

        init(_ query: ShardQuery, _ asker: Asker) {
            (self.query, self.asker) = (query, asker)
            cursor = query.cursor ?? ShardCursor(place: 0)
        }

        var isFull: Bool { rows.count >= query.rowsMax }

        /// - Parameter isAtEnd: whether nothing is left.
        func reply(isAtEnd: Bool) -> ShardReply {
            ShardReply(token: query.token, rows: rows.value(of: query.subject), next: isAtEnd ? nil : cursor)
        }
    }

    /// Rows of one kind.
    struct Rows {
        var clients: [ClientRow] = []
        var subscriptions: [SubscriptionRow] = []
        var retained: [RetainedRow] = []

        var count: Int { clients.count + subscriptions.count + retained.count }

        func value(of subject: ShardQuery.Subject) -> ShardReply.Rows {
            switch subject {
            case .clients: .clients(clients)
            case .subscriptions: .subscriptions(subscriptions)
            case .retained: .retained(retained)
            }
        }
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
