internal import BrokerModel
internal import Bytes
internal import HTTP
internal import JSON
internal import MQTTCodec

typealias JSONRow = JSONObject

/// Clients: sessions and the connections that they are on.
struct ClientAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    // MARK: Lists

    func listClients(_ call: Call) throws(APIError) {
        let selection = try selection(call)
        let fields = call.list("fields").map { Set($0) }
        administration.askAll(call, .clients(selection), rowsMax: call.limit) { [self] (replies) throws(APIError) in
            var rows: [(row: ClientRow, shard: Int)] = []
            for (shard, reply) in replies.enumerated() {
                if case .clients(let page) = reply.rows { rows += page.map { ($0, shard) } }
            }
            rows.sort { $0.row.position.precedes($1.row.position, isDescending: selection.isDescending) }
            let view = ClientView(administration)
            var (page, places) = (PageRows(call), [String]())
            for (row, shard) in rows {
                // For the node that puts the pages of all nodes together.
                let place = call.isForNode ? Self.cursor(of: position(of: row, selection.order)) : ""
                let client = Self.clientResource.json(ListedClient(row: row, shard: shard, view: view), only: fields)
                guard page.add(client, with: place.utf8.count) else { break }
                places.append(place)
            }
            let hasMore = rows.count > page.count || replies.contains { $0.hasMore }
            let counts = replies.map(\.count)
            administration.answer(
                call, page: page.rows,
                cursor: hasMore ? rows.prefix(page.count).last.map { Self.cursor(of: $0.row.position) } : nil,
                count: counts.contains(nil) ? nil : counts.reduce(0) { $0 + ($1 ?? 0) }
            ) { object in
                if call.isForNode { object.set("places", places) }
            }
        }
    }

    private func selection(_ call: Call) throws(APIError) -> ClientSelection {
        let sort = call.text("sort") ?? "clientid"
        let isDescending = sort.hasPrefix("-")
        let name = isDescending ? String(sort.dropFirst()) : sort
        guard let order = ClientOrder.allCases.first(where: { $0.fieldName == name }) else { throw .badRequest("sort is unknown.") }
        var after: ClientPosition?
        if let cursor = call.cursor {
            after = Self.position(cursor)
            if after == nil { throw .badRequest("cursor does not belong to this list.") }
            if call.isForNode, order == .connectedAt, let value = after?.value, value > 0 {
                after?.value = value - min(value, administration.cursorOffset)
            }
        }
        var selection = ClientSelection(order: order, isDescending: isDescending, after: after)
        if let text = call.text("q"), !text.isEmpty { selection.text = Array(text.utf8) }
        selection.prefix = try call.encoded("prefix")
        selection.userName = try call.encoded("username")
        selection.network = try call.network()
        if let name = call.text("listener") {
            guard let index = broker.listeners.firstIndex(where: { $0.name == name && !$0.isClosed }) else {
                throw .badRequest("There is no listener \(name).")
            }
            selection.listener = index
        }
        selection.isConnected = call.text("state").map { $0 == "connected" }
        selection.version = call.integer("proto_ver").flatMap { ProtocolVersion(rawValue: UInt8($0)) }
        selection.dropsMin = UInt64(call.integer("min_dropped") ?? 0)
        selection.queuedMin = call.integer("min_queue") ?? 0
        selection.lagMillisecondsMin = UInt64(call.integer("min_lag_ms") ?? 0)
        return selection
    }

    /// Where a row stands among those of other nodes, which have clocks of their own.
    private func position(of row: ClientRow, _ order: ClientOrder?) -> ClientPosition {
        var position = row.position
        if order == .connectedAt, position.value > 0 { position.value &+= administration.cursorOffset }
        return position
    }

    static func cursor(of position: ClientPosition) -> String {
        Base64URL.encode(Array("\(position.value) ".utf8) + position.clientIdentifier.bytes)
    }

    static func position(_ cursor: String) -> ClientPosition? {
        guard let bytes = Base64URL.decode(cursor), let blank = bytes.firstIndex(of: UInt8(ascii: " ")),
            let value = UInt64(String(decoding: bytes[..<blank], as: UTF8.self)),
            let client = EncodedString(bytes[(blank + 1)...])
        else { return nil }
        return ClientPosition(value: value, clientIdentifier: client)
    }

    func listClientSubscriptions(_ call: Call) throws(APIError) {
        let client = try call.client()
        whenThere(client, call) { [self] () throws(APIError) in
            let shard = broker.shard(of: client)
            try administration.collect(
                call, .subscriptions(of: client, matching: nil), shards: shard..<shard + 1, isRare: false,
                Self.subscriptionRows
            ) { [self] in
                administration.answer(call, page: $0, cursor: $1)
            }
        }
    }

    func listQueue(_ call: Call) throws(APIError) {
        let client = try call.client()
        let withPayload = call.text("payload") == "1"
        if withPayload, !administration.maySeePayloads(call.who) {
            throw APIError(.forbidden, "Payloads are not shown; see martlet_http_payloads.")
        }
        whenThere(client, call) { [self] () throws(APIError) in
            let shard = broker.shard(of: client)
            var behind = 0
            try administration.collect(call, .queue(of: client, withPayload: withPayload), shards: shard..<shard + 1, isRare: false)
            {
                [self] reply in
                if case .queue(_, let count) = reply.rows { behind = count }
                return queueRows(reply)
            } _: { [self] rows, cursor in
                administration.answer(call, page: rows, cursor: cursor) { $0.set("on_disk", behind) }
            }
        }
    }

    func listInFlight(_ call: Call) throws(APIError) {
        let client = try call.client()
        whenThere(client, call) { [self] () throws(APIError) in
            let shard = broker.shard(of: client)
            var received: [UInt16] = []
            try administration.collect(call, .inFlight(of: client), shards: shard..<shard + 1, isRare: false) { [self] reply in
                if case .inFlight(_, let identifiers) = reply.rows { received = identifiers }
                return queueRows(reply)
            } _: { [self] rows, cursor in
                administration.answer(call, page: rows, cursor: cursor) { $0.set("received", received) }
            }
        }
    }

    /// Goes on if there is such a session.
    private func whenThere(
        _ client: EncodedString, _ call: Call, _ next: @escaping () throws(APIError) -> Void
    ) {
        detail(of: client, call) { (_) throws(APIError) in try next() }
    }

    private func detail(
        of client: EncodedString, _ call: Call,
        _ next: @escaping (ClientDetail) throws(APIError) -> Void
    ) {
        administration.ask(call, .client(client), of: broker.shard(of: client)) { (reply) throws(APIError) in
            guard case .client(let found) = reply.rows, let found else { throw .notFound("client") }
            try next(found)
        }
    }

    // MARK: One

    func getClient(_ call: Call) throws(APIError) {
        let client = try call.client()
        detail(of: client, call) { [self] (detail) throws(APIError) in
            let listed = ListedClient(row: detail.row, shard: broker.shard(of: client), view: ClientView(administration))
            call.answer(Self.clientDetailResource.json(DetailedClient(client: listed, detail: detail)))
        }
    }

    // MARK: Changes

    func disconnectClient(_ call: Call) throws(APIError) {
        let client = try call.client()
        administration.perform(
            call, .kick(client, publishesWill: call.boolean("will") ?? true), to: broker.shard(of: client)
        ) {
            (result) throws(APIError) in
            guard result == .done else { throw .notFound("connected client") }
            call.answer(HTTPResponse(.noContent))
        }
    }

    func endSession(_ call: Call) throws(APIError) {
        let client = try call.client()
        administration.perform(call, .endSession(client, publishesWill: true), to: broker.shard(of: client)) {
            (result) throws(APIError) in
            guard result == .done else { throw .notFound("client") }
            call.answer(HTTPResponse(.noContent))
        }
    }

    func purgeQueue(_ call: Call) throws(APIError) {
        let client = try call.client()
        let filter = try call.filter()
        administration.perform(call, .purgeQueue(of: client, matching: filter), to: broker.shard(of: client)) {
            (result) throws(APIError) in
            switch result {
            case .removed(let count): call.answer(Self.removed(count))
            case .removedInPart(let count, let shortfall):
                throw APIError(.serviceUnavailable, Self.words(for: shortfall, after: count))
            case .done, .notFound, .tooMany, .published: throw .notFound("client")
            }
        }
    }

    /// Why a queue is not purged as it was to be.
    private static func words(for shortfall: ShardCommandOutcome.Shortfall, after count: Int) -> String {
        let removed = "\(count) message\(count == 1 ? "" : "s") removed."
        switch shortfall {
        case .unreadable(let unread):
            return "\(removed) \(unread) could not be read from the store and were not removed; the log says which."
        case .moving: return "\(removed) The session is moving between nodes of the cluster, with the rest of its queue."
        case .unstored: return "\(removed) The store is not writable now: after a restart they may be back."
        }
    }

    static func removed(_ count: Int) -> JSONObject {
        var object = JSONObject()
        object.set("removed", count)
        return object
    }

    // MARK: Rows

    private func queueRows(_ reply: ShardReply) -> [JSONRow] {
        let rows: [QueueRow]
        switch reply.rows {
        case .queue(let waiting, _): rows = waiting
        case .inFlight(let sent, _): rows = sent
        default: return []
        }
        let offset = broker.wallClockOffset
        return rows.map { Self.queuedMessageResource.json(ShardRow($0, clockOffset: offset)) }
    }

    static func subscriptionRows(_ reply: ShardReply) -> [JSONRow] {
        guard case .subscriptions(let rows) = reply.rows else { return [] }
        return rows.map { subscriptionResource.json($0) }
    }

    static func dropped(_ drops: DropCounts) -> JSONObject { dropCountsResource.json(drops) }

}

