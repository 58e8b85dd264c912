internal import Administration
internal import HTTP
internal import JSON
internal import JSONReader
internal import Platform

extension Control {
    /// `ctl status`: the broker, what it does now, its listeners.
    public func status() throws(ControlError) {
        let answers = [
            try ask(ControlRequest(["broker"])), try ask(ControlRequest(["stats"])), try ask(ControlRequest(["listeners"])),
        ]
        if output.isJSON {
            let bodies = answers.map { String(decoding: $0.body, as: UTF8.self) }
            return output.put("{\"broker\":\(bodies[0]),\"stats\":\(bodies[1]),\"listeners\":\(bodies[2])}".utf8)
        }
        let (broker, stats) = (try value(answers[0]), try value(answers[1]))
        let (now, dropped) = (stats["now"], stats["dropped"])
        var facts = FactList()
        facts.add("Broker", "Martlet \(broker["version"].cell) on \(broker["node"].cell)")
        facts.add("State", Self.state(broker))
        facts.add("Alarms", broker["alarms"].integer.flatMap { $0 == 0 ? nil : "\($0) active: martlet ctl alarms" })
        facts.add("Cluster", Self.cluster(broker["cluster"]))
        facts.add("Up", broker["uptime_s"].integer.map { Figures.duration(seconds: $0) })
        facts.add("Configuration", broker["config"]["file"].string)
        facts.add("Memory", broker["memory"]["resident_bytes"].integer.map { Figures.bytes($0) })
        facts.add("Store", Self.store(broker["store"]))
        facts.add("Open files", broker["files"]["open"].integer.map { "\($0) of \(broker["files"]["limit"].cell)" })
        let counts = [("connected", "clients_connected"), ("sessions", "sessions"), ("subscriptions", "subscriptions")]
        facts.add("Clients", counts.map { "\(now[$0.1].cell) \($0.0)" }.joined(separator: ", "))
        facts.add("Messages", "\(now["received_messages_rate"].cell)/s in, \(now["sent_messages_rate"].cell)/s out")
        facts.add("Stored", "\(Figures.counted(now["stored_messages"].cell, "message")), \(now["retained_messages"].cell) retained")
        facts.add("Acknowledged", now["acknowledge_p99_ms"].number.map { "within \(Figures.decimal($0)) ms (99 of 100)" })
        let reasons = dropped.object.map { members in
            members.names.filter { $0 != "total" && (members[$0]?.integer ?? 0) > 0 }
        }
        let words = (reasons ?? []).map { "\(dropped[$0].cell) \($0.split(separator: "_").joined(separator: " "))" }
        facts.add("Dropped", dropped["total"].cell + (words.isEmpty ? "" : " (\(words.joined(separator: ", ")))"))
        output.show(facts)
        output.say("")
        let listener = ResourceDescription.listener
        let columns = [
            listener.column("name"), listener.column("protocol"),
            listener.column("address") { $0["path"].string ?? "\($0["address"].string ?? "*"):\($0["port"].cell)" },
            listener.column("tls"),
            listener.column("connections") { $0["connections"].cell + ($0["max_connections"].text.map { " of \($0)" } ?? "") },
            listener.column("certificate") { $0["certificate"]["not_after"].time },
        ]
        output.show(TextTable(columns, try value(answers[2]).rows), orSay: "It has no listeners.")
        sayOfOneNode(broker, orSee: "martlet ctl cluster shows all")
    }

    private static func state(_ broker: JSONValue) -> String {
        if let state = broker["drain"]["state"].string {
            return state == "drained"
                ? "drained: martlet ctl drain --undo accepts connections again"
                : "draining: \(broker["drain"]["connections_left"].cell) connections are left"
        }
        switch (broker["live"].boolean, broker["ready"].boolean) {
        case (true, true): return "ready"
        case (true, _): return "not ready: see martlet ctl health"
        default: return "a loop hangs: see martlet ctl health"
        }
    }

    private static func store(_ store: JSONValue) -> String? {
        guard let state = store["state"].string else { return nil }
        let parts = [("bytes", ""), ("free_bytes", " free on its disk")].compactMap { key, words in
            store[key].integer.map { Figures.bytes($0) + words }
        }
        return ([state] + parts).joined(separator: ", ")
    }

    /// `ctl health`: whether clients are served, or only whether every loop turns. Throws when not.
    public func health(isLiveOnly: Bool) throws(ControlError) {
        let answer = try service.answer(to: ControlRequest(plain: isLiveOnly ? "/livez" : "/readyz", query: [("verbose", "")]))
        guard answer.isSuccess || answer.status == 503 else { throw ControlError(answer) }
        for line in String(decoding: answer.body, as: UTF8.self).split(separator: "\n") { output.sayForeign(String(line)) }
        guard answer.isSuccess else { throw ControlError(.refused, isLiveOnly ? "It is not live." : "It is not ready.") }
    }

