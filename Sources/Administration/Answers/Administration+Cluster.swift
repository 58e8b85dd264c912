internal import BrokerModel
internal import Cluster
internal import HTTP
internal import JSON
internal import JSONReader
internal import MQTTCodec

/// The cluster that the broker is a node of: who is there, and what all nodes answer together.
extension Administration {
    func getCluster(_ call: Call) throws(APIError) {
        guard let cluster = broker.condition.cluster else { throw APIError(.notFound, "This broker is not part of a cluster.") }
        call.answer(
            Self.clusterResource.json(ClusterView(status: cluster, node: broker.facts.node, clockOffset: broker.wallClockOffset)))
    }

    // MARK: What all nodes are asked

    /// Has every node answer a request, this one too, and makes one answer of theirs.
    ///
    /// A list: one page of the best rows of all. One client: the node where it is connected, else where it was last. An
    /// command: done if one node has done it.
    func askCluster(_ call: Call) {
        guard let role = call.who.role else { return call.fail(.unavailable) }
        var own: NodeResponse?
        var others: [NodeResponse]?
        func goOn() {
            guard let own, let others else { return }
            call.complete { () throws(APIError) in try combine([own] + others, call) }
        }
        perform(call.route, call.path, call.request, call.cursor, as: call.who, from: call.origin, at: call.startedAt) {
            [broker] _, response in
            own = NodeResponse(node: broker.facts.node, status: response.status.rawValue, body: response.bytes ?? [])
            goOn()
        }
        let request = NodeRequest(
            method: call.route.method.rawValue, target: Self.target(of: call.request), cursor: call.cursor, role: role,
            who: "\(call.who.name ?? call.who.means.rawValue)@\(broker.facts.node)")
        broker.askOtherNodes(request) { responses in
            others = responses
            goOn()
        }
    }

    /// Another node asks for somebody whom it has let in. Answers what may be asked of all nodes, and nothing else.
    public func answer(_ request: NodeRequest, clock: @escaping () -> Moment, _ done: @escaping (Int, [UInt8]) -> Void) {
        guard let http = HTTPRequest(HTTPMethod(rawValue: request.method), request.target),
            case .route(let route, let path) = Route.find(http.method, http.segments), route.method == http.method,
            route.parameters.contains(where: { $0.name == RouteParameter.cluster.name })
        else { return done(HTTPStatus.notFound.rawValue, []) }
        perform(
            route, path, http, request.cursor, as: Identity(name: request.who, role: request.role, means: .node),
            from: RequestOrigin(address: "", listener: -1), at: clock()
        ) { [self] call, response in
            record(call, response.status, endedAt: clock())
            done(response.status.rawValue, response.bytes ?? [])
        }
    }

    private func perform(
        _ route: Route, _ path: [String: String], _ request: HTTPRequest, _ cursor: String?, as who: Identity,
        from origin: RequestOrigin, at now: Moment, _ done: @escaping (Call, HTTPResponse) -> Void
    ) {
        let call = Call(request, from: origin, route, path, at: now, done)
        (call.isForNode, call.cursor, call.who) = (true, cursor, who)
        admit(call)
    }

    /// Path and query, without what the asking node alone knows.
    private static func target(of request: HTTPRequest) -> String {
        let items = request.query.items.filter { $0.name != RouteParameter.cursor.name }
        let query = items.map { "\(PercentCoding.encode($0.name))=\(PercentCoding.encode($0.value))" }.joined(separator: "&")
        return request.target.encodedPath + (query.isEmpty ? "" : "?\(query)")
    }

    private func combine(_ responses: [NodeResponse], _ call: Call) throws(APIError) {
        // What is wrong with the request is so on every node.
        if let own = responses.first, own.status == HTTPStatus.badRequest.rawValue {
            return call.answer(.json(own.body, status: .badRequest))
        }
        let missing = responses.filter { $0.status == nil || $0.status == HTTPStatus.serviceUnavailable.rawValue }.map(\.node)
        let good = responses.filter { $0.status.map { (200..<300).contains($0) } ?? false }
        if call.route.operation == "listClients" { return try combinePages(good, missing, call) }
        guard !good.isEmpty else {
            guard missing.isEmpty else { throw Self.silent(missing) }
            throw .notFound("client")
        }
        guard call.route.method == .get else { return call.answer(HTTPResponse(.noContent)) }
        let found = good.compactMap { response in (try? JSONValue(reading: response.body, bytesMax: response.body.count))?.object }
        func rank(_ client: JSONMembers) -> (Int, String) {
            (client["connected"]?.boolean == true ? 1 : 0, client["disconnected_at"]?.string ?? "")
        }
        guard let best = found.max(by: { rank($0) < rank($1) }) else { throw Self.silent(good.map(\.node)) }
        var text = JSONWriter()
        text.add(.object(best))
        call.answer(.json(text.bytes))
    }

