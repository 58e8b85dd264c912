internal import Administration
internal import Glibc
internal import HTTP
internal import JSON
internal import JSONReader
internal import Platform
internal import Transports

/// What `martlet ctl` does, one function a command: it asks the broker, and writes a table, or the API's JSON. Each
/// throws when the broker does not do it.
public struct Control {
    let service: any ControlService
    let output: ControlOutput

    public init(_ service: any ControlService, _ output: ControlOutput) { (self.service, self.output) = (service, output) }

    /// Seconds that `90s`, `10m`, `2h`, `7d` or `90` mean; nil for anything else.
    public static func seconds(_ text: String) -> Int? { Figures.seconds(text) }

    /// A success, or an error.
    func ask(_ request: ControlRequest) throws(ControlError) -> ControlAnswer {
        let answer = try service.answer(to: request)
        guard answer.isSuccess else { throw ControlError(answer) }
        return answer
    }

    /// Asks about an object by its name, which the error names where there is no such object.
    func ask(_ request: ControlRequest, about name: String?) throws(ControlError) -> ControlAnswer {
        let answer = try service.answer(to: request)
        guard answer.isSuccess else { throw name.map { ControlError(answer).about($0) } ?? ControlError(answer) }
        return answer
    }

    /// The JSON of a success.
    func value(_ answer: ControlAnswer) throws(ControlError) -> JSONValue {
        do throws(JSONError) {
            return try JSONValue(reading: answer.body)
        } catch {
            throw ControlError(.unreachable, "The broker's answer is no JSON: \(error).")
        }
    }

    /// Asks for rows, page by page if more are wanted than a page has.
    ///
    /// - Parameters:
    ///   - count: of the rows at most; nil for all.
    ///   - row: takes each; in JSON the pages are written as they are, one a line.
    /// - Returns: whether there are more.
    @discardableResult
    func eachRow(
        _ segments: [String], query: [(String, String?)] = [], count: Int?, _ row: (JSONValue) -> Void,
        ofPage: (JSONValue) -> Void = { _ in }
    ) throws(ControlError) -> Bool {
        var cursor: String?
        var left = count ?? Int.max
        repeat {
            let limit = ("limit", String(min(left, Limits.pageRowsMax)) as String?)
            let answer = try ask(ControlRequest(.get, segments, query: query + [limit, ("cursor", cursor)]))
            let page = try value(answer)
            if output.isJSON { output.put(answer.body) }
            page.rows.forEach(row)
            ofPage(page)
            left -= page.rows.count
            cursor = page.rows.isEmpty ? nil : page["meta"]["cursor"].string
        } while cursor != nil && left > 0
        return cursor != nil
    }

    /// Rows as a table.
    ///
    /// - Parameter closing: what is said below it of the last page; nil for nothing.
    func list(
        _ segments: [String], query: [(String, String?)] = [], count: Int?, _ columns: [ResourceColumn], orSay nothing: String,
        closing: (JSONValue) -> String? = { _ in nil }
    ) throws(ControlError) {
        var rows: [JSONValue] = []
        var last: String?
        let hasMore = try eachRow(segments, query: query, count: count) { row in
            if !output.isJSON { rows.append(row) }
        } ofPage: {
            last = closing($0)
        }
        guard !output.isJSON else { return }
        output.show(TextTable(columns, rows), orSay: nothing)
        if hasMore { output.say("… and more: --all, or --limit with a larger number.") }
        if let last { output.say(last) }
    }

    /// A command, and what to say when it is done.
    ///
    /// - Parameter name: of what it is about; nil of what has none.
    func perform(
        _ request: ControlRequest, about name: String? = nil, _ words: (JSONValue) -> String
    ) throws(ControlError) {
        let answer = try ask(request, about: name)
        if output.isJSON { return answer.body.isEmpty ? () : output.put(answer.body) }
        output.sayForeign(words(answer.body.isEmpty ? .null : try value(answer)))
    }
}

