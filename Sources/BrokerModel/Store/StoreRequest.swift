/// Rows that a shard wants to read for a session.
public struct StoreRequest: Sendable {
    public struct Row: Sendable, Hashable {
        public let table: StoreTable
        public let key: UInt64

        public init(_ table: StoreTable, key: UInt64) {
            self.table = table
            self.key = key
        }
    }

    package let sessionIndex: UInt32
    package let sessionKey: UInt64
    /// The entries that wait for the rows, by place.
    package let entries: [UInt64]
    public let rows: [Row]
    /// Whether they are of the part of a queue of which memory has nothing.
    package var isPaged = false
    /// Whether an order looks for topics among them.
    package var isPurge = false
    /// Of a session that leaves: which time its queue is read; 0 for another one.
    package var departureRound = 0

    package init(
        sessionIndex: UInt32, sessionKey: UInt64, entries: [UInt64], rows: [Row], isPaged: Bool = false, isPurge: Bool = false,
        departureRound: Int = 0
    ) {
        self.sessionIndex = sessionIndex
        self.sessionKey = sessionKey
        self.entries = entries
        self.rows = rows
        self.isPaged = isPaged
        self.isPurge = isPurge
        self.departureRound = departureRound
    }
}

/// The rows that a shard asked for.
public struct StoreRows: Sendable {
    public let request: StoreRequest
    /// By place in the request; nil for a row that is missing or damaged.
    public let bodies: [[UInt8]?]

    public init(answering request: StoreRequest, bodies: [[UInt8]?]) {
        precondition(bodies.count == request.rows.count, "every row that was asked for has an answer")
        self.request = request
        self.bodies = bodies
    }
}
