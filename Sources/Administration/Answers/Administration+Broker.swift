internal import BrokerModel
internal import HTTP
internal import JSON

/// The broker itself: how it is, where it listens, how it is configured.
extension Administration {
    func getBroker(_ call: Call) throws(APIError) {
        withStatistics(call) { [self] shards in
            let (facts, condition, now) = (
                broker.facts, broker.condition, call.startedAt.wallMilliseconds
            )
            let sum = ShardStatistics.sum(of: shards)
            var object = JSONObject()
            object.set("version", facts.version)
            object.set("node", facts.node)
            object.set("started_at", Timestamp.text(facts.startedAt))
            object.set("uptime_s", (now - min(now, facts.startedAt)) / 1000)
            object.set("drain", orNull: broker.drain.map { Self.drain($0) })
            object.set("cluster", orNull: broker.condition.cluster.map { Self.clusterInShort($0) })
            object.set("live", Self.isAllWell(liveness()))
            object.set("ready", Self.isAllWell(readiness()))
            object.set("alarms", alarms.raised.count)
            object.set(
                "loops",
                shards.enumerated().map { index, shard in
                    var loop = JSONObject()
                    loop.set("loop", index)
                    loop.set(
                        "turn_age_ms",
                        condition.loopAges.indices.contains(index) ? condition.loopAges[index] : 0)
                    loop.set("connections", shard.connections)
                    loop.set("sessions", shard.clientsTotal)
                    return loop
                })
            object.set("store", store(condition, sum))
            object.set("memory", Self.memory(condition, sum))
            object.set("files", files)
            let configuration = broker.configuration
            var config = JSONObject()
            config.set("file", orNull: configuration.file)
            config.set("digest", orNull: configuration.digest)
            config.set("reloaded_at", orNull: condition.reloadedAt.map { Timestamp.text($0) })
            object.set("config", config)
            call.answer(object)
        }
    }

    private func store(_ condition: BrokerCondition, _ sum: ShardStatistics) -> JSONObject {
        var object = JSONObject()
        object.set("state", condition.store?.rawValue ?? "off")
        object.set("bytes", orNull: sum.store?.bytes)
        object.set("free_bytes", orNull: broker.storeFreeBytes)
        object.set("rows", orNull: sum.store?.rows)
        object.set("commits", orNull: sum.store?.commits)
        return object
    }

    private static func memory(_ condition: BrokerCondition, _ sum: ShardStatistics) -> JSONObject {
        var object = JSONObject()
        object.set("resident_bytes", condition.residentBytes)
        object.set("heap_bytes", max(0, sum.heapBytes))
        object.set("limit_bytes", orNull: condition.heapBytesMax)
        return object
    }

    private var files: JSONObject {
        var object = JSONObject()
        object.set("open", broker.openFiles)
        object.set("limit", broker.openFilesMax)
        return object
    }

    /// Goes on with what every shard has counted; answers itself if that cannot be had.
    func withStatistics(_ call: Call, _ next: @escaping ([ShardStatistics]) -> Void) {
        broker.statistics { shards in
            if shards.isEmpty { call.fail(.unavailable) } else { next(shards) }
        }
    }

    func getListeners(_ call: Call) throws(APIError) {
        var object = JSONObject()
        object.set("data", broker.listeners.lazy.filter { !$0.isClosed }.map { Self.listener($0) })
        call.answer(object)
    }

    private static func listener(_ listener: AdministeredListener) -> JSONObject {
        var object = JSONObject()
        object.set("name", listener.name)
        object.set("protocol", listener.application.rawValue)
        object.set("address", orNull: listener.host)
        object.set("port", orNull: listener.port)
        object.set("path", orNull: listener.path)
        object.set("tls", listener.usesTLS)
        object.set("mtls", listener.requiresCertificate)
        object.set("allow_anonymous", listener.allowsAnonymous)
        object.set("connections", listener.connections)
        object.set("max_connections", orNull: listener.connectionsMax)
        object.set(
            "certificate",
            orNull: listener.certificate.map { certificate in
                var object = JSONObject()
                object.set("name", certificate.name)
                object.set("subject", orNull: certificate.subject)
                object.set("not_after", orNull: certificate.notAfter.map { Timestamp.text($0) })
                return object
            })
        return object
    }

