internal import HTTP
internal import JSON

/// Bridges to other brokers.
struct BridgeAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    func listBridges(_ call: Call) throws(APIError) {
        let bridges = broker.bridges
        administration.answer(call, page: bridges.map { Self.bridgeResource.json($0) }, cursor: nil, count: bridges.count) {
            object in
            object.set("kept", !broker.bridgesEndWithBroker)
        }
    }

    func getBridge(_ call: Call) throws(APIError) { call.answer(try detail(call)) }

    func addBridge(_ call: Call) throws(APIError) {
        let body = try RequestBody(call.request)
        let name = try body.required("name", 1...255)
        call.target = name
        let warnings = try perform(.add(try Self.settings(of: body, but: "name")), name)
        call.answer(try detail(call, named: name, warnings: warnings), status: .created)
    }

    func changeBridge(_ call: Call) throws(APIError) {
        let settings = try Self.settings(of: try RequestBody(call.request))
        guard !settings.isEmpty else { throw .badRequest("The body has no option.") }
        let warnings = try perform(.change(settings), call.path["name"] ?? "")
        call.answer(try detail(call, warnings: warnings))
    }

    func removeBridge(_ call: Call) throws(APIError) {
        _ = try perform(.remove, call.path["name"] ?? "")
        call.answer(HTTPResponse(.noContent))
    }

    func pauseBridge(_ call: Call) throws(APIError) { try answer(call, .pause) }

    func resumeBridge(_ call: Call) throws(APIError) { try answer(call, .resume) }

    private func answer(_ call: Call, _ command: BridgeCommand) throws(APIError) {
        _ = try self.perform(command, call.path["name"] ?? "")
        call.answer(try detail(call))
    }

    /// Returns warnings.
    private func perform(_ command: BridgeCommand, _ name: String) throws(APIError) -> [String] {
        switch broker.perform(command, bridge: name) {
        case .done(let warnings): return warnings
        case .notFound: throw .notFound("bridge")
        case .conflict(let reason): throw APIError(.conflict, reason)
        case .wrong(let reasons): throw .badRequest(reasons.joined(separator: " "))
        case .notKept(let reason):
            throw APIError(.serviceUnavailable, reason, fields: ["Retry-After": String(Limits.retryAfterSeconds)])
        }
    }

    /// The members of a body as options. A number and a truth value are what one would write in a file; null takes an
    /// option away.
    private static func settings(of body: RequestBody, but other: String? = nil) throws(APIError) -> [BridgeCommand.Setting] {
        var settings: [BridgeCommand.Setting] = []
        for (name, value) in body.all where name != other {
            switch value {
            case .null: settings.append((name, nil))
            case .string(let text): settings.append((name, [text]))
            case .boolean(let isTrue): settings.append((name, [isTrue ? "true" : "false"]))
            case .array(let values) where values.allSatisfy({ $0.string != nil }):
                settings.append((name, values.compactMap(\.string)))
            case .integer, .number, .array, .object:
                guard let number = value.integer else {
                    throw .badRequest(
                        "\(JSONName.shown(name)) must be a string, an integer, true or false, an array of strings, or null.")
                }
                settings.append((name, [String(number)]))
            }
        }
        return settings
    }

    // MARK: Rows

    private func detail(_ call: Call, named name: String? = nil, warnings: [String]? = nil) throws(APIError) -> JSONObject {
        let wanted = name ?? call.path["name"] ?? ""
        guard let bridge = broker.bridges.first(where: { $0.name.utf8.elementsEqual(wanted.utf8) }) else {
            throw .notFound("bridge")
        }
        var object = Self.bridgeResource.json(bridge)
        // As with the configuration.
        if call.who.role == .admin { object.set("options", Self.options(of: bridge)) }
        if let warnings { object.set("warnings", warnings) }
        return object
    }

    private static func options(of bridge: AdministeredBridge) -> JSONObject {
        var object = JSONObject()
        for option in bridge.options {
            if option.isRepeatable {
                object.set(option.name, option.values)
            } else if let value = option.values.last {
                object.set(option.name, value)
            }
        }
        return object
    }

    /// Its members and its metrics; `martlet ctl bridge` has its columns from here too.
    static let bridgeResource = Resource<AdministeredBridge>("Bridge", bridgeFields + bridgeQueue + bridgeTraffic)

    private static let bridgeFields: [Field<AdministeredBridge>] = [
        .text("name", \.name),
        .text(
            "state", as: .choice(AdministeredBridge.State.allCases.map(\.rawValue)),
            help:
                "waiting until it tries again; lazy until there is something for it to carry; ended when it was to connect once, and has; "
                + "failed if it cannot be run as it is configured.", \.state.rawValue),
        .boolean("paused", help: "By an administrator.", \.isPaused),
        .textOrNull("address", help: "That is connected, or tried.", \.address),
        .timeOrNull("connected_at", \.connectedSince),
        .textOrNull("last_error", help: "Why it is not connected, or cannot be run.", \.lastError),
        .textOrNull("file", help: "Where it is defined; null if it was added while the broker ran.") { $0.location?.file },
        .integerOrNull("line") { $0.location?.line },
        .texts("topics", help: "Its `topic` lines.") { bridge in bridge.options.first { $0.name == "topic" }?.values ?? [] },
        .measured { $0.isConnected ? 1 : 0 }.gauge("martlet_bridge_up", "Whether a bridge is connected."),
    ]

    private static let bridgeQueue: [Field<AdministeredBridge>] = [
        .integer(
            "queue_messages", column: "WAITING", help: "That wait here for the other broker, or for its acknowledgement.",
            \.queuedMessages
        ).gauge("martlet_bridge_queued_messages", "Messages queued for the remote broker."),
        .integer("queue_bytes", as: .bytes, \.queuedBytes).gauge("martlet_bridge_queued_bytes", "Their bytes."),
        .integer("queue_on_disk", help: "How many of the messages memory need not hold.", \.storedMessages),
        .integer(
            "lag_ms", as: .milliseconds, column: "LAG", help: "How long the oldest of them has waited.", \.lagMilliseconds
        ).gauge("martlet_bridge_lag_seconds", "How long the oldest of them has waited."),
        .decimal("out_rate", column: "OUT/s", help: "Messages in the last second.", \.rateOut),
        .decimal("in_rate", column: "IN/s", \.rateIn),
    ]

    private static let bridgeTraffic: [Field<AdministeredBridge>] = [
        .integer("out_messages", column: "OUT", \.messagesOut).counter(bridgeMessages.name, bridgeMessages.help, out),
        .integer("in_messages", column: "IN", \.messagesIn).counter(bridgeMessages.name, bridgeMessages.help, into),
        .integer("out_bytes", as: .bytes, \.bytesOut).counter(bridgeBytes.name, bridgeBytes.help, out),
        .integer("in_bytes", as: .bytes, \.bytesIn).counter(bridgeBytes.name, bridgeBytes.help, into),
        .integer("out_dropped", help: "Too large, without a name at the other end, or refused there.", \.droppedOut)
            .counter(bridgeDropped.name, bridgeDropped.help, out),
        .integer("in_dropped", \.droppedIn).counter(bridgeDropped.name, bridgeDropped.help, into),
        .integer("connections", help: "That were made.", \.connections)
            .counter("martlet_bridge_connections_total", "Connections that a bridge has opened."),
        .objects(
            "each_connection", as: bridgeConnectionResource,
            help:
                "Its connections, as many as martlet_bridge_connections says. All other fields are for all of them together: connected "
                + "when all are.", \.eachConnection),
    ]

    private static let out = ("direction", "out")
    private static let into = ("direction", "in")
    private static let bridgeMessages = (name: "martlet_bridge_messages_total", help: "Messages that a bridge has forwarded.")
    private static let bridgeBytes = (name: "martlet_bridge_bytes_total", help: "Bytes that a bridge has forwarded.")
    private static let bridgeDropped = (
        name: "martlet_bridge_dropped_messages_total", help: "Messages that a bridge has dropped."
    )

    static let bridgeConnectionResource = Resource<AdministeredBridge.Connection>(
        "BridgeConnection",
        [
            .integer("number", as: .integer(1...Int.max), \.number),
            .text("clientid", help: "At the other broker.", \.clientIdentifier),
            .text(
                "state", as: .choice(AdministeredBridge.State.allCases.map(\.rawValue).filter { $0 != "failed" }), \.state.rawValue),
            .textOrNull("address", help: "That is connected, or tried.", \.address),
            .textOrNull("last_error", help: "Why it is not connected.", \.lastError),
            .integer("queue_messages", \.queuedMessages),
            .integer("queue_bytes", as: .bytes, \.queuedBytes),
            .integer("lag_ms", as: .milliseconds, \.lagMilliseconds),
            .decimal("out_rate", help: "Messages in the last second.", \.rateOut),
            .decimal("in_rate", \.rateIn),
            .integer("out_messages", \.messagesOut),
            .integer("in_messages", \.messagesIn),
        ])

    /// A bridge by itself: with its options for an administrator, and with warnings after a change.
    static let bridgeDetailMembers: [FieldDescription] =
        bridgeResource.members + [
            FieldDescription(
                "options", .dictionary(.named("BridgeOptionValue")),
                help:
                    "Of its section, by their names: lists for those that may be given more than once. Passwords and keys are masked. For "
                    + "administrators only.", isRequired: false),
            FieldDescription(
                "warnings", .list(.text), help: "What is probably not as it was meant; after a change.", isRequired: false),
        ]
}
