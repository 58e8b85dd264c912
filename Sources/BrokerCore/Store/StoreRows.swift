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
