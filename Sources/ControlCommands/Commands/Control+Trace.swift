internal import HTTP
internal import JSON

/// Whose packets are traced, and what of them.
public struct TraceWish: Sendable {
    public enum Subject: Sendable {
        case client(String)
        /// A topic filter.
        case topic(String)
        case address(String)
    }

    public var subject: Subject
    public var seconds: Int
    /// `none`, `text` or `hex`.
    public var payload: String
    /// Bytes of a payload.
    public var payloadLimit: Int

    public init(_ subject: Subject, seconds: Int, payload: String, payloadLimit: Int) {
        (self.subject, self.seconds, self.payload, self.payloadLimit) = (subject, seconds, payload, payloadLimit)
    }

    var json: String {
        var body = JSONObject()
        switch subject {
        case .client(let name): body.set("clientid", name)
        case .topic(let filter): body.set("topic", filter)
        case .address(let address): body.set("address", address)
        }
        body.set("until", Figures.timeAfter(seconds: seconds))
        body.set("payload", payload)
        body.set("payload_limit", payloadLimit)
        return body.text
    }
}

extension Control {
    /// `ctl trace`: the traces that there are.
    public func traces() throws(ControlError) {
        let answer = try ask(ControlRequest(["traces"]))
        if output.isJSON { return output.put(answer.body) }
        var table = TextTable([
            .text("ID"), .text("OF"), .text("STATE"), .text("UNTIL (UTC)"), .number("LINES"), .number("SIZE"),
        ])
        for trace in try value(answer).rows {
            let subject = ["clientid", "topic", "address"].compactMap { name in trace[name].text.map { "\(name) \($0)" } }
            table.rows.append([
                trace["id"].cell, subject.first ?? "-", trace["state"].cell, trace["until"].time, trace["lines"].cell,
                trace["bytes"].integer.map { Figures.bytes($0) } ?? "-",
            ])
        }
        output.show(table, orSay: "There are none.")
    }

    /// Begins a trace. Returns its identifier.
    public func beginTrace(_ wish: TraceWish) throws(ControlError) -> String {
        let answer = try value(try ask(ControlRequest(.post, ["traces"], body: wish.json)))
        guard let id = answer["id"].string else { throw ControlError(.unreachable, "The broker's answer names no trace.") }
        return id
    }

    /// Writes the packets of a trace as they come, until it ends.
    public func followTrace(_ id: String) throws(ControlError) {
        try service.follow(ControlRequest(["traces", id, "stream"])) { event in
            if output.isJSON {
                output.put(event.data.utf8)
            } else if let packet = try? JSONValue(reading: Array(event.data.utf8)) {
                if event.event == "lost" { sayLost(packet) } else { output.sayForeign(Self.line(of: packet)) }
            }
            return true
        }
    }

    /// What a trace has recorded until now: a JSON object a line.
    public func recordedTrace(_ id: String) throws(ControlError) {
        let answer = try ask(ControlRequest(["traces", id, "download"]))
        for line in answer.body.split(separator: UInt8(ascii: "\n")) {
            if output.isJSON {
                output.put(line)
            } else if let packet = try? JSONValue(reading: Array(line)) {
                output.sayForeign(Self.line(of: packet))
            }
        }
    }

    /// Ends a trace and forgets it.
    public func endTrace(_ id: String) throws(ControlError) {
        _ = try ask(ControlRequest(.delete, ["traces", id]))
    }

    /// The time, and what the packet is: whatever members it has, in their order, those that are not there left out.
    private static func line(of packet: JSONValue) -> String {
        if let line = packet.string ?? packet["line"].string { return line }
        let names = packet.object?.names ?? []
        let values = names.compactMap { name -> String? in
            guard let text = packet[name].text else { return nil }
            switch name {
            case "at": return packet[name].time
            case "clientid", "direction", "packet", "topic", "type": return text
            default: return "\(name)=\(text)"
            }
        }
        return values.joined(separator: " ")
    }
}
