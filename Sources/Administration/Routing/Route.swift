internal import BrokerModel
public import HTTP
internal import JSON
internal import Platform

/// What a client may ask for: a row of the one table.
struct Route: Sendable {
    /// The right that a caller needs.
    enum Need: String, Sendable {
        case nothing = "none"
        case viewer
        case admin
        case metrics
    }

    /// What a listener may leave out, by `martlet_http_serve`.
    enum Part: Sendable {
        case health
        case metrics
        case api
    }

    enum Segment: Sendable, Equatable {
        case word(String)
        case argument(String)
    }

    typealias Handler = @Sendable (Administration) -> (Call) throws(APIError) -> Void

    /// What OpenAPI and the audit call it.
    let operation: String
    let method: HTTPMethod
    /// With `{name}` for arguments.
    let path: String
    let pattern: [Segment]
    let need: Need
    let part: Part
    let parameters: [RouteParameter]
    /// The schema of its body in the API's description; nil for a route that takes none.
    let body: String?
    let documentation: RouteDocumentation
    let handler: Handler

    var takesBody: Bool { body != nil }

    init(
        _ method: HTTPMethod, _ path: String, _ operation: String, _ need: Need, part: Part = .api, _ tag: RouteDocumentation.Tag,
        _ summary: String, details: String? = nil, parameters: [RouteParameter] = [], headers: [RouteDocumentation.Header] = [],
        body: String? = nil, answers: [RouteDocumentation.Answer], refusals: [HTTPStatus] = [], _ handler: @escaping Handler
    ) {
        (self.method, self.path, self.operation, self.need, self.part) = (method, path, operation, need, part)
        (self.parameters, self.body, self.handler) = (parameters, body, handler)
        documentation = RouteDocumentation(
            tag: tag, summary: summary, details: details, headers: headers, answers: answers, refusals: refusals)
        pattern = path.split(separator: "/").map { word in
            word.first == "{" ? .argument(String(word.dropFirst().dropLast())) : .word(String(word))
        }
    }

    /// The arguments in a path; nil if it is another one. None of them is empty.
    func arguments(in segments: [String]) -> [String: String]? {
        guard segments.count == pattern.count else { return nil }
        var arguments: [String: String] = [:]
        for (segment, expected) in zip(segments, pattern) {
            switch expected {
            case .word(let word): guard word == segment else { return nil }
            case .argument(let name):
                guard !segment.isEmpty else { return nil }
                arguments[name] = segment
            }
        }
        return arguments
    }

    /// What a request is for.
    enum Match {
        case route(Route, [String: String])
        /// There is such a path, with these methods.
        case otherMethods([HTTPMethod])
        case none
    }

    /// Finds the row for a request; HEAD is GET without its body. O(rows).
    static func find(_ method: HTTPMethod, _ segments: [String]) -> Match {
        let wanted = method == .head ? HTTPMethod.get : method
        var methods: [HTTPMethod] = []
        for route in table {
            guard let arguments = route.arguments(in: segments) else { continue }
            if route.method == wanted { return .route(route, arguments) }
            methods.append(route.method)
            if route.method == .get { methods.append(.head) }
        }
        return methods.isEmpty ? .none : .otherMethods(methods)
    }
}

/// All that may be asked for. The API's description, openapi.json, is made of it (`make openapi`).
extension Route {
    private static let api = "/api/martlet/v1"

    static let table: [Route] =
        health + broker + alarms + bridges + clients + topics + topicMetrics + configuration + streams + traces + files + access

    private static let health: [Route] = [
        Route(
            .get, "/livez", "getLive", .nothing, part: .health, .health, "Whether every loop turns",
            parameters: [
                .text("verbose").orEmpty.described("With it, a line for each check.")
            ],
            answers: [.ok("Yes.", as: ["text/plain"]), .notWell("No.")],
            Administration.getLive),
        Route(
            .get, "/readyz", "getReady", .nothing, part: .health, .health, "Whether clients are served",
            parameters: [
                .text("verbose").orEmpty.described("With it, a line for each check.")
            ],
            answers: [.ok("Yes.", as: ["text/plain"]), .notWell("No.")],
            Administration.getReady),
        Route(
            .get, "/healthz", "getHealth", .nothing, part: .health, .health, "The same as /readyz",
            parameters: [
                .text("verbose").orEmpty.described("With it, a line for each check.")
            ],
            answers: [.ok("Yes.", as: ["text/plain"]), .notWell("No.")],
            Administration.getReady),
    ]

