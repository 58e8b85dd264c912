internal import Administration
internal import Glibc
internal import HTTP
internal import JSON

extension Control {
    /// `ctl bridge`: the bridges to other brokers.
    public func bridges() throws(ControlError) {
        let answer = try ask(ControlRequest(["bridges"]))
        if output.isJSON { return output.put(answer.body) }
        let bridge = ResourceDescription.bridge
        let columns = [
            bridge.column("name"), bridge.column("state"), bridge.column("address"), bridge.column("queue_messages"),
            bridge.column("lag_ms", isNumber: false) { row in
                row["lag_ms"].integer.map { $0 == 0 ? "-" : Figures.duration(milliseconds: $0) } ?? "-"
            },
            bridge.column("out_rate"), bridge.column("in_rate"), bridge.column("out_messages"), bridge.column("in_messages"),
            ResourceColumn(.number("DROPPED")) { String(($0["out_dropped"].integer ?? 0) + ($0["in_dropped"].integer ?? 0)) },
        ]
        let found = try value(answer)
        output.show(TextTable(columns, found.rows), orSay: "There is no bridge.")
        if found["kept"].boolean == false { output.say("The broker has no persistence: bridges that are added here end with it.") }
    }

    /// `ctl bridge show NAME`.
    public func bridge(_ name: String) throws(ControlError) {
        let answer = try ask(ControlRequest(["bridges", name]), about: name)
        if output.isJSON { return output.put(answer.body) }
        let bridge = try value(answer)
        func bothWays(_ what: String, _ words: (JSONValue) -> String = { $0.cell }) -> String {
            "\(words(bridge["out_\(what)"])) out, \(words(bridge["in_\(what)"])) in"
        }
        func bytes(_ value: JSONValue) -> String { value.integer.map { Figures.bytes($0) } ?? "-" }
        var facts = FactList()
        facts.add("Bridge", bridge["name"].string)
        facts.add("State", bridge["state"].string)
        facts.add("Because", bridge["last_error"].string)
        facts.add("Address", bridge["address"].string)
        facts.add("Connected since", bridge["connected_at"].string.map { Figures.time($0) + " UTC" })
        facts.add("Connections made", bridge["connections"].text)
        facts.add(
            "Waiting",
            "\(Figures.counted(bridge["queue_messages"].cell, "message")), \(bytes(bridge["queue_bytes"])), \(bridge["queue_on_disk"].cell) on disk"
        )
        facts.add("Lag", bridge["lag_ms"].integer.map { Figures.duration(milliseconds: $0) })
        facts.add("Messages a second", bothWays("rate"))
        facts.add("Messages", bothWays("messages"))
        facts.add("Bytes", bothWays("bytes", bytes))
        facts.add("Dropped", bothWays("dropped"))
        facts.add(
            "Defined in", bridge["file"].string.map { "\($0) line \(bridge["line"].cell)" } ?? "no file: added while the broker ran"
        )
        let connections = bridge["each_connection"].array ?? []
        for connection in connections where connections.count > 1 {
            let because = connection["last_error"].string.map { ": \($0)" } ?? ""
            facts.add(
                "Connection \(connection["number"].cell)",
                "\(connection["state"].cell), \(connection["queue_messages"].cell) waiting, \(connection["out_rate"].cell) out a second\(because)"
            )
        }
        output.show(facts)
        guard let options = bridge["options"].object else { return }
        output.say("")
        for option in options.names {
            for value in options[option]?.array ?? [options[option] ?? .null] { output.sayForeign("\(option) \(value.cell)") }
        }
    }

    /// `ctl bridge add NAME LINE...`: adds a bridge, and runs it.
    ///
    /// - `lines`: as of a `connection` section.
    public func addBridge(_ name: String, _ lines: [String]) throws(ControlError) {
        let options = [(name: "name", values: [name])] + (try Self.options(of: lines))
        try set(ControlRequest(.post, ["bridges"], body: Self.object(options)), "The bridge \(name) is added.")
        sayState(ofBridge: name)
    }

