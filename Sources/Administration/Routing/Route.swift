internal import BrokerModel
internal import HTTP

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
    let takesBody: Bool
    let handler: Handler

    init(
        _ method: HTTPMethod, _ path: String, _ operation: String, _ need: Need, part: Part = .api,
        parameters: [RouteParameter] = [],
        takesBody: Bool = false, _ handler: @escaping Handler
    ) {
        (self.method, self.path, self.operation, self.need, self.part) = (
            method, path, operation, need, part
        )
        (self.parameters, self.takesBody, self.handler) = (parameters, takesBody, handler)
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

/// All that may be asked for. `openapi.json` says the same in other words; a test compares the two.
extension Route {
    private static let api = "/api/martlet/v1"

    static let table: [Route] =
        health + broker + alarms + bridges + clients + topics + topicMetrics + configuration + streams + traces + files + access

    private static let health: [Route] = [
        Route(
            .get, "/livez", "getLive", .nothing, part: .health, parameters: [.text("verbose")],
            Administration.getLive
        ),
        Route(
            .get, "/readyz", "getReady", .nothing, part: .health, parameters: [.text("verbose")],
            Administration.getReady),
        Route(
            .get, "/healthz", "getHealth", .nothing, part: .health, parameters: [.text("verbose")],
            Administration.getReady),
    ]

    private static let broker: [Route] = [
        Route(.get, api + "/openapi.json", "getOpenAPI", .nothing, Administration.getOpenAPI),
        Route(
            .get, "/metrics", "getMetrics", .metrics, part: .metrics,
            parameters: [RouteParameter("names", .choice(["martlet", "mosquitto"]))], Administration.getMetrics),
        Route(.get, api + "/stats", "getStatistics", .viewer, Administration.getStatistics),
        Route(
            .get, api + "/stats/history", "getHistory", .viewer,
            parameters: [RouteParameter("series", .choices(Series.names)), RouteParameter("step", .number([1, 60]))],
            Administration.getHistory),
        Route(.get, api + "/broker", "getBroker", .viewer, Administration.getBroker),
        Route(.post, api + "/drain", "drain", .admin, takesBody: true, Administration.drain),
        Route(.delete, api + "/drain", "endDrain", .admin, Administration.endDrain),
        Route(.get, api + "/listeners", "getListeners", .viewer, Administration.getListeners),
        Route(.get, api + "/cluster", "getCluster", .viewer, Administration.getCluster),
    ]

    private static let bridges: [Route] = [
        Route(.get, api + "/bridges", "listBridges", .viewer, Administration.listBridges),
        Route(.post, api + "/bridges", "addBridge", .admin, takesBody: true, Administration.addBridge),
        Route(.get, api + "/bridges/{name}", "getBridge", .viewer, Administration.getBridge),
        Route(.patch, api + "/bridges/{name}", "changeBridge", .admin, takesBody: true, Administration.changeBridge),
        Route(.delete, api + "/bridges/{name}", "removeBridge", .admin, Administration.removeBridge),
        Route(.post, api + "/bridges/{name}/pause", "pauseBridge", .admin, Administration.pauseBridge),
        Route(.post, api + "/bridges/{name}/resume", "resumeBridge", .admin, Administration.resumeBridge),
    ]

    private static let sorts = Administration.sortNames + Administration.sortNames.map { "-" + $0 }

    private static let clients: [Route] = [
        Route(
            .get, api + "/clients", "listClients", .viewer,
            parameters: [
                .text("q"), .text("prefix"), .text("username"), .text("address", 1...Limits.textParameterBytesMax),
                .text("listener"),
                RouteParameter("state", .choice(["connected", "absent"])),
                RouteParameter("proto_ver", .number([3, 4, 5])),
                .count("min_dropped"), .count("min_queue"), .count("min_lag_ms"),
                RouteParameter("sort", .choice(sorts)),
                RouteParameter("fields", .choices(Administration.clientFields)), .limit, .cursor, .cluster,
            ], Administration.listClients),
        Route(.get, api + "/clients/{clientid}", "getClient", .viewer, parameters: [.cluster], Administration.getClient),
        Route(.delete, api + "/clients/{clientid}", "endSession", .admin, parameters: [.cluster], Administration.endSession),
        Route(
            .get, api + "/clients/{clientid}/subscriptions", "listClientSubscriptions", .viewer,
            parameters: [.limit, .cursor], Administration.listClientSubscriptions),
        Route(
            .get, api + "/clients/{clientid}/queue", "getQueue", .viewer,
            parameters: [RouteParameter("payload", .choice(["0", "1"])), .limit, .cursor],
            Administration.listQueue),
        Route(
            .delete, api + "/clients/{clientid}/queue", "purgeQueue", .admin,
            parameters: [.topic("filter")],
            Administration.purgeQueue),
        Route(
            .get, api + "/clients/{clientid}/inflight", "getInflight", .viewer,
            parameters: [.limit, .cursor],
            Administration.listInFlight),
        Route(
            .delete, api + "/clients/{clientid}/connection", "disconnectClient", .admin,
            parameters: [RouteParameter("will", .boolean), .cluster], Administration.disconnectClient),
        Route(
            .get, api + "/connections/closed", "listClosedConnections", .viewer,
            parameters: [
                .text("clientid"), .text("address", 1...Limits.textParameterBytesMax), RouteParameter("refused", .boolean),
                .limit, .cursor,
            ], Administration.listClosedConnections),
        Route(
            .get, api + "/drops", "listDrops", .viewer, parameters: [.limit], Administration.listDrops),
    ]

    private static let topics: [Route] = [
        Route(
            .get, api + "/subscriptions", "listSubscriptions", .viewer,
            parameters: [
                .topic("filter"), .topic("matches"), .text("share"), .text("clientid"), .limit, .cursor,
            ],
            Administration.listSubscriptions),
        Route(
            .get, api + "/topics/tree", "getTopicTree", .viewer,
            parameters: [.text("under"), .limit, .cursor],
            Administration.getTopicTree),
        Route(
            .get, api + "/retained", "listRetained", .viewer,
            parameters: [.topic("filter"), .limit, .cursor],
            Administration.listRetained),
        Route(
            .delete, api + "/retained", "deleteRetained", .admin,
            parameters: [.topic("filter", isRequired: true), RouteParameter("dry_run", .boolean)],
            Administration.deleteRetained),
        Route(
            .get, api + "/retained/message", "getRetainedMessage", .viewer,
            parameters: [.topic("topic", isRequired: true)], Administration.getRetainedMessage),
        Route(.post, api + "/publish", "publish", .admin, takesBody: true, Administration.publish),
    ]

    private static let topicMetrics: [Route] = [
        Route(.get, api + "/topic-metrics", "listTopicMetrics", .viewer, Administration.listTopicMetrics),
        Route(.post, api + "/topic-metrics", "addTopicMetric", .admin, takesBody: true, Administration.addTopicMetric),
        Route(
            .delete, api + "/topic-metrics", "removeTopicMetric", .admin, parameters: [.topic("filter", isRequired: true)],
            Administration.removeTopicMetric),
    ]

    private static let configuration: [Route] = [
        Route(.get, api + "/config", "getConfig", .admin, Administration.getConfiguration),
        Route(.post, api + "/config/check", "checkConfig", .admin, Administration.checkConfiguration),
        Route(
            .post, api + "/config/reload", "reloadConfig", .admin, Administration.reloadConfiguration),
        Route(
            .get, api + "/log", "getLog", .admin,
            parameters: [RouteParameter("lines", .integer(1...4096))],
            Administration.getLog),
        Route(.get, api + "/log/types", "getLogTypes", .viewer, Administration.getLogTypes),
        Route(
            .put, api + "/log/types", "setLogTypes", .admin, takesBody: true, Administration.setLogTypes),
    ]

    private static let alarms: [Route] = [
        Route(
            .get, api + "/alarms", "listAlarms", .viewer,
            parameters: [RouteParameter("state", .choice(["active", "cleared", "all"])), .limit], Administration.listAlarms),
        Route(.post, api + "/alarms/{number}/acknowledge", "acknowledgeAlarm", .admin, Administration.acknowledgeAlarm),
    ]

    private static let bans: [Route] = [
        Route(
            .get, api + "/bans", "listBans", .viewer,
            parameters: [RouteParameter("as", .choice(BanKind.allCases.map(\.rawValue))), .limit, .cursor],
            Administration.listBans),
        Route(.post, api + "/bans", "ban", .admin, takesBody: true, Administration.ban),
        Route(.delete, api + "/bans/{as}/{who}", "liftBan", .admin, Administration.liftBan),
    ]

    private static let streams: [Route] = [
        Route(
            .get, api + "/events", "streamEvents", .viewer,
            parameters: [
                RouteParameter("types", .choices(EventKind.allCases.map(\.rawValue))), RouteParameter("interval", .integer(1...60)),
            ],
            Administration.streamEvents),
        Route(.get, api + "/log/stream", "streamLog", .admin, Administration.streamLog),
        Route(.get, api + "/mqtt", "openWebSocket", .admin, Administration.openWebSocket),
    ]

    private static let files: [Route] = [
        Route(.get, api + "/files/users", "listFileUsers", .admin, Administration.listFileUsers),
        Route(.post, api + "/files/users", "addFileUser", .admin, takesBody: true, Administration.addFileUser),
        Route(
            .put, api + "/files/users/{username}", "setFileUserPassword", .admin, takesBody: true,
            Administration.setFileUserPassword),
        Route(
            .delete, api + "/files/users/{username}", "removeFileUser", .admin, parameters: [.text("file")],
            Administration.removeFileUser),
        Route(.get, api + "/files/rules", "listFileRules", .admin, Administration.listFileRules),
        Route(.post, api + "/files/rules", "addFileRule", .admin, takesBody: true, Administration.addFileRule),
        Route(.put, api + "/files/rules/{line}", "changeFileRule", .admin, takesBody: true, Administration.changeFileRule),
        Route(
            .delete, api + "/files/rules/{line}", "removeFileRule", .admin,
            parameters: [.text("text", 1...Limits.textParameterBytesMax, isRequired: true), .text("file")],
            Administration.removeFileRule),
        Route(
            .get, api + "/may", "getMay", .admin,
            parameters: [
                RouteParameter("action", .choice(AccessAction.allCases.map(\.rawValue)), isRequired: true),
                .topic("topic", isRequired: true), .text("username"), .text("clientid"), .text("address"), .text("listener"),
            ], Administration.getMay),
    ]

    private static let traces: [Route] = [
        Route(.get, api + "/traces", "listTraces", .admin, Administration.listTraces),
        Route(.post, api + "/traces", "addTrace", .admin, takesBody: true, Administration.addTrace),
        Route(.get, api + "/traces/{id}", "getTrace", .admin, Administration.getTrace),
        Route(.delete, api + "/traces/{id}", "removeTrace", .admin, Administration.removeTrace),
        Route(.get, api + "/traces/{id}/stream", "streamTrace", .admin, Administration.streamTrace),
        Route(.get, api + "/traces/{id}/download", "downloadTrace", .admin, Administration.downloadTrace),
    ]

    private static let access: [Route] =
        bans + [
            Route(
                .get, api + "/audit", "getAudit", .admin,
                parameters: [
                    RouteParameter("kind", .choice(Audit.Kind.allCases.map(\.rawValue))),
                    RouteParameter("limit", .integer(1...Limits.auditEntriesMax)),
                ], Administration.getAudit),
            Route(
                .post, api + "/security/commands", "performSecurityCommands", .admin, takesBody: true,
                Administration.performSecurityCommands),
            Route(.get, api + "/session", "getSession", .nothing, Administration.getSession),
            Route(.post, api + "/session", "logIn", .nothing, takesBody: true, Administration.logIn),
            Route(.delete, api + "/session", "logOut", .nothing, Administration.logOut),
            Route(.post, api + "/login-links", "makeLoginLink", .admin, Administration.makeLoginLink),
            Route(.get, api + "/tokens", "listTokens", .admin, Administration.listTokens),
            Route(.post, api + "/tokens", "makeToken", .admin, takesBody: true, Administration.makeToken),
            Route(.delete, api + "/tokens/{name}", "revokeToken", .admin, Administration.revokeToken),
        ]
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

    init(_ name: String, _ kind: Kind, isRequired: Bool = false) {
        (self.name, self.kind, self.isRequired) = (name, kind, isRequired)
    }

    static func text(_ name: String, _ bytes: ClosedRange<Int> = 0...Limits.textParameterBytesMax, isRequired: Bool = false)
        -> RouteParameter
    {
        RouteParameter(name, .text(bytes), isRequired: isRequired)
    }

    /// 0 or more.
    static func count(_ name: String) -> RouteParameter {
        RouteParameter(name, .integer(0...Int.max))
    }

    /// A topic or filter.
    static func topic(_ name: String, isRequired: Bool = false) -> RouteParameter {
        .text(name, 1...Limits.textParameterBytesMax, isRequired: isRequired)
    }

    static let limit = RouteParameter("limit", .integer(1...Limits.pageRowsMax))
    static let cursor = RouteParameter.text("cursor")
    /// Whether all nodes of the cluster are asked; a broker that is alone is a cluster of one.
    static let cluster = RouteParameter("cluster", .boolean)

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