    private static let broker: [Route] = [
        Route(
            .get, api + "/openapi.json", "getOpenAPI", .nothing, .itself, "This description",
            answers: [.ok("OpenAPI 3.1.", Schema([("type", .string("object"))]))],
            Administration.getOpenAPI),
        Route(
            .get, "/metrics", "getMetrics", .metrics, part: .metrics, .metrics, "All that is measured",
            parameters: [
                RouteParameter("names", .choice(["martlet", "mosquitto"])).described(
                    "`mosquitto`: the names of mosquitto-exporter.")
            ],
            answers: [
                .ok(

                    "Prometheus' text format 0.0.4, or OpenMetrics 1.0 for those who accept it.",
                    as: ["text/plain", "application/openmetrics-text"])
            ],
            refusals: [.serviceUnavailable],
            Administration.getMetrics),
        Route(
            .get, api + "/stats", "getStatistics", .viewer, .broker, "What was counted",
            answers: [.ok("Totals and newest values.", .named("Statistics"))],
            refusals: [.serviceUnavailable],
            Administration.getStatistics),
        Route(
            .get, api + "/stats/history", "getHistory", .viewer, .broker, "What was counted, over time",
            parameters: [
                RouteParameter("series", .choices(Series.names)).described("Only these; all without it.").shown(
                    as: .list(.named("Series")).with("minItems", .integer(1))),
                RouteParameter("step", .number([1, 60])).defaulting(to: .integer(1)).described(
                    "Seconds from one value to the next."),
            ],
            answers: [.ok("15 minutes by the second or 24 hours by the minute.", .named("History"))],
            Administration.getHistory),
        Route(
            .get, api + "/broker", "getBroker", .viewer, .broker, "The broker itself",
            answers: [.ok("What it is and how it is.", .named("Broker"))],
            refusals: [.serviceUnavailable],
            { BrokerAnswers($0).getBroker }),
        Route(
            .post, api + "/drain", "drain", .admin, .broker,

            "Refuse new connections and disconnect clients; while that runs, change how",
            body: "DrainRequest",
            answers: [.ok("It has begun; the broker tells how far it is.", .named("Drain"))],
            refusals: [.conflict],
            Administration.drain),
        Route(
            .delete, api + "/drain", "endDrain", .admin, .broker, "Accept connections again",
            answers: [.done],
            refusals: [.notFound, .conflict],
            Administration.endDrain),
        Route(
            .get, api + "/listeners", "getListeners", .viewer, .broker, "Where clients connect",
            answers: [.ok("All listeners.", .named("Listeners"))],
            refusals: [.serviceUnavailable],
            { BrokerAnswers($0).getListeners }),
        Route(
            .get, api + "/cluster", "getCluster", .viewer, .broker, "The nodes of the cluster, as this one sees them",
            answers: [.ok("Every node that is there, and those that went in the last minute.", .named("Cluster"))],
            refusals: [.notFound],
            Administration.getCluster),
    ]

    private static let bridges: [Route] = [
        Route(
            .get, api + "/bridges", "listBridges", .viewer, .bridges, "Bridges to other brokers",
            answers: [.ok("All, by name, as they were a second ago.", .named("Bridges"))],
            { BridgeAnswers($0).listBridges }),
        Route(
            .post, api + "/bridges", "addBridge", .admin, .bridges, "Add a bridge and run it; it is kept over a restart",
            body: "NewBridge",
            answers: [.created("It runs.", .named("BridgeDetail"))],
            refusals: [.conflict, .serviceUnavailable],
            { BridgeAnswers($0).addBridge }),
        Route(
            .get, api + "/bridges/{name}", "getBridge", .viewer, .bridges, "A bridge",
            answers: [.ok("With its options, for an administrator.", .named("BridgeDetail"))],
            refusals: [.notFound],
            { BridgeAnswers($0).getBridge }),
        Route(
            .patch, api + "/bridges/{name}", "changeBridge", .admin, .bridges, "Change options of a bridge that was added, at once",
            body: "BridgeOptions",
            answers: [.ok("It goes on with them.", .named("BridgeDetail"))],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { BridgeAnswers($0).changeBridge }),
        Route(
            .delete, api + "/bridges/{name}", "removeBridge", .admin, .bridges,
            "End a bridge that was added, and what waits for it",
            answers: [.done],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { BridgeAnswers($0).removeBridge }),
        Route(
            .post, api + "/bridges/{name}/pause", "pauseBridge", .admin, .bridges,
            "End a bridge's connection; what comes for it waits",
            answers: [.ok("It is paused, also after a restart.", .named("BridgeDetail"))],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { BridgeAnswers($0).pauseBridge }),
        Route(
            .post, api + "/bridges/{name}/resume", "resumeBridge", .admin, .bridges, "Let a paused bridge connect again",
            answers: [.ok("It works.", .named("BridgeDetail"))],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { BridgeAnswers($0).resumeBridge }),
    ]

    private static let sorts = ClientOrder.allCases.map(\.fieldName) + ClientOrder.allCases.map { "-" + $0.fieldName }

