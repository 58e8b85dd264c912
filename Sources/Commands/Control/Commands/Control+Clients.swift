internal import Administration
internal import Bytes
internal import HTTP
internal import JSON

/// Which sessions a list has, and in which order.
public struct ClientFilter: Sendable {
    /// Names and values of the API's query.
    public var query: [(String, String?)] = []

    public init() {}
}

/// What dropped messages are counted by.
public enum DropOrder: String, CaseIterable, Sendable {
    /// The first two levels of their topics.
    case topic
    case listener
}

extension Control {
    /// `ctl clients`.
    ///
    /// - `count`: nil for all.
    /// - `isOfCluster`: whether those of all nodes are meant.
    public func clients(_ filter: ClientFilter, count: Int?, isOfCluster: Bool = false) throws(ControlError) {
        let client = ResourceDescription.client
        try list(
            ["clients"], query: filter.query + [("cluster", isOfCluster ? "true" : nil)], count: count,
            [client.column("clientid")] + (isOfCluster ? [client.column("node")] : []) + [
                client.column("username"), client.column("address", Self.address), client.column("connected", Self.presence),
                client.column("proto_ver", isNumber: false, Self.version), client.column("subscriptions"),
                client.column("queue_messages"), client.column("dropped") { $0["dropped"]["total"].cell }, client.column("lag_ms"),
            ], orSay: "There are none.",
            closing: { page in
                let missing = (page["meta"]["missing_nodes"].array ?? []).compactMap(\.string)
                return missing.isEmpty ? nil : "Without those of \(missing.joined(separator: ", ")): no answer."
            })
        if !isOfCluster { sayOfOneNode(orSee: "--cluster lists the clients of all") }
    }

    static func presence(_ client: JSONValue) -> String { client["connected"].boolean == true ? "on" : "away" }

    private static func address(_ client: JSONValue) -> String {
        guard let address = client["address"].string else { return "-" }
        guard let port = client["port"].integer, port > 0 else { return address }
        return address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
    }

    private static func version(_ client: JSONValue) -> String {
        switch client["proto_ver"].integer {
        case 3: "3.1"
        case 4: "3.1.1"
        case 5: "5.0"
        default: "-"
        }
    }

    /// `ctl client NAME`.
    public func client(_ name: String) throws(ControlError) {
        let answer = try ask(ControlRequest(.get, ["clients", name], query: Self.everywhere), about: name)
        if output.isJSON { return output.put(answer.body) }
        let client = try value(answer)
        var facts = FactList()
        facts.add("Client", client["clientid"].text)
        facts.add("User", client["username"].text)
        facts.add("State", client["connected"].boolean == true ? "connected" : "away")
        facts.add("Address", Self.address(client))
        facts.add("Node", client["node"].text)
        facts.add("Listener", client["listener"].text)
        facts.add("Protocol", "MQTT \(Self.version(client))" + (client["protocol"].string == "websockets" ? " over WebSocket" : ""))
        facts.add("TLS", client["tls"].text)
        facts.add("Certificate", client["certificate_subject"].text)
        facts.add("Connected", client["connected_at"].text.map(Figures.time))
        facts.add("Disconnected", client["disconnected_at"].text.map(Figures.time))
        facts.add("Session since", client["created_at"].text.map(Figures.time))
        facts.add("Session kept", client["session_expiry_s"].integer.map { Figures.duration(seconds: $0) } ?? "for ever")
        facts.add("Keep alive", client["keepalive_s"].integer.map { $0 == 0 ? "none" : Figures.duration(seconds: $0) })
        facts.add("Mount point", client["mount_point"].text)
        facts.add("Will", client["will"]["topic"].text.map { "\($0), QoS \(client["will"]["qos"].cell)" })
        facts.add(
            "Queued",
            "\(Figures.counted(client["queue_messages"].cell, "message")), \(client["queue_bytes"].integer.map { Figures.bytes($0) } ?? "-")"
        )
        facts.add("In flight", "\(client["inflight_out"].cell) out, \(client["inflight_in"].cell) in")
        facts.add("Unwritten", client["output_bytes"].integer.map { Figures.bytes($0) })
        facts.add("Lag", client["lag_ms"].integer.map { Figures.duration(milliseconds: $0) })
        facts.add("Received", Self.traffic(client, "received"))
        facts.add("Sent", Self.traffic(client, "sent"))
        for reason in client["dropped"].object?.names ?? [] where reason != "total" {
            guard let count = client["dropped"][reason].integer, count > 0 else { continue }
            facts.add("Dropped", "\(count) \(reason.split(separator: "_").joined(separator: " "))")
        }
        facts.add("Subscriptions", client["subscriptions"].text)
        output.show(facts)
    }

    private static func traffic(_ client: JSONValue, _ direction: String) -> String? {
        guard let count = client["\(direction)_messages"].text, let bytes = client["\(direction)_bytes"].integer else { return nil }
        return "\(Figures.counted("\(count)", "message")), \(Figures.bytes(bytes))"
    }

    /// On whatever node of the cluster the client is.
    private static let everywhere: [(String, String?)] = [("cluster", "true")]

    /// `ctl kick NAME`: ends the connection, or the session too.
    public func kick(_ name: String, endsSession: Bool, sendsWill: Bool) throws(ControlError) {
        let request =
            endsSession
            ? ControlRequest(.delete, ["clients", name], query: Self.everywhere)
            : ControlRequest(
                .delete, ["clients", name, "connection"], query: [("will", sendsWill ? nil : "false")] + Self.everywhere)
        try perform(request) { _ in endsSession ? "\(name) is gone, with its session." : "\(name) is disconnected." }
    }