    private func combinePages(_ pages: [NodeResponse], _ missing: [String], _ call: Call) throws(APIError) {
        let isDescending = call.text("sort")?.hasPrefix("-") ?? false
        var rows: [(value: JSONValue, place: ClientCursor, byteCount: Int)] = []
        var (hasMore, count) = (false, 0 as Int64?)
        /// The last places of those pages behind which their nodes have more.
        var ends: [ClientCursor] = []
        var missing = missing
        for page in pages {
            guard let object = (try? JSONValue(reading: page.body, bytesMax: page.body.count))?.object,
                let data = object["data"]?.array, let texts = object["places"]?.array, texts.count == data.count
            else {
                missing.append(page.node)
                continue
            }
            if object["meta"]?.object?["cursor"]?.string != nil {
                hasMore = true
                if let end = texts.last?.string.flatMap({ ClientCursor($0) }) { ends.append(end) }
            }
            // It comes from elsewhere: many nodes of it are still a number.
            let more = object["meta"]?.object?["count"]?.integer.flatMap { (0...1 << 48).contains($0) ? $0 : nil }
            count = count.flatMap { sum in more.map { sum + $0 } }
            for (value, text) in zip(data, texts) {
                guard let text = text.string, let place = ClientCursor(text) else { continue }
                var row = JSONWriter()
                row.add(value)
                rows.append((value, place, row.bytes.count + 1))
            }
        }
        rows.sort { $0.place.precedes($1.place, isDescending: isDescending) }
        var bytesLeft = Limits.pageBytesMax
        var page = rows.prefix(min(call.limit, Limits.nodePageRowsMax)).prefix { row in
            // A node may have more in front of what the others tell behind its page.
            guard ends.allSatisfy({ !$0.precedes(row.place, isDescending: isDescending) }) else { return false }
            defer { bytesLeft -= row.byteCount }
            return bytesLeft == Limits.pageBytesMax || row.byteCount <= bytesLeft
        }
        // A client may be known on several nodes: a page does not end between them, for the next one begins behind its
        // name.
        while page.count < rows.count, let last = page.last, last.place.text == rows[page.count].place.text {
            page.append(rows[page.count])
        }
        let cursor = hasMore || rows.count > page.count ? page.last?.place.text : nil
        var text = JSONWriter()
        text.object { root in
            root.array("data") { list in for row in page { list.add(row.value) } }
            root.object("meta") { meta in
                meta.set("cursor", cursor.map { .string(longCursors.short($0)) } ?? .null)
                meta.set("count", (missing.isEmpty ? count : nil).map { .integer($0) } ?? .null)
                meta.set("as_of", Timestamp.text(call.startedAt.wallMilliseconds))
                meta.array("missing_nodes") { list in for node in missing { list.add(node) } }
            }
        }
        call.answer(.json(text.bytes))
    }

    private static func silent(_ nodes: [String]) -> APIError {
        APIError(
            .serviceUnavailable, "Not every node has answered: \(nodes.sorted().joined(separator: ", ")).",
            fields: ["Retry-After": String(Limits.retryAfterSeconds)])
    }
}

/// Where a row of a list of clients stands: its cursor, read.
private struct ClientCursor {
    let text: String
    private let position: ClientPosition

    init?(_ text: String) {
        guard let position = ClientAnswers.position(text) else { return nil }
        (self.text, self.position) = (text, position)
    }

    func precedes(_ other: ClientCursor, isDescending: Bool) -> Bool {
        position.precedes(other.position, isDescending: isDescending)
    }
}

// MARK: - What answers say of it

/// The cluster, with the name of the node that answers.
struct ClusterView {
    let status: ClusterStatus
    let node: String
    /// What the clock of the members lacks of the milliseconds since 1970.
    let clockOffset: UInt64
}

/// A node as the list of all shows it.
struct ListedNode {
    let member: ClusterMember
    let clockOffset: UInt64

    /// What the node has said of itself last.
    var said: NodeSummary? { member.summary }
    /// How it is: of a node that is there no more nothing is so any longer.
    var now: NodeSummary? { member.isThere ? member.summary : nil }
}