    private static let clients: [Route] = [
        Route(
            .get, api + "/clients", "listClients", .viewer, .clients, "Sessions, connected or not",
            parameters: [
                .text("q").described("A part of the Client Identifier or user name, case does not matter."),
                .text("prefix").described("The beginning of the Client Identifier."),
                .text("username"),
                .address,
                .text("listener"),
                RouteParameter("state", .choice(["connected", "absent"])),
                RouteParameter("proto_ver", .number([3, 4, 5])),
                .count("min_dropped"),
                .count("min_queue"),
                .count("min_lag_ms"),
                RouteParameter("sort", .choice(sorts)).defaulting(to: .string("clientid")).described(
                    "With `-` in front the largest first."),
                RouteParameter("fields", .choices(ClientAnswers.clientResource.names)).described(
                    "Only these members of each row, and `clientid`."),
                .limit,
                .cursor,
                .cluster,
            ],
            answers: [.ok("A page.", .named("Clients"))],
            refusals: [.serviceUnavailable],
            { ClientAnswers($0).listClients }),
        Route(
            .get, api + "/clients/{clientid}", "getClient", .viewer, .clients, "One client",
            parameters: [
                .cluster
            ],
            answers: [
                .ok(
                    """
                    All that is known of it; of several nodes that know it, from the one where it is connected, or \
                    was last.
                    """, .named("ClientDetail"))
            ],
            refusals: [.notFound, .serviceUnavailable],
            { ClientAnswers($0).getClient }),
        Route(
            .delete, api + "/clients/{clientid}", "endSession", .admin, .clients, "End a client's connection and session",
            parameters: [
                .cluster
            ],
            answers: [.done],
            refusals: [.notFound, .serviceUnavailable],
            { ClientAnswers($0).endSession }),
        Route(
            .get, api + "/clients/{clientid}/subscriptions", "listClientSubscriptions", .viewer, .clients,
            "What a client has subscribed to",
            parameters: [
                .limit,
                .cursor,
            ],
            answers: [.ok("A page.", .named("Subscriptions"))],
            refusals: [.notFound, .serviceUnavailable],
            { ClientAnswers($0).listClientSubscriptions }),
        Route(
            .get, api + "/clients/{clientid}/queue", "getQueue", .viewer, .clients,
            "The messages that wait for a client, oldest first",
            parameters: [
                RouteParameter("payload", .choice(["0", "1"])).defaulting(to: .string("0")).described(
                    "`1`: with payloads, for those who may see them."),
                .limit,
                .cursor,
            ],
            answers: [.ok("A page.", .named("Queue"))],
            refusals: [.notFound, .serviceUnavailable],
            { ClientAnswers($0).listQueue }),
        Route(
            .delete, api + "/clients/{clientid}/queue", "purgeQueue", .admin, .clients, "Drop the messages that wait for a client",
            details: """
                Those that wait now and were never sent. The answer comes when they would not be back after a \
                crash. 503 as well where that is not so, where messages cannot be read from the store, or where \
                the session is on its way to another node: the message says how many are removed.
                """,
            parameters: [
                .filter("filter").described(
                    """
                    Only those whose topic matches. Of a long queue, what only the store has is read for it: that takes seconds \
                    for each million of messages.
                    """)
            ],
            answers: [.ok("Done.", .named("Removed"))],
            refusals: [.notFound, .serviceUnavailable],
            { ClientAnswers($0).purgeQueue }),
        Route(
            .get, api + "/clients/{clientid}/inflight", "getInflight", .viewer, .clients,
            "The messages that are not acknowledged to the end",
            parameters: [
                .limit,
                .cursor,
            ],
            answers: [.ok("A page.", .named("Inflight"))],
            refusals: [.notFound, .serviceUnavailable],
            { ClientAnswers($0).listInFlight }),
        Route(
            .delete, api + "/clients/{clientid}/connection", "disconnectClient", .admin, .clients, "End a client's connection",
            parameters: [
                RouteParameter("will", .boolean).defaulting(to: .boolean(true)).described("Whether its will is published."),
                .cluster,
            ],
            answers: [.done],
            refusals: [.notFound, .serviceUnavailable],
            { ClientAnswers($0).disconnectClient }),
        Route(
            .get, api + "/connections/closed", "listClosedConnections", .viewer, .clients,

            "Connections that have ended or were refused, newest first",
            parameters: [
                .text("clientid"),
                .address,
                RouteParameter("refused", .boolean),
                .limit,
                .cursor,
            ],
            answers: [.ok("A page.", .named("ClosedConnections"))],
            refusals: [.serviceUnavailable],
            { TopicAnswers($0).listClosedConnections }),
        Route(
            .get, api + "/drops", "listDrops", .viewer, .clients, "The last messages that were dropped, newest first",
            parameters: [
                .limit
            ],
            answers: [.ok("A page.", .named("Drops"))],
            refusals: [.serviceUnavailable],
            { TopicAnswers($0).listDrops }),
    ]