extension DropReason {
    /// What answers and labels call it.
    var label: String { String(words.map { $0 == " " ? "_" : $0 }) }
}

// MARK: - What answers say of them

/// What a shard tells with times of its own clock.
struct ShardRow<Row: Sendable>: Sendable {
    let row: Row
    /// What its clock lacks of the milliseconds since 1970.
    let clockOffset: UInt64

    init(_ row: Row, clockOffset: UInt64) { (self.row, self.clockOffset) = (row, clockOffset) }

    func time(_ milliseconds: UInt64?) -> UInt64? { milliseconds.map { $0 &+ clockOffset } }
}

/// What lists of clients say that no shard knows.
struct ClientView: Sendable {
    let node: String
    let listeners: [AdministeredListener]
    let clockOffset: UInt64

    init(_ administration: Administration) {
        let broker = administration.broker
        (node, listeners, clockOffset) = (broker.facts.node, broker.listeners, broker.wallClockOffset)
    }
}

/// A client as lists show it.
struct ListedClient: Sendable {
    let row: ClientRow
    let shard: Int
    let view: ClientView

    var connection: ClientConnectionRow? { row.connection }

    /// Nil while the client is away, and for one of the broker's own.
    var listener: AdministeredListener? {
        connection?.listener.flatMap { view.listeners.indices.contains($0) ? view.listeners[$0] : nil }
    }

