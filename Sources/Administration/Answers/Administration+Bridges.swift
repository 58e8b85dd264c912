internal import HTTP
internal import JSON

/// Bridges to other brokers.
extension Administration {
    func listBridges(_ call: Call) throws(APIError) {
        let bridges = broker.bridges
        answer(call, page: bridges.map { Self.bridge($0) }, cursor: nil, count: bridges.count) { object in
            object.set("kept", !broker.bridgesEndWithBroker)
        }
    }

    func getBridge(_ call: Call) throws(APIError) { call.answer(try detail(call)) }

    func addBridge(_ call: Call) throws(APIError) {
        let body = try RequestBody(call.request)
        let name = try body.required("name", 1...255)
        call.target = name
        let warnings = try order(.add(try Self.settings(of: body, but: "name")), name)
        call.answer(try detail(call, named: name, warnings: warnings), status: .created)
    }

    func changeBridge(_ call: Call) throws(APIError) {
        let settings = try Self.settings(of: try RequestBody(call.request))
        guard !settings.isEmpty else { throw .badRequest("The body has no option.") }
        let warnings = try order(.change(settings), call.path["name"] ?? "")
        call.answer(try detail(call, warnings: warnings))
    }

    func removeBridge(_ call: Call) throws(APIError) {
        _ = try order(.remove, call.path["name"] ?? "")
        call.answer(HTTPResponse(.noContent))
    }

    func pauseBridge(_ call: Call) throws(APIError) { try answer(call, .pause) }

    func resumeBridge(_ call: Call) throws(APIError) { try answer(call, .resume) }

    private func answer(_ call: Call, _ order: BridgeOrder) throws(APIError) {
        _ = try self.order(order, call.path["name"] ?? "")
        call.answer(try detail(call))
    }

    /// Returns warnings.
    private func order(_ order: BridgeOrder, _ name: String) throws(APIError) -> [String] {
        switch broker.order(order, bridge: name) {
        case .done(let warnings): return warnings
        case .notFound: throw .notFound("bridge")
        case .conflict(let reason): throw APIError(.conflict, reason)
        case .wrong(let reasons): throw .badRequest(reasons.joined(separator: " "))
        case .notKept(let reason):
            throw APIError(.serviceUnavailable, reason, fields: ["Retry-After": String(Limits.retryAfterSeconds)])
        }
    }

    /// Tells everybody who wants to know that a bridge is in another state.
    public func tell(_ bridge: AdministeredBridge, at now: Moment) {
        if events.count > 0 { tell(.bridge, Self.bridge(bridge), at: now) }
    }

    /// The members of a body as options. A number and a truth value are what one would write in a file; null takes an option away.
    private static func settings(of body: RequestBody, but other: String? = nil) throws(APIError) -> [BridgeOrder.Setting] {
        var settings: [BridgeOrder.Setting] = []
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
        var object = Self.bridge(bridge)
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

    private static func bridge(_ bridge: AdministeredBridge) -> JSONObject {
        var object = JSONObject()
        object.set("name", bridge.name)
        object.set("state", bridge.state.rawValue)
        object.set("paused", bridge.isPaused)
        object.set("address", orNull: bridge.address)
        object.set("connected_at", orNull: bridge.connectedSince.map { Timestamp.text($0) })
        object.set("last_error", orNull: bridge.lastError)
        object.set("file", orNull: bridge.place?.file)
        object.set("line", orNull: bridge.place?.line)
        object.set("topics", bridge.options.first { $0.name == "topic" }?.values ?? [])
        object.set("queue_messages", bridge.queuedMessages)
        object.set("queue_bytes", bridge.queuedBytes)
        object.set("queue_on_disk", bridge.storedMessages)
        object.set("lag_ms", bridge.lagMilliseconds)
        object.set("out_rate", bridge.rateOut)
        object.set("in_rate", bridge.rateIn)
        object.set("out_messages", bridge.messagesOut)
        object.set("in_messages", bridge.messagesIn)
        object.set("out_bytes", bridge.bytesOut)
        object.set("in_bytes", bridge.bytesIn)
        object.set("out_dropped", bridge.droppedOut)
        object.set("in_dropped", bridge.droppedIn)
        object.set("connections", bridge.connections)
        object.set("each_connection", bridge.eachConnection.map { Self.connection($0) })
        return object
    }

    private static func connection(_ connection: AdministeredBridge.Connection) -> JSONObject {
        var object = JSONObject()
        object.set("number", connection.number)
        object.set("clientid", connection.clientIdentifier)
        object.set("state", connection.state.rawValue)
        object.set("address", orNull: connection.address)
        object.set("last_error", orNull: connection.lastError)
        object.set("queue_messages", connection.queuedMessages)
        object.set("queue_bytes", connection.queuedBytes)
        object.set("lag_ms", connection.lagMilliseconds)
        object.set("out_rate", connection.rateOut)
        object.set("in_rate", connection.rateIn)
        object.set("out_messages", connection.messagesOut)
        object.set("in_messages", connection.messagesIn)
        return object
    }
}