    private static let topics: [Route] = [
        Route(
            .get, api + "/subscriptions", "listSubscriptions", .viewer, .topics, "Who has subscribed to what",
            parameters: [
                .filter("filter").described("Only this filter, letter by letter."),
                .topic("matches").described("Only those that a message to this topic reaches."),
                .text("share").described("Only this share group's."),
                .text("clientid"),
                .limit,
                .cursor,
            ],
            answers: [.ok("A page.", .named("Subscriptions"))],
            refusals: [.serviceUnavailable],
            { TopicAnswers($0).listSubscriptions }),
        Route(
            .get, api + "/topics/tree", "getTopicTree", .viewer, .topics, "The next levels below a topic",
            parameters: [
                .text("under").described("A topic, without it the first level."),
                .limit,
                .cursor,
            ],
            answers: [.ok("A page.", .named("TopicTree"))],
            refusals: [.serviceUnavailable],
            { TopicAnswers($0).getTopicTree }),
        Route(
            .get, api + "/retained", "listRetained", .viewer, .topics, "Retained messages",
            parameters: [
                .filter("filter").described("Only topics that match; `#` without it."),
                .limit,
                .cursor,
            ],
            answers: [.ok("A page.", .named("RetainedMessages"))],
            refusals: [.serviceUnavailable],
            { TopicAnswers($0).listRetained }),
        Route(
            .delete, api + "/retained", "deleteRetained", .admin, .topics, "Delete retained messages",
            parameters: [
                .filter("filter", isRequired: true).described("A topic filter."),
                RouteParameter("dry_run", .boolean).defaulting(to: .boolean(false)).described("Only count them."),
            ],
            answers: [.ok("Done.", .named("Removed"))],
            refusals: [.serviceUnavailable],
            { TopicAnswers($0).deleteRetained }),
        Route(
            .get, api + "/retained/message", "getRetainedMessage", .viewer, .topics, "One retained message",
            parameters: [
                .topic("topic", isRequired: true).described("A topic name.")
            ],
            answers: [.ok("The message.", .named("RetainedContent"))],
            refusals: [.notFound, .serviceUnavailable],
            { TopicAnswers($0).getRetainedMessage }),
        Route(
            .post, api + "/publish", "publish", .admin, .topics, "Publish a message",
            body: "Publication",
            answers: [
                .ok("It was passed on.", .named("Published")),
                .accepted("It has no subscribers: reason code 16.", .named("Published")),
            ],
            refusals: [.serviceUnavailable],
            { TopicAnswers($0).publish }),
    ]

    private static let topicMetrics: [Route] = [
        Route(
            .get, api + "/topic-metrics", "listTopicMetrics", .viewer, .topics, "What was counted for chosen topics",
            answers: [
                .ok(

                    "All of them, sums of all shards. They are counted until they are removed or the broker ends.",
                    .named("TopicMetrics"))
            ],
            refusals: [.serviceUnavailable],
            Administration.listTopicMetrics),
        Route(
            .post, api + "/topic-metrics", "addTopicMetric", .admin, .topics, "Count the messages of a topic filter",
            body: "NewTopicMetric",
            answers: [.created("Counting.", .named("TopicMetric"))],
            refusals: [.conflict, .serviceUnavailable],
            Administration.addTopicMetric),
        Route(
            .delete, api + "/topic-metrics", "removeTopicMetric", .admin, .topics, "Stop counting a topic filter",
            parameters: [
                .filter("filter", isRequired: true).described("A topic filter.")
            ],
            answers: [.done],
            refusals: [.notFound, .serviceUnavailable],
            Administration.removeTopicMetric),
    ]

    private static let configuration: [Route] = [
        Route(
            .get, api + "/config", "getConfig", .admin, .configuration, "The configuration in force",
            answers: [.ok("All options.", .named("Config"))],
            { BrokerAnswers($0).getConfiguration }),
        Route(
            .post, api + "/config/check", "checkConfig", .admin, .configuration,
            "Check the configuration's files without using them",
            answers: [.ok("What is wrong.", .named("ConfigResult"))],
            refusals: [.conflict],
            { BrokerAnswers($0).checkConfiguration }),
        Route(
            .post, api + "/config/reload", "reloadConfig", .admin, .configuration, "Read the configuration's files again",
            answers: [
                .ok("It is in force.", .named("ConfigResult")),
                .unprocessable("It has errors; the broker goes on as before.", .named("ConfigResult")),
            ],
            refusals: [.conflict, .serviceUnavailable],
            { BrokerAnswers($0).reloadConfiguration }),
        Route(
            .get, api + "/log", "getLog", .admin, .log, "The last lines of the log",
            parameters: [
                RouteParameter("lines", .integer(1...4096)).defaulting(to: .integer(200))
            ],
            answers: [.ok("Oldest first; the newest ones alone where all have more than 1 MiB.", .named("LogLines"))],
            { BrokerAnswers($0).getLog }),
        Route(
            .get, api + "/log/types", "getLogTypes", .viewer, .log, "What is logged",
            answers: [.ok("Until the next reload.", .named("LogTypes"))],
            { BrokerAnswers($0).getLogTypes }),
        Route(
            .put, api + "/log/types", "setLogTypes", .admin, .log, "Choose what is logged",
            body: "LogTypes",
            answers: [.ok("Until the next reload.", .named("LogTypes"))],
            { BrokerAnswers($0).setLogTypes }),
    ]