    // MARK: Configuration

    func getConfiguration(_ call: Call) throws(APIError) {
        let report = broker.configuration
        var object = JSONObject()
        object.set("file", orNull: report.file)
        object.set("digest", orNull: report.digest)
        object.set(
            "options",
            report.options.map { option in
                var object = JSONObject()
                object.set("name", option.name)
                object.set("value", orNull: option.value)
                object.set("default", option.isDefault)
                object.set("listener", orNull: option.listener)
                object.set("file", orNull: option.file)
                object.set("line", orNull: option.line)
                object.set("reloads", option.reloads)
                return object
            })
        call.answer(object)
    }

    func checkConfiguration(_ call: Call) throws(APIError) {
        guard let findings = broker.checkConfiguration() else { throw Self.noFile }
        call.answer(Self.result(findings))
    }

    func reloadConfiguration(_ call: Call) throws(APIError) {
        broker.reloadConfiguration { findings in
            guard let findings else { return call.fail(Self.noFile) }
            call.answer(Self.result(findings), status: findings.hasErrors ? .unprocessableContent : .ok)
        }
    }

    private static let noFile = APIError(
        .conflict, "There is no configuration file to reload: the broker was started without one.")

    private static func result(_ findings: ConfigurationFindings) -> JSONObject {
        var object = JSONObject()
        object.set("ok", !findings.hasErrors)
        object.set(
            "diagnostics",
            findings.findings.map { finding in
                var object = JSONObject()
                object.set("severity", finding.isError ? "error" : "warning")
                object.set("file", orNull: finding.file)
                object.set("line", orNull: finding.line)
                object.set("message", finding.message)
                return object
            })
        return object
    }

    // MARK: The log

    func getLog(_ call: Call) throws(APIError) {
        var object = JSONObject()
        let lines = broker.logLines(call.integer("lines") ?? 200)
        var page = PageRows(countMax: lines.count)
        // The newest are those that count.
        page.fill(lines.reversed()) { Self.logLine($0) }
        object.set("data", page.rows.reversed() as [JSONObject])
        call.answer(object)
    }

    static func logLine(_ line: AdministeredLogLine) -> JSONObject {
        var object = JSONObject()
        object.set("at", Timestamp.text(line.at))
        object.set("level", line.topic.names.first ?? "notice")
        object.set("message", line.text)
        if let fields = line.fields {
            let named = [
                ("client", fields.client), ("user", fields.user), ("address", fields.address),
                ("topic", fields.topic),
                ("reason", fields.reason),
            ]
            for (name, value) in named { if let value { object.set(name, value) } }
        }
        return object
    }

    func getLogTypes(_ call: Call) throws(APIError) { answerLogTypes(call) }

    func setLogTypes(_ call: Call) throws(APIError) {
        let body = try call.body("types")
        guard let words = try body.words("types") else { throw .badRequest("types is missing.") }
        var topics: LogTopics = []
        for word in words {
            guard let topic = LogTopics.named.first(where: { $0.name == word })?.topic else {
                throw .badRequest(
                    "types takes: \(LogTopics.named.map(\.name).joined(separator: ", ")).")
            }
            guard !topics.contains(topic) else { throw .badRequest("types holds \(word) twice.") }
            topics.insert(topic)
        }
        call.target = words.joined(separator: " ")
        broker.logTopics = topics
        answerLogTypes(call)
    }

    private func answerLogTypes(_ call: Call) {
        var object = JSONObject()
        object.set("types", broker.logTopics.names)
        call.answer(object)
    }
}

extension LogTopics {
    /// As `log_type` names them.
    static let named: [(name: String, topic: LogTopics)] = [
        ("debug", .debug), ("error", .error), ("warning", .warning), ("notice", .notice),
        ("information", .information),
        ("subscribe", .subscribe), ("unsubscribe", .unsubscribe), ("internal", .internalEvents),
        ("websockets", .webSockets),
    ]

    var names: [String] { Self.named.filter { contains($0.topic) }.map(\.name) }
}

extension ShardStatistics {
    static func sum(of shards: [ShardStatistics]) -> ShardStatistics {
        shards.reduce(into: ShardStatistics()) { $0.add($1) }
    }
}
