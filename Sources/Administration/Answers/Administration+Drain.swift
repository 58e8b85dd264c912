internal import HTTP
internal import JSON
internal import MQTTCodec

/// Sending the clients away, so that the broker can end or rest.
extension Administration {
    func drain(_ call: Call) throws(APIError) {
        let body = try call.body("server_reference", "per_second", "stop")
        let reference = try body.encoded("server_reference")
        guard reference.map({ (1...Limits.serverReferenceBytesMax).contains($0.bytes.count) }) ?? true else {
            throw .badRequest("server_reference must have 1 to \(Limits.serverReferenceBytesMax) bytes.")
        }
        let order = DrainOrder(
            serverReference: reference?.description,
            perSecond: try body.integer("per_second", 1...Limits.drainPerSecondMax) ?? Limits.drainPerSecond,
            stops: try body.boolean("stop") ?? false)
        guard !broker.condition.isStopping else { throw Self.isStopping }
        broker.beginDrain(order)
        call.answer(broker.drain.map { Self.drain($0) } ?? JSONObject())
    }

    func endDrain(_ call: Call) throws(APIError) {
        guard !broker.condition.isStopping else { throw Self.isStopping }
        guard broker.drain != nil else { throw APIError(.notFound, "The broker is not being drained.") }
        broker.endDrain()
        call.answer(HTTPResponse(.noContent))
    }

    private static let isStopping = APIError(.conflict, "The broker is about to stop.")

    static func drain(_ status: DrainStatus) -> JSONObject {
        var object = JSONObject()
        object.set("state", status.isDone ? "drained" : "draining")
        object.set("since", Timestamp.text(status.since))
        object.set("connections_left", status.connectionsLeft)
        object.set("server_reference", orNull: status.places.isEmpty ? nil : status.places.joined(separator: " "))
        object.set("per_second", status.order.perSecond)
        object.set("stop", status.order.stops)
        return object
    }
}