    private static let alarms: [Route] = [
        Route(
            .get, api + "/alarms", "listAlarms", .viewer, .broker,

            "What is wrong with the broker, and has been since its start",
            parameters: [
                RouteParameter("state", .choice(["active", "cleared", "all"])).described(
                    """
                    Those that are raised (where nothing is said), the last 1,000 that were cleared, or both.
                    """),
                .limit,
            ],
            answers: [.ok("Those that are raised first; the newest first.", .named("Alarms"))],
            Administration.listAlarms),
        Route(
            .post, api + "/alarms/{number}/acknowledge", "acknowledgeAlarm", .admin, .broker,

            "Say that somebody knows of an alarm; whoever was first stays",
            answers: [.ok("The alarm.", .named("Alarm"))],
            refusals: [.notFound],
            Administration.acknowledgeAlarm),
    ]

    private static let bans: [Route] = [
        Route(
            .get, api + "/bans", "listBans", .viewer, .access, "Who is banned",
            parameters: [
                RouteParameter("as", .choice(BanKind.allCases.map(\.rawValue))).shown(as: .named("BanKind")).described(
                    "Only these."),
                .limit,
                .cursor,
            ],
            answers: [.ok("By kind, then by name.", .named("Bans"))],
            { BanAnswers($0).listBans }),
        Route(
            .post, api + "/bans", "ban", .admin, .access, "Ban a client, user, address or network; replaces an earlier ban",
            body: "NewBan",
            answers: [
                .ok("Banned, in the place of the ban that there was.", .named("Ban")),
                .created(

                    "Banned: connected clients are disconnected, new ones are refused.", .named("Ban")),
            ],
            refusals: [.conflict, .serviceUnavailable],
            { BanAnswers($0).ban }),
        Route(
            .delete, api + "/bans/{as}/{who}", "liftBan", .admin, .access,

            "Lift a ban; of a client those of single users and addresses too",
            answers: [.done],
            refusals: [.notFound, .serviceUnavailable],
            { BanAnswers($0).liftBan }),
    ]

    private static let streams: [Route] = [
        Route(
            .get, api + "/events", "streamEvents", .viewer, .events, "What happens, as it happens",
            parameters: [
                RouteParameter("types", .choices(EventKind.allCases.map(\.rawValue))).described(
                    "Only these; all but stats without it."),
                RouteParameter("interval", .integer(1...60)).defaulting(to: .integer(1)).described(
                    "Seconds from one `stats` event to the next."),
            ],
            headers: [
                .init(
                    "Last-Event-ID", .text, isRequired: false,
                    """
                    The number of the last event that was seen; what came after it comes first.
                    """)
            ],
            answers: [
                .ok(
                    """
                    Server-sent events, each with `id`, `event` and a JSON object as `data`, of clients a ConnectedEvent, \
                    DisconnectedEvent, RefusedEvent, SubscribedEvent, DroppedEvent or SlowClientEvent; comments every \
                    15 s; `lost` with a count where the reader was too slow. It ends when the reader's token, session or \
                    role does.
                    """, as: ["text/event-stream"])
            ],
            refusals: [.tooManyRequests],
            Administration.streamEvents),
        Route(
            .get, api + "/log/stream", "streamLog", .admin, .log, "The log as it is written",
            answers: [
                .ok(
                    """
                    Server-sent events named `log`, each a LogLine; comments every 15 s; `lost` with a count where \
                    the reader was too slow. It ends when the reader's token, session or role does.
                    """, as: ["text/event-stream"])
            ],
            refusals: [.tooManyRequests],
            Administration.streamLog),
        Route(
            .get, api + "/mqtt", "openWebSocket", .admin, .access,
            """
            MQTT over WebSocket, for the dashboard: by a client that begins with dashboard-, whom no rule \
            binds
            """,
            headers: [
                .init("Connection", .choice(["Upgrade"])),
                .init("Upgrade", .choice(["websocket"])),
                .init("Sec-WebSocket-Version", .choice(["13"])),
                .init("Sec-WebSocket-Key", .text(pattern: "^[A-Za-z0-9+/]{22}==$"), "16 bytes at random in base64."),
                .init("Sec-WebSocket-Protocol", .choice(["mqtt", "mqttv3.1"])),
            ],
            answers: [.switching("A WebSocket with the subprotocol that was asked for.")],
            refusals: [.upgradeRequired, .tooManyRequests, .serviceUnavailable],
            { FileAnswers($0).openWebSocket }),
    ]