    // MARK: Its queue

    /// `ctl queue NAME`.
    public func queue(of name: String, withPayload: Bool, count: Int?) throws(ControlError) {
        try list(
            ["clients", name, "queue"], query: [("payload", withPayload ? "1" : nil)], count: count,
            Self.messageColumns
                + (withPayload
                    ? [ResourceDescription.queuedMessage.column("payload") { $0["payload"].string.map(Self.payloadText) ?? "-" }]
                    : []),
            orSay: "The queue is empty.",
            closing: { page in
                page["on_disk"].integer.flatMap { $0 > 0 ? "Behind them \($0) wait on the disk." : nil }
            })
    }

    /// `ctl queue NAME --in-flight`.
    public func inFlight(of name: String, count: Int?) throws(ControlError) {
        try list(
            ["clients", name, "inflight"], count: count,
            Self.messageColumns + [ResourceDescription.queuedMessage.column("packet_id")],
            orSay: "Nothing is in flight to it.")
    }

    private static var messageColumns: [ResourceColumn] {
        let message = ResourceDescription.queuedMessage
        return [
            message.column("position"), message.column("topic", orSay: "(in the store)"), message.column("state"),
            message.column("qos"), message.column("bytes"), message.column("age_ms"),
        ]
    }

    /// Text, or hexadecimal digits.
    private static func payloadText(_ base64: String) -> String {
        guard let bytes = Base64.decode(base64) else { return "-" }
        return String(validating: bytes, as: UTF8.self)
            ?? "0x" + bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// `ctl queue NAME --delete`.
    ///
    /// - `filter`: only what it matches; nil for all.
    public func deleteQueue(of name: String, filter: String?) throws(ControlError) {
        try perform(ControlRequest(.delete, ["clients", name, "queue"], query: [("filter", filter)]), about: name) { answer in
            Self.removed(answer, "message")
        }
    }

    static func removed(_ answer: JSONValue, _ noun: String) -> String {
        let count = answer["removed"].integer ?? 0
        return "\(count) \(noun)\(count == 1 ? "" : "s") removed."
    }

    // MARK: What has happened to them

    /// `ctl closed`: connections that have ended.
    public func closedConnections(client: String?, refusedOnly: Bool, count: Int?) throws(ControlError) {
        let closed = ResourceDescription.closedConnection
        try list(
            ["connections", "closed"], query: [("clientid", client), ("refused", refusedOnly ? "true" : nil)], count: count,
            [
                closed.column("to"), closed.column("clientid"), closed.column("username"), closed.column("address", Self.address),
                closed.column("reason") { ($0["refused"].boolean == true ? "refused: " : "") + $0["reason"].cell },
            ], orSay: "There are none.")
        sayOfOneNode()
    }

    /// `ctl drops`: the last messages that were dropped.
    public func drops(count: Int) throws(ControlError) {
        let answer = try ask(ControlRequest(.get, ["drops"], query: [("limit", String(count))]))
        if output.isJSON { return output.put(answer.body) }
        let drop = ResourceDescription.drop
        let columns = [
            drop.column("at"), drop.column("clientid"), drop.column("topic"),
            drop.column("reason") { Self.words($0["reason"].cell) }, drop.column("qos"), drop.column("bytes"),
        ]
        output.show(TextTable(columns, try value(answer).rows), orSay: "None was dropped.")
        sayOfOneNode()
    }

    /// `ctl drops --by`: how many were dropped for which reason, by the beginning of their topics or by listener.
    public func drops(_ order: DropOrder) throws(ControlError) {
        let answer = try ask(ControlRequest(["drops"]))
        if output.isJSON { return output.put(answer.body) }
        let (list, name, title) = order == .topic ? ("by_prefix", "prefix", "TOPICS") : ("by_listener", "listener", "LISTENER")
        var table = TextTable([.text(title), .number("DROPPED"), .text("REASONS")])
        for row in try value(answer)[list].array ?? [] {
            let counts = row["dropped"].object
            let reasons = (counts?.names ?? []).filter { $0 != "total" && counts?[$0]?.integer ?? 0 > 0 }
            table.rows.append([
                row[name].text ?? "(others)", row["dropped"]["total"].cell,
                reasons.map { "\(counts?[$0]?.cell ?? "-") \(Self.words($0))" }.joined(separator: ", "),
            ])
        }
        output.show(table, orSay: "None was dropped.")
        sayOfOneNode()
    }

    private static func words(_ label: String) -> String { label.split(separator: "_").joined(separator: " ") }

    /// Client Identifiers that begin with a text, for a shell to complete: only those that no shell takes for more than
    /// a word.
    public func completions(of prefix: String) -> [String] {
        let query: [(String, String?)] = [("prefix", prefix.isEmpty ? nil : prefix), ("fields", "clientid"), ("limit", "200")]
        guard let answer = try? ask(ControlRequest(.get, ["clients"], query: query)), let page = try? value(answer) else {
            return []
        }
        return page.rows.compactMap { $0["clientid"].string }.filter { Self.isCompletion($0, of: prefix) }
    }

    /// Whether a name begins with a text, and no shell takes it for more than a word.
    static func isCompletion(_ name: String, of prefix: String) -> Bool {
        name.hasPrefix(prefix) && name.utf8.first != UInt8(ascii: "-") && name.utf8.allSatisfy(Self.isPlain)
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._/@+,".utf8.contains(byte)
        }
    }
}