    /// The connection, unless it is one of the broker's own.
    var foreignConnection: ClientConnectionRow? { connection?.listener == nil ? nil : connection }

    func time(_ milliseconds: UInt64?) -> UInt64? { milliseconds.map { $0 &+ view.clockOffset } }
}

/// All that is known of a client.
struct DetailedClient: Sendable {
    let client: ListedClient
    let detail: ClientDetail
}

extension ClientOrder {
    /// The member of a client that it goes by.
    var fieldName: String {
        switch self {
        case .clientIdentifier: "clientid"
        case .drops: "dropped"
        case .queuedMessages: "queue_messages"
        case .queuedBytes: "queue_bytes"
        case .outputBytes: "output_bytes"
        case .lag: "lag_ms"
        case .receivedRate: "received_rate"
        case .sentRate: "sent_rate"
        case .subscriptions: "subscriptions"
        case .connectedAt: "connected_at"
        }
    }
}

extension ClientAnswers {
    static let clientResource = Resource<ListedClient>(
        "Client", help: "A session and the connection that it is on. With `fields` only those.", key: "clientid",
        clientFields + clientConnectionFields + clientCounts)

    private static let clientFields: [Field<ListedClient>] = [
        .text("clientid", column: "CLIENT") { "\($0.row.clientIdentifier)" },
        .textOrNull("username", column: "USER") { $0.row.userName?.description },
        .boolean("connected", column: "STATE") { $0.connection != nil },
        .textOrNull(
            "address", help: "Of the last connection; null if it is not known any more, and for a client of the broker's own."
        ) { $0.foreignConnection?.address },
        .integerOrNull("port") { $0.foreignConnection?.port },
        .textOrNull("listener", help: "As `/listeners` names it.") { $0.listener?.name },
        .textOrNull("protocol", as: .choice(["mqtt", "websockets"])) { $0.listener?.application.rawValue },
        .integer("proto_ver", as: .number(of: [3, 4, 5]), column: "MQTT", help: "3 is MQTT 3.1, 4 is 3.1.1, 5 is 5.0.") {
            $0.row.version.rawValue
        },
    ]