    /// `ctl reload`: reads the configuration again, or only looks whether it is right. Throws when it is not.
    public func reload(isCheck: Bool) throws(ControlError) {
        let answer = try service.answer(to: ControlRequest(.post, ["config", isCheck ? "check" : "reload"]))
        guard let result = try? JSONValue(reading: answer.body), let isRight = result["ok"].boolean else {
            throw ControlError(answer)
        }
        if output.isJSON {
            output.put(answer.body)
        } else {
            for diagnostic in result["diagnostics"].array ?? [] {
                let place = [diagnostic["file"].text, diagnostic["line"].text].compactMap { $0 }.joined(separator: ":")
                let severity = diagnostic["severity"].string == "error" ? "Error" : "Warning"
                output.sayForeign("\(severity): " + (place.isEmpty ? "" : "\(place): ") + diagnostic["message"].cell)
            }
            if isRight { output.say(isCheck ? "The configuration is right." : Self.inForce(result)) }
        }
        guard isRight else {
            throw ControlError(.refused, isCheck ? "The configuration is not right." : "The configuration stays as it was.")
        }
    }

    private static func inForce(_ result: JSONValue) -> String {
        let waits = (result["diagnostics"].array ?? []).contains { $0["message"].cell.holds(restartWords) }
        return waits ? "The rest of the configuration is in force." : "The configuration is in force."
    }

    /// What the broker says of something that a reload does not change.
    private static let restartWords = "takes effect when the broker is started again"

    // MARK: Into the dashboard

    /// `ctl dashboard`: writes a link that lets one browser in as administrator, once.
    public func dashboard() throws(ControlError) {
        let answer = try ask(ControlRequest(.post, ["login-links"]))
        if output.isJSON { return output.put(answer.body) }
        let link = try value(answer)
        output.sayForeign(link["url"].cell)
        output.remark("It lets one browser in as administrator, once, until \(link["expires_at"].time) UTC.")
        guard let origin = link["origins"].array?.first?.string, origin.holds("://localhost") || origin.holds("://127.")
        else {
            return
        }
        let port = origin.split(separator: ":").last.map { String($0) } ?? "9883"
        output.remark("From another machine: ssh -L \(port):localhost:\(port) HOST, then open it there.")
    }

    // MARK: The log

    /// `ctl log`: its last lines, then those that come, if wanted.
    public func log(lineCount: Int, isFollowing: Bool) throws(ControlError) {
        let answer = try ask(ControlRequest(.get, ["log"], query: [("lines", String(lineCount))]))
        if output.isJSON { output.put(answer.body) } else { try value(answer).rows.forEach(sayLogLine) }
        guard isFollowing else { return }
        try service.follow(ControlRequest(["log", "stream"])) { event in
            if output.isJSON {
                output.put(event.data.utf8)
            } else if let line = try? JSONValue(reading: Array(event.data.utf8)) {
                if event.event == "lost" { sayLost(line) } else { sayLogLine(line) }
            }
            return true
        }
    }

    private func sayLogLine(_ line: JSONValue) {
        let (level, message) = (line["level"].cell, line["message"].cell)
        // A line that says itself how bad it is needs no word in front.
        let isMarked = message.lowercased().hasPrefix("\(level): ")
        output.sayForeign("\(line["at"].time) " + (isMarked ? message : "\(level): \(message)"))
    }

    private func sayLost(_ event: JSONValue) { output.sayForeign("… \(event["count"].cell) lost: this reader is too slow.") }

    /// `ctl log level`: what is logged, or what is to be.
    ///
    /// - Parameter words: types, `all`, or each with a plus in front to add them to those there are.
    public func logLevel(_ words: [String]) throws(ControlError) {
        var answer = try ask(ControlRequest(["log", "types"]))
        if !words.isEmpty {
            let present = try value(answer)["types"].array?.compactMap(\.string) ?? []
            let isAddition = words.allSatisfy { $0.hasPrefix("+") }
            let named = words.map { $0.hasPrefix("+") ? String($0.dropFirst()) : $0 }
            var types = isAddition ? present : []
            for type in named.contains("all") ? Self.logTypes : named.filter({ $0 != "none" }) where !types.contains(type) {
                types.append(type)
            }
            var body = JSONObject()
            body.set("types", types)
            answer = try ask(ControlRequest(.put, ["log", "types"], body: body.text))
        }
        if output.isJSON { return output.put(answer.body) }
        let types = try value(answer)["types"].array?.compactMap(\.string) ?? []
        output.sayForeign(types.isEmpty ? "Nothing is logged." : types.joined(separator: " "))
        if !words.isEmpty { output.say("This holds until the configuration is read again.") }
    }

    /// What a broker can log.
    public static let logTypes = [
        "error", "warning", "notice", "information", "subscribe", "unsubscribe", "websockets", "internal", "debug",
    ]
}
