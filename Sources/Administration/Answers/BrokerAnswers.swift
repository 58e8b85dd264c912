internal import BrokerModel
internal import HTTP
internal import JSON

/// The broker itself: how it is, where it listens, how it is configured.
struct BrokerAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    func getBroker(_ call: Call) throws(APIError) {
        administration.withStatistics(call) { [self] shards in
            call.answer(Self.brokerResource.json(BrokerView(administration, shards, now: call.startedAt.wallMilliseconds)))
        }
    }

    func getListeners(_ call: Call) throws(APIError) {
        var object = JSONObject()
        object.set("data", broker.listeners.lazy.filter { !$0.isClosed }.map { Self.listenerResource.json($0) })
        call.answer(object)
    }

    // MARK: Configuration

    func getConfiguration(_ call: Call) throws(APIError) {
        call.answer(Self.configurationResource.json(broker.configuration))
    }

    func checkConfiguration(_ call: Call) throws(APIError) {
        guard let findings = broker.checkConfiguration() else { throw Self.noFile }
        call.answer(Self.findingsResource.json(findings))
    }

    func reloadConfiguration(_ call: Call) throws(APIError) {
        broker.reloadConfiguration { findings in
            guard let findings else { return call.fail(Self.noFile) }
            call.answer(Self.findingsResource.json(findings), status: findings.hasErrors ? .unprocessableContent : .ok)
        }
    }

    private static let noFile = APIError(
        .conflict, "There is no configuration file to reload: the broker was started without one.")

    // MARK: The log

    func getLog(_ call: Call) throws(APIError) {
        var object = JSONObject()
        let lines = broker.logLines(call.integer("lines") ?? 200)
        var page = PageRows(countMax: lines.count)
        // The newest are those that count.
        page.fill(lines.reversed()) { Self.logLineResource.json($0) }
        object.set("data", page.rows.reversed() as [JSONObject])
        call.answer(object)
    }

    func getLogTypes(_ call: Call) throws(APIError) { answerLogTypes(call) }

    func setLogTypes(_ call: Call) throws(APIError) {
        let body = try call.body()
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

// MARK: - What answers say of them

/// The broker at a moment.
struct BrokerView {
    let facts: BrokerFacts
    let condition: BrokerCondition
    let shards: [ShardStatistics]
    let sum: ShardStatistics
    /// Milliseconds since 1970.
    let now: UInt64
    let drain: DrainStatus?
    let (isLive, isReady): (Bool, Bool)
    let alarmsRaised: Int
    let storeFreeBytes: UInt64?
    let openFiles: (open: Int, limit: Int)
    let configuration: ConfigurationReport

    init(_ administration: Administration, _ shards: [ShardStatistics], now: UInt64) {
        let broker = administration.broker
        (facts, condition, self.shards, sum) = (broker.facts, broker.condition, shards, ShardStatistics.sum(of: shards))
        (self.now, drain) = (now, broker.drain)
        isLive = Administration.isAllWell(administration.liveness())
        isReady = Administration.isAllWell(administration.readiness())
        alarmsRaised = administration.alarms.raised.count
        (storeFreeBytes, openFiles) = (broker.storeFreeBytes, (broker.openFiles, broker.openFilesMax))
        configuration = broker.configuration
    }

    /// A loop with its shard.
    struct Loop {
        let number: Int
        let turnAge: UInt64
        let shard: ShardStatistics
    }

    var loops: [Loop] {
        shards.enumerated().map { index, shard in
            Loop(
                number: index, turnAge: condition.loopAges.indices.contains(index) ? condition.loopAges[index] : 0, shard: shard)
        }
    }
}

extension BrokerAnswers {
    static let brokerResource = Resource<BrokerView>("Broker", brokerFields + brokerParts)

    private static let brokerFields: [Field<BrokerView>] = [
        .text("version", \.facts.version),
        .text("node", \.facts.node),
        .time("started_at", \.facts.startedAt),
        .integer("uptime_s", as: .seconds) { ($0.now - min($0.now, $0.facts.startedAt)) / 1000 },
        .objectOrNull("drain", as: Administration.drainResource, help: "Null while the broker is not being drained.", \.drain),
        .objectOrNull(
            "cluster", as: Administration.clusterInShortResource, help: "Null on a broker that is alone.", \.condition.cluster),
        .boolean("live", \.isLive),
        .boolean("ready", \.isReady),
        .integer("alarms", help: "How many are active.", \.alarmsRaised),
    ]

    private static let brokerParts: [Field<BrokerView>] = [
        .objects("loops", as: loopResource, \.loops),
        .object("store", as: storeResource) { $0 },
        .object("memory", as: memoryResource) { $0 },
        .object("files", as: openFilesResource, \.openFiles),
        .object("config", as: configurationInShortResource) { $0 },
    ]

    static let loopResource = Resource<BrokerView.Loop>(
        "Loop",
        [
            .integer("loop", \.number),
            .integer("turn_age_ms", as: .milliseconds, help: "How long ago its last report came.", \.turnAge),
            .integer("connections", \.shard.connections),
            .integer("sessions", \.shard.clientsTotal),
        ])

    private static let storeResource = Resource<BrokerView>(
        nil,
        [
            .text("state", as: .choice(["off", "ok", "full", "failed"])) { $0.condition.store?.rawValue ?? "off" },
            .integerOrNull("bytes", as: .bytes) { SystemFigure.storeBytes.value(of: $0.sum) },
            .integerOrNull("free_bytes", as: .bytes, help: "Free on the file system of the store.", \.storeFreeBytes),
            .integerOrNull("rows") { SystemFigure.storeRows.value(of: $0.sum) },
            .integerOrNull("commits") { SystemFigure.storeCommits.value(of: $0.sum) },
        ])

    private static let memoryResource = Resource<BrokerView>(
        nil,
        [
            .integer("resident_bytes", as: .bytes, \.condition.residentBytes),
            .integer("heap_bytes", as: .bytes) { max(0, $0.sum.heapBytes) },
            .integerOrNull("limit_bytes", as: .bytes, \.condition.heapBytesMax),
        ])

    private static let openFilesResource = Resource<(open: Int, limit: Int)>(
        nil,
        [
            .integer("open", help: "Files and sockets that the process has open.", \.open),
            .integer("limit", \.limit),
        ])

    private static let configurationInShortResource = Resource<BrokerView>(
        nil,
        [
            .textOrNull("file", \.configuration.file),
            .textOrNull("digest", help: "SHA-256 of the files that were read, in hexadecimal.", \.configuration.digest),
            .timeOrNull("reloaded_at", \.condition.reloadedAt),
        ])

    static let listenerResource = Resource<AdministeredListener>(
        "Listener",
        [
            .text("name", column: "LISTENER", \.name),
            .text("protocol", as: .choice(["mqtt", "websockets", "httpapi"]), \.application.rawValue),
            .textOrNull("address", \.host),
            .integerOrNull("port", \.port),
            .textOrNull("path", help: "Of a Unix socket.", \.path),
            .boolean("tls", column: "TLS", \.usesTLS),
            .boolean("mtls", \.requiresCertificate),
            .boolean("allow_anonymous", \.allowsAnonymous),
            .integer("connections", \.connections),
            .integerOrNull("max_connections", \.connectionsMax),
            .objectOrNull("certificate", as: certificateResource, column: "CERTIFICATE UNTIL", \.certificate),
        ])

    static let certificateResource = Resource<AdministeredListener.Certificate>(
        "Certificate",
        [
            .text("name", \.name), .textOrNull("subject", \.subject),
            .timeOrNull("not_after", \.notAfter),
        ])

    static let configurationResource = Resource<ConfigurationReport>(
        "Config",
        [
            .textOrNull("file", \.file), .textOrNull("digest", \.digest),
            .objects("options", as: configurationOptionResource, \.options),
        ])

    static let configurationOptionResource = Resource<ConfigurationReport.Option>(
        "ConfigOption",
        [
            .text("name", \.name),
            .textOrNull("value", help: "As one would write it; `***` for a secret.", \.value),
            .boolean("default", \.isDefault),
            .textOrNull("listener", \.listener),
            .textOrNull("file", \.file),
            .integerOrNull("line", \.line),
            .boolean("reloads", help: "Whether a reload takes a new value.", \.reloads),
        ])

    static let findingsResource = Resource<ConfigurationFindings>(
        "ConfigResult", [.boolean("ok") { !$0.hasErrors }, .objects("diagnostics", as: findingResource, \.findings)])

    static let findingResource = Resource<ConfigurationFindings.Finding>(
        "Diagnostic",
        [
            .text("severity", as: .choice(["error", "warning"])) { $0.isError ? "error" : "warning" },
            .textOrNull("file", \.file),
            .integerOrNull("line", \.line),
            .text("message", \.message),
        ])

    static let logLineResource = Resource<AdministeredLogLine>(
        "LogLine",
        [
            .time("at", \.at),
            .text("level", as: .named("LogType")) { $0.topic.names.first ?? "notice" },
            .text("message", \.text),
            .textIfAny("client") { $0.fields?.client },
            .textIfAny("user") { $0.fields?.user },
            .textIfAny("address") { $0.fields?.address },
            .textIfAny("topic") { $0.fields?.topic },
            .textIfAny("reason") { $0.fields?.reason },
        ])
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