    private static let clientConnectionFields: [Field<ListedClient>] = [
        .booleanOrNull("clean_start") { $0.connection?.cleanStart },
        .integerOrNull("session_expiry_s", as: .seconds, help: "How long the session outlives its connection; null for ever.") {
            $0.row.sessionExpirySeconds == .max ? nil : $0.row.sessionExpirySeconds
        },
        .integerOrNull("keepalive_s", as: .seconds, help: "0 for none; null while the client is away.") {
            $0.connection?.keepAliveSeconds
        },
        .timeOrNull("created_at") { $0.time($0.row.createdAt) },
        .timeOrNull("connected_at") { $0.time($0.connection?.connectedAt) },
        .timeOrNull("disconnected_at") { $0.time($0.row.disconnectedAt) },
        .text("node", column: "NODE", help: "The node that it is on.") { $0.view.node },
        .integer("loop", help: "Which of the broker's loops has it.", \.shard),
        .boolean("bridge") { $0.connection?.isBridge ?? false },
    ]

    private static let clientCounts: [Field<ListedClient>] = [
        .integer("subscriptions", column: "SUBS", \.row.subscriptionCount),
        .integer("queue_messages", column: "QUEUED", help: "Messages that wait to be sent.", \.row.queuedMessages),
        .integer("queue_bytes", as: .bytes, \.row.queuedBytes),
        .integer(
            "inflight_out", column: "IN FLIGHT", help: "QoS 1 and 2 messages that were sent and are not acknowledged to the end.",
            \.row.inFlightMessages),
        .integer("inflight_in", help: "QoS 2 messages that were received and are not released.", \.row.receivedMessages),
        .integer("output_bytes", as: .bytes, column: "UNWRITTEN", help: "Bytes that the network has not taken yet.") {
            $0.connection?.outputBytes ?? 0
        },
        .integer(
            "lag_ms", as: .milliseconds, column: "LAG", help: "Age of the oldest message that is not written yet; 0 for none.",
            \.row.lagMilliseconds),
        .integer("received_messages") { $0.connection?.traffic.receivedMessages ?? 0 },
        .integer("received_bytes", as: .bytes) { $0.connection?.traffic.receivedBytes ?? 0 },
        .integer("sent_messages") { $0.connection?.traffic.sentMessages ?? 0 },
        .integer("sent_bytes", as: .bytes) { $0.connection?.traffic.sentBytes ?? 0 },
        .integer(
            "received_rate", column: "IN/s", help: "Messages a second since the request before, at least a second ago."
        ) { $0.connection?.rates.received ?? 0 },
        .integer("sent_rate", column: "OUT/s") { $0.connection?.rates.sent ?? 0 },
        .object("dropped", as: dropCountsResource, \.row.drops),
    ]

