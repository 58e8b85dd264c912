internal import BrokerModel
internal import HTTP

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