    private static let files: [Route] = [
        Route(
            .get, api + "/files/users", "listFileUsers", .admin, .access, "Users of the files that password_file names",
            answers: [.ok("In the order of the files. A password is never told, and no hash.", .named("FileUsers"))],
            { FileAnswers($0).listFileUsers }),
        Route(
            .post, api + "/files/users", "addFileUser", .admin, .access,

            "Add a user to a password_file; who is added can log in at once",
            body: "NewFileUser",
            answers: [.created("The user is in the file.", .named("FileUserChanged"))],
            refusals: [.conflict, .serviceUnavailable],
            { FileAnswers($0).addFileUser }),
        Route(
            .put, api + "/files/users/{username}", "setFileUserPassword", .admin, .access,
            "Give a user of a password_file another password",
            body: "FileUserPassword",
            answers: [
                .ok(

                    "The password is in the file, and in force; who is connected with the old one is disconnected.",
                    .named("FileUserChanged"))
            ],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { FileAnswers($0).setFileUserPassword }),
        Route(
            .delete, api + "/files/users/{username}", "removeFileUser", .admin, .access,

            "Remove a user from a password_file; who is connected under the name is disconnected",
            parameters: [
                .text("file").described("Which file, where there are several.")
            ],
            answers: [.done("The user is removed.")],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { FileAnswers($0).removeFileUser }),
        Route(
            .get, api + "/files/rules", "listFileRules", .admin, .access, "Rules of the files that acl_file names",
            answers: [.ok("In the order of the files.", .named("FileRules"))],
            { FileAnswers($0).listFileRules }),
        Route(
            .post, api + "/files/rules", "addFileRule", .admin, .access,

            "Add a rule to an acl_file, behind those of the same user",
            body: "NewFileRule",
            answers: [.created("The rule is in the file, and in force.", .named("FileRuleChanged"))],
            refusals: [.conflict, .serviceUnavailable],
            { FileAnswers($0).addFileRule }),
        Route(
            .put, api + "/files/rules/{line}", "changeFileRule", .admin, .access,

            "Change a rule of an acl_file; it stays the same user's",
            body: "FileRuleChange",
            answers: [.ok("The rule is changed, and in force.", .named("FileRuleChanged"))],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { FileAnswers($0).changeFileRule }),
        Route(
            .delete, api + "/files/rules/{line}", "removeFileRule", .admin, .access, "Remove a rule from an acl_file",
            parameters: [
                .text("text", 1...Limits.textParameterBytesMax, isRequired: true).described(
                    "The line as it stands: another one is not removed."),
                .text("file").described("Which file, where there are several."),
            ],
            answers: [.done("The rule is removed.")],
            refusals: [.notFound, .conflict, .serviceUnavailable],
            { FileAnswers($0).removeFileRule }),
        Route(
            .get, api + "/may", "getMay", .admin, .access,

            "Whether a client may publish, subscribe or receive, and what decides it",
            parameters: [
                RouteParameter("action", .choice(AccessAction.allCases.map(\.rawValue)), isRequired: true),
                .filter("topic", isRequired: true).described("Of a subscription a filter."),
                .text("username").described("Without one, a client without a user name."),
                .text("clientid").described("The Client Identifier."),
                .text("address").described("Where the client comes from, for bans and for rules that ask for it."),
                .text("attributes").described(
                    "What a login says of the client, for %{client_attrs.NAME} in rules: NAME=VALUE, several with commas between."),
                RouteParameter("qos", .number([0, 1, 2])).described(
                    "Of the message that is published, or asked for by the subscription; else any."),
                RouteParameter("retain", .boolean).described("Whether the message that is published is retained; else either."),
                .text("groups").described("Of dynamic security, beside those of the user; several with commas between."),
                .text("roles").described("Likewise."),
                .text("certificate", 0...Limits.certificateParameterBytesMax).described(
                    "The client's certificate, whoever has signed it: a PEM file, or the Base64 that stands in it."),
                .text("listener").described("The name of a listener, as listener 1883; else the first for MQTT."),
            ],
            answers: [.ok("By the files, dynamic security and bans that are in force.", .named("May"))],
            { FileAnswers($0).getMay }),
        Route(
            .post, api + "/logins/explain", "explainLogin", .admin, .access,

            "What the sources of logins think of a login, one after the other; nobody is let in",
            body: "LoginTrial",
            answers: [.ok("By the sources that are in force; no answer holds the password.", .named("LoginExplanation"))],
            refusals: [.notFound, .serviceUnavailable],
            { LoginAnswers($0).explainLogin }),
    ]

    private static let traces: [Route] = [
        Route(
            .get, api + "/traces", "listTraces", .admin, .traces, "Traces of packets",
            answers: [.ok("Those that run, and those that have ended and are kept.", .named("Traces"))],
            { TraceAnswers($0).listTraces }),
        Route(
            .post, api + "/traces", "addTrace", .admin, .traces, "Trace the packets of a client, topic or address",
            body: "NewTrace",
            answers: [.created("Tracing.", .named("Trace"))],
            refusals: [.conflict, .serviceUnavailable],
            { TraceAnswers($0).addTrace }),
        Route(
            .get, api + "/traces/{id}", "getTrace", .admin, .traces, "One trace",
            answers: [.ok("The trace.", .named("Trace"))],
            refusals: [.notFound],
            { TraceAnswers($0).getTrace }),
        Route(
            .delete, api + "/traces/{id}", "removeTrace", .admin, .traces, "End a trace and forget it",
            answers: [.done],
            refusals: [.notFound],
            { TraceAnswers($0).removeTrace }),
        Route(
            .get, api + "/traces/{id}/stream", "streamTrace", .admin, .traces, "A trace from its beginning, followed live",
            answers: [
                .ok(
                    """
                    Server-sent events named `line`, each a TraceLine with the offset behind it as its id, which \
                    `Last-Event-ID` gives back; `end` comes last. Without it the stream ends when the reader's \
                    token, session or role does.
                    """, as: ["text/event-stream"])
            ],
            refusals: [.notFound, .tooManyRequests],
            { TraceAnswers($0).streamTrace }),
        Route(
            .get, api + "/traces/{id}/download", "downloadTrace", .admin, .traces, "What a trace has recorded",
            answers: [.ok("One TraceLine a line.", as: ["application/x-ndjson"])],
            refusals: [.notFound, .tooManyRequests],
            { TraceAnswers($0).downloadTrace }),
    ]