extension String {
    /// nil for an empty one.
    fileprivate var nonEmpty: String? { isEmpty ? nil : self }
}

extension Administration {
    static let clusterInShortResource = Resource<ClusterStatus>(
        "ClusterInShort",
        [
            .text("name", \.name),
            .textOrNull("trouble", help: "Why this node is not ready; null if it is.", \.trouble),
        ] + clusterStates.map { $0.of { ClusterTotals($0.members) } })

    static let clusterResource = Resource<ClusterView>(
        "Cluster",
        [
            .text("name", \.status.name),
            .text("node", help: "The node that answers.", \.node),
            .textOrNull("trouble", \.status.trouble),
            .textOrNull("server", \.status.server),
            .textOrNull(
                "mode", as: .choice(["synced", "replicated", "node"]),
                help:
                    "What an acknowledgement says: the message is on the disks of a majority of the servers, or in their memory; or it is this "
                    + "node's alone, which has no store. Null if that is not known.", \.status.mode),
            .objects(
                "servers", as: clusterServerResource, help: "Those whose monitoring is asked (martlet_cluster_monitors).",
                \.status.servers),
            .texts("shared_names", help: "Names that several nodes have: each is to have one of its own.", \.status.sharedNames),
            .objects("nodes", as: nodeResource) { view in
                view.status.members.map { ListedNode(member: $0, clockOffset: view.clockOffset) }
            },
            .object("totals", as: .dictionary(.count), help: "Of the nodes that are up.") {
                clusterTotalsResource.json(ClusterTotals($0.status.members))
            },
        ])

    private static let clusterServerResource = Resource<ClusterStatus.Server>(
        nil,
        [
            .text("address", \.address),
            .text("sync", help: "When it syncs what it acknowledges: always, after so many seconds (120s), or unknown.") {
                switch $0.syncs {
                case .always: "always"
                case .every(let seconds): "\(seconds)s"
                case .unknown: "unknown"
                }
            },
            .textIfAny("reason", help: "Why it is unknown.") { if case .unknown(let reason) = $0.syncs { reason } else { nil } },
        ])

    static let nodeResource = Resource<ListedNode>("Node", nodeFields + nodeFigures)

    private static let nodeFields: [Field<ListedNode>] = [
        .textOrNull("name", help: "Null until it has said it, as all that it says of itself.") { $0.said?.name.nonEmpty },
        .text("id", help: "One run of the node.", \.member.node.description),
        .text(
            "state", as: .choice(ClusterMember.State.allCases.map(\.rawValue)),
            help:
                "`silent`: it holds a lease and reports nothing. `left`: it has shut down. `gone`: its lease has expired. The last two for a "
                + "minute; the figures of such a node, from `draining` on, are null.", \.member.state.rawValue),
        .boolean("self", help: "Whether it is the node that answers.", \.member.isSelf),
        .time("since") { $0.member.since &+ $0.clockOffset },
        .textOrNull("version") { $0.said?.version },
        .timeOrNull("started_at") { $0.said?.startedAt },
        .textOrNull("address", help: "Where clients reach it: `martlet_node_address`.") { $0.said?.address.nonEmpty },
        // It becomes a link: what comes from elsewhere is one to a page or none.
        .textOrNull("dashboard", help: "The address of its dashboard.") { node in
            node.said.flatMap { $0.dashboard.hasPrefix("http://") || $0.dashboard.hasPrefix("https://") ? $0.dashboard : nil }
        },
        .booleanOrNull("draining") { $0.now?.isDraining },
        .textOrNull("trouble") { node in node.now.flatMap { $0.trouble.nonEmpty ?? node.member.clockTrouble } },
        .textOrNull("server", help: "The NATS server that it is connected to.") { $0.now?.server.nonEmpty },
    ]

    private static let nodeFigures: [Field<ListedNode>] = [
        .integerOrNull("clients_connected", column: "CLIENTS") { $0.now?.clientsConnected },
        .integerOrNull("sessions") { $0.now?.sessions },
        .integerOrNull("subscriptions") { $0.now?.subscriptions },
        .integerOrNull("retained_messages") { $0.now?.retainedMessages },
        .integerOrNull("stored_messages", column: "KEPT") { $0.now?.storedMessages },
        .integerOrNull("received_messages_rate", column: "IN/S") { $0.now?.receivedRate },
        .integerOrNull("sent_messages_rate", column: "OUT/S") { $0.now?.sentRate },
        .integerOrNull("dropped") { $0.now?.dropped },
        .integerOrNull("memory_bytes", as: .bytes, column: "MEMORY") { $0.now?.residentBytes },
        .decimalOrNull("processors", help: "How many processors it keeps busy.") { $0.now.map { Double($0.processorLoad) / 1000 } },
    ]

