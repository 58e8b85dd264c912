internal import Administration
internal import HTTP
internal import JSON
internal import JSONReader
import Platform

/// The subject of a trace, and how much of the payloads it has.
public struct TraceChoice: Sendable {
    public enum Subject: Sendable {
        case client(String)
        /// A topic filter.
        case topic(String)
        /// An IP address, or a network such as 192.0.2.0/24.
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
    /// `ctl trace list`: the traces that there are.
    public func traces() throws(ControlError) {
        let answer = try ask(ControlRequest(["traces"]))
        if output.isJSON { return output.put(answer.body) }
        let trace = ResourceDescription.trace
        let subject = ResourceColumn(.text("OF")) { row in
            let subjects = [("clientid", "client"), ("topic", "topic"), ("address", "address")].compactMap { name, word in
                row[name].text.map { "\(word) \($0)" }
            }
            return subjects.first ?? "-"
        }
        let columns = [trace.column("id"), subject] + ["state", "until", "lines", "lost", "bytes"].map { trace.column($0) }
        output.show(TextTable(columns, try value(answer).rows), orSay: "There are none.")
    }

    /// Begins a trace.
    ///
    /// - Returns: its identifier.
    public func beginTrace(_ choice: TraceChoice) throws(ControlError) -> String {
        let answer = try value(try ask(ControlRequest(.post, ["traces"], body: choice.json)))
        guard let id = answer["id"].string else { throw ControlError(.unreachable, "The broker's answer names no trace.") }
        return id
    }

    /// `ctl trace --client X --keep`: says how it is called.
    public func announceTrace(_ id: String) { output.say(id) }

    /// Writes the lines of a trace as they come, until it ends.
    public func followTrace(_ id: String) throws(ControlError) {
        try service.follow(ControlRequest(["traces", id, "stream"])) { event in
            if event.event == "end" {
                if !output.isJSON, event.data.holds("\"full\"") { output.say("The trace's file is full.") }
                return false
            }
            if output.isJSON { output.put(event.data.utf8) } else { sayTraceLine(event.data.utf8) }
            return true
        }
    }

    /// `ctl trace print`: what a trace has recorded until now.
    public func recordedTrace(_ id: String) throws(ControlError) {
        let answer = try ask(ControlRequest(["traces", id, "download"]))
        for line in answer.body.split(separator: UInt8(ascii: "\n")) {
            if output.isJSON { output.put(line) } else { sayTraceLine(line) }
        }
    }

    /// Ends a trace and forgets it; one that is gone already is as wanted.
    public func endTrace(_ id: String) throws(ControlError) {
        do throws(ControlError) {
            _ = try ask(ControlRequest(.delete, ["traces", id]))
        } catch  where error.code == .notFound {
            return
        }
    }

    /// `ctl trace stop`.
    public func stopTrace(_ id: String) throws(ControlError) {
        try perform(ControlRequest(.delete, ["traces", id]), about: id) { _ in "The trace \(id) has ended and is forgotten." }
    }

    private func sayTraceLine(_ json: some Sequence<UInt8>) {
        guard let line = try? JSONValue(reading: Array(json)) else { return }
        output.sayForeign(Self.words(of: line))
    }

    /// The time of day, what it is, of whom, and the other members in their order by name.
    private static func words(of line: JSONValue) -> String {
        let time = (line["at"].string ?? "").dropFirst(11).dropLast()
        var words = [String(time)]
        switch line["type"].string {
        case "packet": words += [line["direction"].string == "in" ? "<-" : "->", line["packet"].cell, line["clientid"].cell]
        case "message": words += ["--", line["what"].cell, line["clientid"].cell]
        case let type: words += ["--", type ?? "-", line["clientid"].text].compactMap { $0 }
        }
        if let topic = line["topic"].text { words.append(topic) }
        for name in line.object?.names ?? [] where !shownBefore.contains(name) {
            guard let text = line[name].text else { continue }
            words.append("\(name)=\(text)")
        }
        return words.joined(separator: " ")
    }

    private static let shownBefore: Set = ["at", "type", "direction", "packet", "what", "clientid", "topic"]
}
