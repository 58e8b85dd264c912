internal import HTTP
internal import JSON
internal import MQTTCodec

/// Sending the clients away, so that the broker can end or rest.
extension Administration {
    func drain(_ call: Call) throws(APIError) {
        let body = try call.body()
        let reference = try body.encoded("server_reference")
        guard reference.map({ (1...Limits.serverReferenceBytesMax).contains($0.bytes.count) }) ?? true else {
            throw .badRequest("server_reference must have 1 to \(Limits.serverReferenceBytesMax) bytes.")
        }
        let request = DrainRequest(
            serverReference: reference?.description,
            perSecond: try body.integer("per_second", 1...Limits.drainPerSecondMax) ?? Limits.drainPerSecond,
            stops: try body.boolean("stop") ?? false)
        guard !broker.condition.isStopping else { throw Self.isStopping }
        broker.beginDrain(request)
        call.answer(broker.drain.map { Self.drainResource.json($0) } ?? JSONObject())
    }

    func endDrain(_ call: Call) throws(APIError) {
        guard !broker.condition.isStopping else { throw Self.isStopping }
        guard broker.drain != nil else { throw APIError(.notFound, "The broker is not being drained.") }
        broker.endDrain()
        call.answer(HTTPResponse(.noContent))
    }

    private static let isStopping = APIError(.conflict, "The broker is about to stop.")

    static let drainResource = Resource<DrainStatus>(
        "Drain",
        [
            .text("state", as: .choice(["draining", "drained"])) { $0.isDone ? "drained" : "draining" },
            .time("since", \.since),
            .integer("connections_left", \.connectionsLeft),
            .textOrNull(
                "server_reference",
                help: "Where clients are sent; several places have blanks between them, and each client begins with another one."
            ) { $0.serverReferences.isEmpty ? nil : $0.serverReferences.joined(separator: " ") },
            .integer("per_second", as: .integer(1...Int.max), \.request.perSecond),
            .boolean("stop", \.request.stops),
        ])
}

extension Limits {
    /// Clients that are sent away in a second where nothing else is said.
    static let drainPerSecond = 1000

    /// The most that may be asked for.
    static let drainPerSecondMax = 1_000_000

    /// Bytes of the name of another server: more are refused.
    static let serverReferenceBytesMax = 4096
}