    static let clientDetailResource = Resource<DetailedClient>(
        "ClientDetail",
        clientResource.fields.map { $0.of(\.client) } + [
            .objectOrNull("will", as: willResource, \.detail.will),
            .object("limits", as: clientLimitsResource, \.detail),
            .textOrNull("mount_point") { $0.detail.mountPoint.isEmpty ? nil : Administration.text($0.detail.mountPoint) },
            .textOrNull("tls", help: "The version and cipher; null for none or while the client is away.") {
                $0.detail.info?.encryption
            },
            .textOrNull("certificate_subject") { $0.detail.info?.certificateSubject },
        ])

    static let willResource = Resource<ClientWillRow>(
        "Will",
        [
            .text("topic") { "\($0.topic)" },
            .integer("qos", as: .qos, \.qos.rawValue),
            .boolean("retain", \.retain),
            .integer("delay_s", as: .seconds, \.delayInterval),
            .integer("bytes", as: .bytes, \.payloadBytes),
        ])

    private static let clientLimitsResource = Resource<ClientDetail>(
        nil,
        [
            .integer(
                "receive_maximum", help: "How many QoS 1 and 2 messages may be in flight to the client.", \.inFlightMax),
            .integerOrNull("maximum_packet_size", as: .bytes, help: "In bytes; null while the client is away.", \.packetBytesMax),
        ])

    static let subscriptionResource = Resource<SubscriptionRow>(
        "Subscription",
        [
            .text("clientid", column: "CLIENT") { "\($0.clientIdentifier)" },
            .text("filter") { Administration.text($0.filter) },
            .textOrNull("share", help: "The name of the share group; null for none.") { $0.shareName?.description },
            .integer("qos", as: .qos, \.options.maximumQoS.rawValue),
            .boolean("no_local", \.options.noLocal),
            .boolean("retain_as_published", \.options.retainAsPublished),
            .integerOrNull("identifier") { $0.identifier == 0 ? nil : $0.identifier },
        ])

    static let queuedMessageResource = Resource<ShardRow<QueueRow>>(
        "QueuedMessage",
        [
            .integer("position", column: "NO.", help: "From the head of the queue.", \.row.position),
            .textOrNull("topic", help: "Null where only the store has the message.") {
                $0.row.topic.map { Administration.text($0) }
            },
            .integer("qos", as: .qos, \.row.qos.rawValue),
            .boolean("retain", \.row.retain),
            .integer(
                "bytes", as: .bytes, column: "SIZE", help: "Of topic, properties and payload; 0 once the client has the message.",
                \.row.byteCount),
            .integerOrNull("packet_id", as: .integer(1...65535), column: "ID", help: "Null for none yet.") {
                $0.row.packetIdentifier == 0 ? nil : $0.row.packetIdentifier
            },
            .integerOrNull("age_ms", as: .milliseconds, column: "AGE", \.row.ageMilliseconds),
            .timeOrNull("expires_at") { $0.time($0.row.expiresAt) },
            .text(
                "state", as: .choice(["waiting", "stored", "sent", "released"]),
                help: "stored: waiting, and only the store has it; released: of QoS 2, the client has it and PUBCOMP is awaited."
            ) { "\($0.row.state)" },
            .textIfAny("payload", help: "In Base64, only if asked for and in memory.") { $0.row.payload.map { Base64.encode($0) } },
        ])

    static let dropCountsResource = Resource<DropCounts>(
        "DropCounts", help: "Messages that did not get where they were going, by reason.",
        [.integer("total", \.total)] + DropReason.allCases.map { reason in .integer(reason.label) { $0[reason] } })
}