    /// `ctl bridge change NAME LINE...`: other options for a bridge that was added; those that are not named stay.
    ///
    /// - `lines`: as of a `connection` section.
    /// - `unset`: options that are taken away.
    public func changeBridge(_ name: String, _ lines: [String], unset: [String]) throws(ControlError) {
        let options = try Self.options(of: lines) + unset.map { (name: $0, values: []) }
        try set(ControlRequest(.patch, ["bridges", name], body: Self.object(options)), "The bridge \(name) is changed.")
    }

    /// Gives a bridge options, and says what the broker warns of.
    private func set(_ request: ControlRequest, _ words: String) throws(ControlError) {
        let answer = try ask(request)
        if output.isJSON { return output.put(answer.body) }
        output.sayForeign(words)
        for warning in try value(answer)["warnings"].array ?? [] { output.sayForeign("Warning: \(warning.cell)") }
    }

    /// `ctl bridge pause NAME` and `resume NAME`.
    public func setBridge(_ name: String, isPaused: Bool) throws(ControlError) {
        try perform(ControlRequest(.post, ["bridges", name, isPaused ? "pause" : "resume"]), about: name) { _ in
            isPaused ? "The bridge \(name) is paused. Messages for it wait." : "The bridge \(name) is resumed."
        }
        if !isPaused { sayState(ofBridge: name) }
    }

    /// Says how a bridge is that has just been set going: not before it is connected, or has tried in vain.
    private func sayState(ofBridge name: String) {
        if output.isJSON { return }
        for _ in 0..<Self.stateTries {
            // What was ordered is done; that its state cannot be asked for is not worth an error.
            guard let answer = try? ask(ControlRequest(["bridges", name])), let bridge = try? value(answer) else { return }
            let state = bridge["state"].string ?? ""
            if let words = Self.stateWords(state, bridge) { return output.sayForeign(words) }
            usleep(Self.stateMicroseconds)
        }
        output.say("It is still connecting. See: martlet ctl bridge show NAME")
    }

    /// A sentence about a state that lasts; nil for one that passes.
    private static func stateWords(_ state: String, _ bridge: JSONValue) -> String? {
        let (address, failure) = (bridge["address"].string ?? "", bridge["last_error"].string)
        switch state {
        case "connected": return "It is connected to \(address)."
        case "waiting": return failure.map { "It is not connected and tries again: \($0)" }
        case "lazy": return "It connects when messages wait for it."
        case "ended": return "It does not connect again: start_type once."
        case "failed": return "It cannot run: \(failure ?? "see the log")"
        default: return nil
        }
    }

    /// The broker looks at its bridges once a second, and most brokers answer at once.
    private static let stateTries = 40
    private static let stateMicroseconds: UInt32 = 100_000

    /// `ctl bridge remove NAME`.
    public func removeBridge(_ name: String) throws(ControlError) {
        try perform(ControlRequest(.delete, ["bridges", name]), about: name) { _ in
            "The bridge \(name) is removed, and what has waited for it."
        }
    }

    /// Names of bridges that begin with a text, for a shell to complete: only those that no shell takes for more than a
    /// word.
    public func bridgeCompletions(of prefix: String) -> [String] {
        guard let answer = try? ask(ControlRequest(["bridges"])), let page = try? value(answer) else { return [] }
        return page.rows.compactMap { $0["name"].string }.filter { Self.isCompletion($0, of: prefix) }
    }

    /// The lines' options, each once and with all its values, in the order in which they come.
    private static func options(of lines: [String]) throws(ControlError) -> [(name: String, values: [String])] {
        var options: [(name: String, values: [String])] = []
        for line in lines {
            let words = line.split(maxSplits: 1) { $0 == " " || $0 == "\t" }
            guard let name = words.first.map(String.init), name.first != "#" else { continue }
            guard words.count == 2 else {
                throw ControlError(.refused, "\(name): give its value after it, as in 'address host:1883'.")
            }
            let value = String(words[1].drop { $0 == " " || $0 == "\t" })
            if let place = options.firstIndex(where: { $0.name == name }) {
                options[place].values.append(value)
            } else {
                options.append((name, [value]))
            }
        }
        return options
    }

    /// One value as a text, several as a list, none as null.
    private static func object(_ options: [(name: String, values: [String])]) -> String {
        var body = JSONObject()
        for (name, values) in options {
            if values.count > 1 { body.set(name, values) } else { body.set(name, orNull: values.first) }
        }
        return body.text
    }
}
