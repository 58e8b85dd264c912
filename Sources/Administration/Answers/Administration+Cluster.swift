internal import BrokerModel
internal import HTTP
internal import JSON
internal import JSONReader
internal import MQTTCodec

/// The cluster that the broker is a node of: who is there, and what all nodes answer together.
extension Administration {
    func getCluster(_ call: Call) throws(APIError) {
        guard let cluster = broker.condition.cluster else { throw APIError(.notFound, "This broker is not part of a cluster.") }
        var object = JSONObject()
        object.set("name", cluster.name)
        object.set("node", broker.facts.node)
        object.set("trouble", orNull: cluster.trouble)
        object.set("server", orNull: cluster.server)
        object.set("mode", orNull: cluster.mode)
        object.set("servers", cluster.servers.map { Self.server($0) })
        object.set("shared_names", cluster.sharedNames)
        object.set("nodes", cluster.nodes.map { Self.node($0) })
        object.set("totals", Self.totals(cluster))
        call.answer(object)
    }

    private static func server(_ server: AdministeredCluster.Server) -> JSONObject {
        var object = JSONObject()
        object.set("address", server.address)
        switch server.syncs {
        case .always: object.set("sync", "always")
        case .everySeconds(let seconds): object.set("sync", "\(seconds)s")
        case .unknown(let reason):
            object.set("sync", "unknown")
            object.set("reason", reason)
        }
        return object
    }

    static func clusterInShort(_ cluster: AdministeredCluster) -> JSONObject {
        var object = JSONObject()
        object.set("name", cluster.name)
        object.set("trouble", orNull: cluster.trouble)
        for state in AdministeredNode.State.allCases where state != .left {
            object.set("nodes_\(state.rawValue)", cluster.nodes.count { $0.state == state })
        }
        return object
    }

    private static func node(_ node: AdministeredNode) -> JSONObject {
        var object = JSONObject()
        object.set("name", orNull: node.name)
        object.set("id", node.identifier)
        object.set("state", node.state.rawValue)
        object.set("self", node.isSelf)
        object.set("since", Timestamp.text(node.since))
        object.set("version", orNull: node.figures?.version)
        object.set("started_at", orNull: node.figures.map { Timestamp.text($0.startedAt) })
        object.set("address", orNull: node.figures?.address)
        object.set("dashboard", orNull: node.figures?.dashboard)
        // Of a node that is there no more nothing is so any longer.
        let figures = node.isThere ? node.figures : nil
        object.set("draining", orNull: figures?.isDraining)
        object.set("trouble", orNull: figures?.trouble)
        object.set("server", orNull: figures?.server)
        object.set("clients_connected", orNull: figures?.clientsConnected)
        object.set("sessions", orNull: figures?.sessions)
        object.set("subscriptions", orNull: figures?.subscriptions)
        object.set("retained_messages", orNull: figures?.retainedMessages)
        object.set("stored_messages", orNull: figures?.storedMessages)
        object.set("received_messages_rate", orNull: figures?.receivedRate)
        object.set("sent_messages_rate", orNull: figures?.sentRate)
        object.set("dropped", orNull: figures?.dropped)
        object.set("memory_bytes", orNull: figures?.residentBytes)
        object.set("processors", orNull: figures?.processorLoad)
        return object
    }

    /// Of the nodes that are there.
    private static func totals(_ cluster: AdministeredCluster) -> JSONObject {
        let figures = cluster.nodes.filter { $0.state == .up }.compactMap(\.figures)
        var object = JSONObject()
        for state in AdministeredNode.State.allCases where state != .left {
            object.set("nodes_\(state.rawValue)", cluster.nodes.count { $0.state == state })
        }
        object.set("nodes_draining", figures.count { $0.isDraining })
        func set(_ name: String, _ value: (AdministeredNode.Figures) -> UInt64) {
            object.set(name, figures.reduce(0) { $0 &+ value($1) })
        }
        set("clients_connected", \.clientsConnected)
        set("sessions", \.sessions)
        set("subscriptions", \.subscriptions)
        set("stored_messages", \.storedMessages)
        set("received_messages_rate", \.receivedRate)
        set("sent_messages_rate", \.sentRate)
        set("dropped", \.dropped)
        return object
    }

    // MARK: What all nodes are asked

    /// Has every node answer a request, this one too, and makes one answer of theirs.
    ///
    /// A list: one page of the best rows of all. One client: the node where it is connected, else where it was last. An order: done if one
    /// node has done it.
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
            note(call, response.status, endedAt: clock())
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
        var rows: [(value: JSONValue, place: ClientPlace, byteCount: Int)] = []
        var (hasMore, count) = (false, 0 as Int64?)
        /// The last places of those pages behind which their nodes have more.
        var ends: [ClientPlace] = []
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
                if let end = texts.last?.string.flatMap({ ClientPlace($0) }) { ends.append(end) }
            }
            // It comes from elsewhere: many nodes of it are still a number.
            let more = object["meta"]?.object?["count"]?.integer.flatMap { (0...1 << 48).contains($0) ? $0 : nil }
            count = count.flatMap { sum in more.map { sum + $0 } }
            for (value, text) in zip(data, texts) {
                guard let text = text.string, let place = ClientPlace(text) else { continue }
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
        // A client may be known on several nodes: a page does not end between them, for the next one begins behind its name.
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
private struct ClientPlace {
    let text: String
    private let position: ClientPosition

    init?(_ text: String) {
        guard let position = Administration.position(text) else { return nil }
        (self.text, self.position) = (text, position)
    }

    func precedes(_ other: ClientPlace, isDescending: Bool) -> Bool {
        position.precedes(other.position, isDescending: isDescending)
    }
}
