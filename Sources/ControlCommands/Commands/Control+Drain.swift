internal import HTTP
internal import JSON

extension Control {
    /// How clients are sent away.
    public struct Drain: Sendable {
        /// Where 5.0 clients are told to go; nil for nowhere in particular.
        public var serverReference: String?
        /// How many a second; nil for as many as the broker finds right.
        public var perSecond: Int?
        /// Whether the broker ends when all have gone.
        public var stops: Bool

        public init(serverReference: String?, perSecond: Int?, stops: Bool) {
            (self.serverReference, self.perSecond, self.stops) = (serverReference, perSecond, stops)
        }
    }

    /// `ctl drain`: has clients sent away, and waits until all have gone.
    ///
    /// - `pause`: lets some time pass before the broker is asked once more; nil to wait for nothing.
    public func drain(_ drain: Drain, pause: (() -> Void)?) throws(ControlError) {
        var body = JSONObject()
        if let reference = drain.serverReference { body.set("server_reference", reference) }
        if let rate = drain.perSecond { body.set("per_second", rate) }
        body.set("stop", drain.stops)
        var answer = try ask(ControlRequest(.post, ["drain"], body: body.text))
        var status = try value(answer)
        guard let pause else { return output.isJSON ? output.put(answer.body) : say(status) }
        var told: Int64?
        while status["state"].string == "draining" {
            if !output.isJSON, status["connections_left"].integer != told { say(status) }
            told = status["connections_left"].integer
            pause()
            do throws(ControlError) {
                answer = try ask(ControlRequest(["broker"]))
            } catch {
                // A broker that ends when it is drained answers no more.
                guard drain.stops, error.code == .unreachable else { throw error }
                return output.isJSON ? () : output.say("The broker has ended.")
            }
            status = try value(answer)["drain"]
        }
        guard status["state"].string == "drained" else { throw ControlError(.refused, "Draining was undone by somebody else.") }
        if output.isJSON { output.put(answer.body) } else { say(status) }
    }

    private func say(_ status: JSONValue) {
        let left = status["connections_left"].cell
        output.say(
            status["state"].string == "drained"
                ? "Drained: no client is left, and new connections are refused." : "Draining: \(left) connections are left.")
    }

    /// `ctl drain --undo`.
    public func endDrain() throws(ControlError) {
        try order(ControlRequest(.delete, ["drain"])) { _ in "Connections are accepted again." }
    }
}