    private static let access: [Route] =
        bans + [
            Route(
                .get, api + "/audit", "getAudit", .admin, .access, "Changes and refusals, newest first",
                details: """
                    The last 1,024 of each, or 512 KiB of them. Changes are what administrators have done; what \
                    others were refused is kept apart, and some of it is only counted: `operation` is `refusals` \
                    then, and `count` how many.
                    """,
                parameters: [
                    RouteParameter("kind", .choice(Audit.Kind.allCases.map(\.rawValue))).described(
                        """
                        Only these; without it both, with room for changes in at least half of the rows.
                        """),
                    RouteParameter("limit", .integer(1...Limits.auditEntriesMax)).defaulting(to: .integer(100)),
                ],
                answers: [.ok("The last ones.", .named("Audit"))],
                { AccessAnswers($0).getAudit }),
            Route(
                .post, api + "/security/commands", "performSecurityCommands", .admin, .access,

                "Change or show clients, groups and roles of dynamic security",
                details: """
                    The body is what would be published to $CONTROL/dynamic-security/v1, and the answer what would \
                    come back. A command that is refused says so in its own answer.
                    """,
                body: "SecurityCommands",
                answers: [.ok("What has become of each command.", .named("SecurityResponses"))],
                refusals: [.conflict, .serviceUnavailable],
                { AccessAnswers($0).performSecurityCommands }),
            Route(
                .get, api + "/session", "getSession", .nothing, .access, "Who am I",
                answers: [.ok("The user of the request, and their role.", .named("Session"))],
                { AccessAnswers($0).getSession }),
            Route(
                .post, api + "/session", "logIn", .nothing, .access, "Log in from a page",
                details: """
                    A token with the role `metrics` gets no session. Of 16 sessions of one user or token the one \
                    that was used longest ago ends for the next one.
                    """,
                body: "Credentials",
                answers: [.ok("Logged in: the answer sets a cookie.", .named("Session"), setsCookie: true)],
                refusals: [.unauthorized, .tooManyRequests, .serviceUnavailable],
                { AccessAnswers($0).logIn }),
            Route(
                .delete, api + "/session", "logOut", .nothing, .access, "Log out",
                answers: [.done],
                { AccessAnswers($0).logOut }),
            Route(
                .post, api + "/login-links", "makeLoginLink", .admin, .access,

                "Make a link that lets one browser into the dashboard as administrator, once",
                answers: [.created("The link, which is valid for ten minutes.", .named("LoginLink"))],
                refusals: [.conflict],
                { AccessAnswers($0).makeLoginLink }),
            Route(
                .get, api + "/tokens", "listTokens", .admin, .access, "Tokens of programs",
                answers: [.ok("Without their secrets.", .named("Tokens"))],
                { AccessAnswers($0).listTokens }),
            Route(
                .post, api + "/tokens", "makeToken", .admin, .access, "Make a token",
                body: "NewToken",
                answers: [.created("With its secret, which is shown this once.", .named("TokenMade"))],
                refusals: [.conflict, .serviceUnavailable],
                { AccessAnswers($0).makeToken }),
            Route(
                .delete, api + "/tokens/{name}", "revokeToken", .admin, .access, "Revoke a token",
                answers: [.done],
                refusals: [.notFound, .conflict, .serviceUnavailable],
                { AccessAnswers($0).revokeToken }),
        ]
}

/// The part of the broker that answers a request, by its path. Of administration's paths the table of routes says more.
public enum RequestDestination: Sendable, Equatable {
    /// The routes of mosquitto's `http_api`.
    public enum MosquittoRoute: String, Sendable, CaseIterable {
        case version
        case listeners
        case systemTree = "systree"
    }

    case administration
    case mosquitto(MosquittoRoute)
    /// The dashboard's files.
    case dashboard
    /// The host's name alone, by what takes pages, as browsers do and mosquitto's clients do not.
    case frontDoor
    /// A file of the listener's directory.
    case file
    /// Below `/api`, where nothing is.
    case nothing

    public init(_ request: HTTPRequest) {
        let segments = request.segments
        switch segments.first {
        case "livez", "readyz", "healthz", "metrics": self = .administration
        case "api" where segments.dropFirst().first == "martlet": self = .administration
        case "api":
            let route = segments.count == 3 && segments[1] == "v1" ? MosquittoRoute(rawValue: segments[2]) : nil
            self = route.map { .mosquitto($0) } ?? .nothing
        case "dashboard": self = .dashboard
        default: self = request.path == "/" && request.fields["Accept"]?.holds("text/html") ?? false ? .frontDoor : .file
        }
    }
}