extension Control {
    /// `ctl may`: whether somebody may do something, and which line or role decides it.
    ///
    /// - Parameter query: `action`, `topic`, `username`, `clientid`, `address`, `attributes`, `qos`, `retain`,
    ///   `groups`, `roles`, `certificate`, `listener` of the API.
    /// - Returns: whether they may.
    public func may(_ query: [(String, String?)]) throws(ControlError) -> Bool {
        let answer = try ask(ControlRequest(.get, ["may"], query: query))
        let value = try value(answer)
        let isAllowed = value["allowed"].boolean == true
        guard !output.isJSON else {
            output.put(answer.body)
            return isAllowed
        }
        output.sayForeign(value["reason"].cell)
        if let remark = value["remark"].string { output.sayForeign(remark) }
        // What is not given, but made out.
        if query.contains(where: { $0.0 == "certificate" && $0.1 != nil }) {
            output.sayForeign("The client is \(Self.client(value)).")
        }
        return isAllowed
    }

    /// The Base64 of a certificate, for questions about who has it.
    ///
    /// - Parameter path: a PEM file, of which the first certificate counts, or DER.
    public static func certificate(ofFile path: String) throws(ControlError) -> String {
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.bytes(of: path, bytesMax: Limits.certificateFileBytesMax)
        } catch {
            throw ControlError(.refused, "\(path) cannot be read: \(error).")
        }
        guard let file = CertificateFile(bytes) else {
            throw ControlError(.refused, "\(path) is no certificate: a PEM file is expected, or DER.")
        }
        return file.text
    }

    /// Whom an answer is about, as a part of a sentence.
    private static func client(_ value: JSONValue) -> String {
        var words = value["username"].string ?? "one without a user name"
        let names = { (list: String) in (value[list].array ?? []).map(\.cell).joined(separator: ", ") }
        if value["groups"].array?.isEmpty == false { words += ", in the groups \(names("groups"))" }
        if value["roles"].array?.isEmpty == false { words += ", with the roles \(names("roles"))" }
        let attributes = (value["attributes"].array ?? []).map { "\($0["name"].cell)=\($0["value"].cell)" }
        if !attributes.isEmpty { words += ", with \(attributes.joined(separator: ", "))" }
        if let mountPoint = value["mount_point"].string { words += ", its topics below \(mountPoint)" }
        return words
    }
}

extension Control {
    /// `ctl login explain`: what each source of logins thinks of a login, and which one decides.
    ///
    /// - Parameters:
    ///   - members: `username`, `clientid`, `address`, `certificate`, `listener` of the API; one that is nil is left
    ///     out.
    ///   - password: nil for none.
    ///   - deed: what the client would do when it is in; nil for nothing.
    /// - Returns: whether the client would be let in, and may do that.
    public func explainLogin(_ members: [(String, String?)], password: String?, deed: Deed? = nil) throws(ControlError) -> Bool {
        var body = JSONObject()
        for (name, value) in members + [("password", password), ("action", deed?.action), ("topic", deed?.topic)] {
            if let value { body.set(name, value) }
        }
        if let qos = deed?.qos { body.set("qos", qos) }
        if let isRetained = deed?.isRetained { body.set("retain", isRetained) }
        let answer = try ask(ControlRequest(.post, ["logins", "explain"], body: body.text))
        let value = try value(answer)
        guard !output.isJSON else {
            output.put(answer.body)
            return value["result"].string == "allowed" && value["may"]["allowed"].boolean != false
        }
        var table = TextTable([.text("SOURCE"), .text("ANSWER"), .number("MILLISECONDS"), .text("REASON")])
        for step in value["steps"].array ?? [] {
            let microseconds = step["took_us"].integer ?? 0
            let tenths = String(microseconds / 1000) + "." + String(microseconds / 100 % 10)
            table.rows.append([step["source"].cell, step["answer"].cell, tenths, step["reason"].string ?? ""])
        }
        if !table.rows.isEmpty { output.show(table, orSay: "") }
        output.sayForeign(value["reason"].cell)
        let attributes = (value["attributes"].array ?? []).map { "\($0["name"].cell)=\($0["value"].cell)" }
        if !attributes.isEmpty { output.sayForeign("Attributes of the client: \(attributes.joined(separator: ", ")).") }
        for (list, title) in [("groups", "Groups"), ("roles", "Roles")] {
            let names = (value[list].array ?? []).map(\.cell)
            if !names.isEmpty { output.sayForeign("\(title) by its certificate: \(names.joined(separator: ", ")).") }
        }
        if let reason = value["may"]["reason"].string { output.sayForeign(reason) }
        return value["result"].string == "allowed" && value["may"]["allowed"].boolean != false
    }