    private static let clusterStates: [Field<ClusterTotals>] = [
        .integer("nodes_up", \.nodesUp), .integer("nodes_silent", \.nodesSilent), .integer("nodes_gone", \.nodesGone),
    ]

    private static let clusterTotalsResource = Resource<ClusterTotals>(
        nil,
        clusterStates + [
            .integer("nodes_draining", \.nodesDraining),
            .integer("clients_connected", \.clientsConnected),
            .integer("sessions", \.sessions),
            .integer("subscriptions", \.subscriptions),
            .integer("stored_messages", \.storedMessages),
            .integer("received_messages_rate", \.receivedRate),
            .integer("sent_messages_rate", \.sentRate),
            .integer("dropped", \.dropped),
        ])

    /// The cluster's counters, for Prometheus alone.
    static let clusterFigures = Resource<ClusterStatus>(nil, clusterMessages + clusterSessions)

    private static let clusterMessages: [Field<ClusterStatus>] = [
        .measured { $0.trouble == nil ? 1 : 0 }.gauge("martlet_cluster_up", "1 while this node is connected to its cluster."),
        .measured(\.others).gauge("martlet_cluster_other_nodes", "The other nodes of the cluster."),
        .measured(\.messagesOut).counter(messages.name, messages.help, ("direction", "out")),
        .measured(\.messagesIn).counter(messages.name, messages.help, ("direction", "in")),
        .measured(\.dropped)
            .counter("martlet_cluster_dropped_messages_total", "Messages that could not be sent to other nodes."),
        .measured(\.copies)
            .counter("martlet_cluster_second_copies_total", "Messages that came a second time, and were dropped."),
        .measured(\.illegible)
            .counter("martlet_cluster_illegible_messages_total", "Unreadable messages from the cluster's servers."),
        .measured(\.logWritten).counter(
            "martlet_cluster_logged_messages_total",
            "Messages of QoS 1 and 2 of this node's clients that are in the cluster's log."),
        .measured(\.logFailed).counter(
            "martlet_cluster_unlogged_messages_total",
            "Messages that could not be stored in the cluster's log, and were not acknowledged."),
        .measured(\.logRead).counter("martlet_cluster_log_records_total", "Records of the cluster's log that were read."),
        .measured(\.logLost).counter(
            "martlet_cluster_lost_log_records_total", "Records of the cluster's log that were deleted before they were read."),
        .measured(\.logReread).counter(
            "martlet_cluster_reread_log_records_total",
            "Records of the cluster's log that were read once more, for sessions that came from elsewhere."),
    ]

    private static let clusterSessions: [Field<ClusterStatus>] = [
        .measured(\.sessionsTaken).counter(moved.name, moved.help, ("direction", "in")),
        .measured(\.sessionsGiven).counter(moved.name, moved.help, ("direction", "out")),
        .measured(\.sessionsLost)
            .counter("martlet_cluster_lost_sessions_total", "Sessions that were lost because their node was gone."),
        .measured(\.sessionsRestored).counter(
            "martlet_cluster_restored_sessions_total",
            "Sessions that were restored from the cluster's copy because their node was gone."),
        .measured(\.positionsTold).counter(
            "martlet_cluster_session_positions_total", "Times that the log was told the position of a session."),
        .measured(\.sessionsExpired)
            .counter("martlet_cluster_expired_sessions_total", "Sessions that expired after their node was gone."),
        .measured(\.willsOfOthers).counter(
            "martlet_cluster_adopted_wills_total", "Wills that were published for clients of nodes that were gone."),
        .measured(\.claimsRefused).counter(
            "martlet_cluster_refused_claims_total", "Clients refused because it was not known which node has their session."),
        .measured(\.losses)
            .counter("martlet_cluster_lost_connections_total", "Connections to the cluster's servers that were lost."),
        .measured(\.refusingStreams)
            .gauge("martlet_cluster_refusing_streams", "Streams that are full on the cluster's servers."),
        .measured(\.retainedWaiting).gauge(
            "martlet_cluster_retained_waiting", "Changes of retained messages that the cluster has not confirmed yet."),
    ]

    private static let messages = (name: "martlet_cluster_messages_total", help: "Messages to and from other nodes.")
    private static let moved = (
        name: "martlet_cluster_moved_sessions_total", help: "Sessions that moved between nodes, by direction."
    )
}