/// A parameter of a route's query, and what it may be.
struct RouteParameter: Sendable {
    enum Kind: Sendable, Equatable {
        /// So many bytes.
        case text(ClosedRange<Int>)
        case integer(ClosedRange<Int>)
        /// One of these numbers.
        case number([Int])
        case boolean
        case choice([String])
        /// Some of these, with commas between.
        case choices([String])
    }

    let name: String
    let kind: Kind
    var isRequired = false
    /// For the API's description: what it is, what holds without it, a schema that says more than its kind, and whether
    /// it says something without a value.
    private(set) var help: String?
    private(set) var standard: JSONValue?
    private(set) var schema: Schema?
    private(set) var isSaidByItself = false

    init(_ name: String, _ kind: Kind, isRequired: Bool = false) {
        (self.name, self.kind, self.isRequired) = (name, kind, isRequired)
    }

    private func with<Value>(_ path: WritableKeyPath<RouteParameter, Value>, _ value: Value) -> RouteParameter {
        var parameter = self
        parameter[keyPath: path] = value
        return parameter
    }

    func described(_ words: String) -> RouteParameter { with(\.help, words) }
    func defaulting(to value: JSONValue) -> RouteParameter { with(\.standard, value) }
    func shown(as schema: Schema) -> RouteParameter { with(\.schema, schema) }
    var orEmpty: RouteParameter { with(\.isSaidByItself, true) }

    static func text(_ name: String, _ bytes: ClosedRange<Int> = 0...Limits.textParameterBytesMax, isRequired: Bool = false)
        -> RouteParameter
    {
        RouteParameter(name, .text(bytes), isRequired: isRequired)
    }

    /// 0 or more.
    static func count(_ name: String) -> RouteParameter {
        RouteParameter(name, .integer(0...Int.max))
    }

    static func topic(_ name: String, isRequired: Bool = false) -> RouteParameter {
        .text(name, 1...Limits.textParameterBytesMax, isRequired: isRequired).shown(as: .named("TopicOfQuery"))
    }

    static func filter(_ name: String, isRequired: Bool = false) -> RouteParameter {
        .text(name, 1...Limits.textParameterBytesMax, isRequired: isRequired).shown(as: .named("FilterOfQuery"))
    }

    static let address = RouteParameter.text("address", 1...Limits.textParameterBytesMax).shown(as: .named("AddressOrNetwork"))
        .described("An IP address or network, such as 10.0.0.0/8.")
    static let limit = RouteParameter("limit", .integer(1...Limits.pageRowsMax)).defaulting(to: .integer(50)).described(
        """
        The rows of a page. Where their bytes are enough, 1 MiB, a page ends with fewer: `meta.cursor` says \
        whether there is more.
        """)
    static let cursor = RouteParameter.text("cursor").described(
        """
        Where the page before has ended: `meta.cursor`. One that begins with ~ stands for names that are too \
        long for a request, and is remembered while 64 others have not come after it.
        """)
    /// Whether all nodes of the cluster are asked; a broker that is alone is a cluster of one.
    static let cluster = RouteParameter("cluster", .boolean).defaulting(to: .boolean(false)).described(
        "Whether all nodes of the cluster are asked; a broker that is alone is a cluster of one.")

    /// Says what is wrong with a value; nil if nothing is.
    func objection(to value: String) -> String? {
        switch kind {
        case .text(let bytes):
            return bytes.contains(value.utf8.count)
                ? nil : "\(name) must have \(bytes.lowerBound) to \(bytes.upperBound) bytes."
        case .integer(let range):
            guard let number = Self.integer(value), range.contains(number) else {
                return range.upperBound == .max
                    ? "\(name) must be an integer of at least \(range.lowerBound)."
                    : "\(name) must be an integer from \(range.lowerBound) to \(range.upperBound)."
            }
            return nil
        case .number(let numbers):
            return Self.integer(value).map(numbers.contains) ?? false
                ? nil : "\(name) must be \(numbers.map { String($0) }.joined(separator: " or "))."
        case .boolean: return value == "true" || value == "false" ? nil : "\(name) must be true or false."
        case .choice(let words):
            return words.contains(value) ? nil : "\(name) must be one of \(words.joined(separator: ", "))."
        case .choices(let words):
            let wrong = Self.parts(value).first { !words.contains($0) }
            return wrong == nil
                ? nil : "\(name) takes \(words.joined(separator: ", ")), separated by commas."
        }
    }

    /// Digits with or without a minus: nothing else is an integer.
    static func integer(_ text: String) -> Int? {
        text.utf8.drop { $0 == UInt8(ascii: "-") }.allSatisfy { (0x30...0x39).contains($0) }
            ? Int(text) : nil
    }

    static func parts(_ text: String) -> [String] {
        text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map { String($0) ?? "" }
    }
}

extension Limits {
    /// Bytes of a text in a query: a longer one is refused. A request's first line has room for 8 KiB.
    static let textParameterBytesMax = 4096

    /// Bytes of a certificate in a query, as Base64: a longer one is refused.
    static let certificateParameterBytesMax = 7168

    /// Rows of a page: a larger `limit` is refused.
    static let pageRowsMax = 1000
}