    /// What a client would do.
    public struct Deed: Sendable {
        /// `publish`, `subscribe` or `receive`.
        public var action: String
        public var topic: String
        public var qos: Int?
        public var isRetained: Bool?

        public init(action: String, topic: String, qos: Int? = nil, isRetained: Bool? = nil) {
            (self.action, self.topic, self.qos, self.isRetained) = (action, topic, qos, isRetained)
        }
    }
}

/// What ends a trace that is followed: Ctrl-C, or its time. A thread waits for it, since the one that reads waits for
/// the broker.
public enum TraceEnd {
    /// From here on SIGINT and SIGTERM wait for `await`, so that no trace is left behind.
    public static func holdSignals() {
        var signals = signals
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    /// Ends the trace and the process on a signal, and when the time is over.
    public static func await(_ id: String, of service: BrokerService, seconds: Int) {
        // Without the thread the broker ends the trace when its time is over.
        _ = try? NamedThread.start(name: "trace") {
            var signals = signals
            var time = timespec(tv_sec: seconds + 1, tv_nsec: 0)
            while sigtimedwait(&signals, nil, &time) == -1, errno == EINTR {}
            try? Control(service, ControlOutput(width: nil, isJSON: true) { _ in }).endTrace(id)
            exit(EXIT_SUCCESS)
        }
    }

    private static var signals: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        return signals
    }
}

extension Control {
    /// `ctl alarms`: what is wrong with the broker, or has been.
    ///
    /// - `state`: `active`, `cleared` or `all`.
    /// - `count`: rows at most, nil for all.
    public func alarms(_ state: String, count: Int?) throws(ControlError) {
        let alarm = ResourceDescription.alarm
        try list(
            ["alarms"], query: [("state", state)], count: count,
            [
                alarm.column("number"), alarm.column("severity"), alarm.column("name"), alarm.column("of", orSay: "–"),
                alarm.column("raised_at"), alarm.column("cleared_at", orSay: "–"), alarm.column("acknowledged_by", orSay: "–"),
                alarm.column("message"),
            ], orSay: state == "active" ? "No alarms are active." : "There were no alarms.")
    }

    /// `ctl alarms ack NUMBER`.
    public func acknowledgeAlarm(_ number: Int) throws(ControlError) {
        try perform(ControlRequest(.post, ["alarms", "\(number)", "acknowledge"])) { alarm in
            "Alarm \(alarm["number"].cell) (\(alarm["name"].cell)) is acknowledged by \(alarm["acknowledged_by"].cell)."
        }
    }
}

extension Control {
    /// `ctl token`: the tokens of programs, without their secrets.
    public func tokens() throws(ControlError) {
        let answer = try ask(ControlRequest(["tokens"]))
        if output.isJSON { return output.put(answer.body) }
        let token = ResourceDescription.token
        let columns = [token.column("name"), token.column("role"), token.column("expires_at", orSay: "never")]
        output.show(TextTable(columns, try value(answer).rows), orSay: "There are none.")
    }

    /// `ctl token create NAME`: writes the token, which is shown this once.
    ///
    /// - `seconds`: nil for one that does not expire.
    public func createToken(_ name: String, role: String, seconds: Int?) throws(ControlError) {
        var body = JSONObject()
        body.set("name", name)
        body.set("role", role)
        if let seconds { body.set("expires_at", Figures.timeAfter(seconds: seconds)) }
        try perform(ControlRequest(.post, ["tokens"], body: body.text)) { $0["token"].cell }
        guard !output.isJSON, let seconds else { return }
        output.remark("It ends on \(Figures.time(Figures.timeAfter(seconds: seconds))) UTC; --for says otherwise.")
    }

    /// `ctl token revoke NAME`.
    public func revokeToken(_ name: String) throws(ControlError) {
        try perform(ControlRequest(.delete, ["tokens", name]), about: name) { _ in "The token \(name) is revoked." }
    }
}

extension Control {
    /// `ctl topic-metrics`: what is counted of chosen topics.
    public func topicMetrics() throws(ControlError) {
        let answer = try ask(ControlRequest(["topic-metrics"]))
        if output.isJSON { return output.put(answer.body) }
        let names = [
            "filter", "in_messages", "in_rate", "out_messages", "out_rate", "dropped", "in_bytes", "out_bytes", "since",
        ]
        let columns = names.map { ResourceDescription.topicMetric.column($0) }
        output.show(TextTable(columns, try value(answer).rows), orSay: "No topic is counted.")
    }

    /// `ctl topic-metrics add FILTER`.
    public func addTopicMetric(_ filter: String) throws(ControlError) {
        var body = JSONObject()
        body.set("filter", filter)
        try perform(ControlRequest(.post, ["topic-metrics"], body: body.text)) { _ in "\(filter) is counted." }
    }

    /// `ctl topic-metrics remove FILTER`.
    public func removeTopicMetric(_ filter: String) throws(ControlError) {
        try perform(ControlRequest(.delete, ["topic-metrics"], query: [("filter", filter)])) { _ in
            "\(filter) is not counted any more."
        }
    }
}

extension Control {
    /// `ctl ban`: who is banned.
    public func bans(count: Int?) throws(ControlError) {
        let ban = ResourceDescription.ban
        try list(
            ["bans"], count: count,
            [
                ban.column("as") { Self.word($0["as"].cell) }, ban.column("who", Self.who), ban.column("at"),
                ban.column("until", orSay: "for ever"), ban.column("by"), ban.column("reason"),
            ], orSay: "Nobody is banned.")
    }

    /// Of a client that is banned for one user and address alone, both too.
    private static func who(_ ban: JSONValue) -> String {
        guard let address = ban["address"].string else { return ban["who"].cell }
        return ban["who"].cell + (ban["user"].string.map { " of \($0)" } ?? "") + " from \(address)"
    }

    /// What one types for a kind of ban; the API has EMQX's words.
    private static func word(_ kind: String) -> String {
        switch kind {
        case "clientid": "client"
        case "username": "user"
        case "peerhost": "address"
        case "peerhost_net": "network"
        default: kind
        }
    }

    /// `ctl ban add WHO`: whoever is connected is disconnected.
    ///
    /// - `kind`: `clientid`, `username`, `peerhost` or `peerhost_net`.
    /// - `seconds`: nil for ever.
    public func ban(_ kind: String, _ who: String, seconds: Int?, reason: String?) throws(ControlError) {
        var body = JSONObject()
        body.set("as", kind)
        body.set("who", who)
        if let reason { body.set("reason", reason) }
        if let seconds { body.set("until", Figures.timeAfter(seconds: seconds)) }
        try perform(ControlRequest(.post, ["bans"], body: body.text)) { ban in
            "The \(Self.word(ban["as"].cell)) \(ban["who"].cell) is banned "
                + (ban["until"].string.map { "until \(Figures.time($0)) UTC." } ?? "for ever.")
        }
    }

    /// `ctl ban remove WHO`.
    public func liftBan(_ kind: String, _ who: String) throws(ControlError) {
        try perform(ControlRequest(.delete, ["bans", kind, who]), about: who) { _ in
            "The \(Self.word(kind)) \(who) is not banned any more."
        }
    }
}

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
        var shown: Int64?
        while status["state"].string == "draining" {
            if !output.isJSON, status["connections_left"].integer != shown { say(status) }
            shown = status["connections_left"].integer
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
        try perform(ControlRequest(.delete, ["drain"])) { _ in "Connections are accepted again." }
    }
}
