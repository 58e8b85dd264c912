internal import BrokerModel
internal import Bytes
internal import HTTP
internal import JSON
internal import MQTTCodec

typealias JSONRow = JSONObject

/// Clients: sessions and the connections that they are on.
extension Administration {
    // MARK: Lists

    func listClients(_ call: Call) throws(APIError) {
        let selection = try selection(call)
        let fields = call.list("fields").map { Set($0) }
        askAll(call, .clients(selection), rowsMax: call.limit) { [self] (replies) throws(APIError) in
            var rows: [(row: ClientRow, shard: Int)] = []
            for (shard, reply) in replies.enumerated() {
                if case .clients(let page) = reply.rows { rows += page.map { ($0, shard) } }
            }
            rows.sort { $0.row.position.precedes($1.row.position, isDescending: selection.isDescending) }
            var (page, places) = (PageRows(call), [String]())
            for (row, shard) in rows {
                // For the node that puts the pages of all nodes together.
                let place = call.isForNode ? Self.cursor(of: place(of: row, selection.order)) : ""
                guard page.add(clientRow(row, shard: shard, fields: fields), with: place.utf8.count) else { break }
                places.append(place)
            }
            let hasMore = rows.count > page.count || replies.contains { $0.hasMore }
            let counts = replies.map(\.count)
            answer(
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
        guard let order = Self.orders.first(where: { $0.key == name })?.value else {
            throw .badRequest("sort is unknown.")
        }
        var after: ClientPosition?
        if let cursor = call.cursor {
            after = Self.position(cursor)
            if after == nil { throw .badRequest("cursor does not belong to this list.") }
            if call.isForNode, order == .connectedAt, let value = after?.value, value > 0 {
                after?.value = value - min(value, placeOffset)
            }
        }
        var selection = ClientSelection(order: order, isDescending: isDescending, after: after)
        if let text = call.text("q"), !text.isEmpty { selection.text = Array(text.utf8) }
        selection.prefix = try call.encoded("prefix")
        selection.userName = try call.encoded("username")
        selection.network = try network(call)
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

    func network(_ call: Call) throws(APIError) -> AddressRange? {
        guard let text = call.text("address") else { return nil }
        guard let range = AddressRange(text) else {
            throw .badRequest("address must be an IP address or a network such as 10.0.0.0/8.")
        }
        return range
    }

    private static let orders: KeyValuePairs<String, ClientOrder> = [
        "clientid": .clientIdentifier, "dropped": .drops, "queue_messages": .queuedMessages,
        "queue_bytes": .queuedBytes,
        "output_bytes": .outputBytes, "lag_ms": .lag, "received_rate": .receivedRate,
        "sent_rate": .sentRate,
        "subscriptions": .subscriptions, "connected_at": .connectedAt,
    ]
    static let sortNames = orders.map(\.key)

    /// Where a row stands among those of other nodes, which have clocks of their own.
    private func place(of row: ClientRow, _ order: ClientOrder?) -> ClientPosition {
        var position = row.position
        if order == .connectedAt, position.value > 0 { position.value &+= placeOffset }
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
            try collect(
                call, .subscriptions(of: client, matching: nil), shards: shard..<shard + 1, isRare: false,
                Self.subscriptionRows
            ) { [self] in
                answer(call, page: $0, cursor: $1)
            }
        }
    }

    func listQueue(_ call: Call) throws(APIError) {
        let client = try call.client()
        let withPayload = call.text("payload") == "1"
        if withPayload, !maySeePayloads(call.who) {
            throw APIError(.forbidden, "Payloads are not shown; see martlet_http_payloads.")
        }
        whenThere(client, call) { [self] () throws(APIError) in
            let shard = broker.shard(of: client)
            var behind = 0
            try collect(call, .queue(of: client, withPayload: withPayload), shards: shard..<shard + 1, isRare: false) {
                [self] reply in
                if case .queue(_, let count) = reply.rows { behind = count }
                return queueRows(reply)
            } _: { [self] rows, cursor in
                answer(call, page: rows, cursor: cursor) { $0.set("on_disk", behind) }
            }
        }
    }

    func listInFlight(_ call: Call) throws(APIError) {
        let client = try call.client()
        whenThere(client, call) { [self] () throws(APIError) in
            let shard = broker.shard(of: client)
            var received: [UInt16] = []
            try collect(call, .inFlight(of: client), shards: shard..<shard + 1, isRare: false) { [self] reply in
                if case .inFlight(_, let identifiers) = reply.rows { received = identifiers }
                return queueRows(reply)
            } _: { [self] rows, cursor in
                answer(call, page: rows, cursor: cursor) { $0.set("received", received) }
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
        ask(call, .client(client), of: broker.shard(of: client)) { (reply) throws(APIError) in
            guard case .client(let found) = reply.rows, let found else { throw .notFound("client") }
            try next(found)
        }
    }

    // MARK: One

    func getClient(_ call: Call) throws(APIError) {
        let client = try call.client()
        detail(of: client, call) { [self] (detail) throws(APIError) in
            var object = clientRow(detail.row, shard: broker.shard(of: client), fields: nil)
            object.set("will", orNull: detail.will.map { Self.will($0) })
            var limits = JSONObject()
            limits.set("receive_maximum", detail.inFlightMax)
            limits.set("maximum_packet_size", orNull: detail.packetBytesMax)
            object.set("limits", limits)
            object.set(
                "mount_point", orNull: detail.mountPoint.isEmpty ? nil : Self.text(detail.mountPoint))
            object.set("tls", orNull: detail.info?.encryption)
            object.set("certificate_subject", orNull: detail.info?.certificateSubject)
            call.answer(object)
        }
    }

    private static func will(_ will: ClientWillRow) -> JSONObject {
        var object = JSONObject()
        object.set("topic", "\(will.topic)")
        object.set("qos", will.qos.rawValue)
        object.set("retain", will.retain)
        object.set("delay_s", will.delayInterval)
        object.set("bytes", will.payloadBytes)
        return object
    }

    // MARK: Changes

    func disconnectClient(_ call: Call) throws(APIError) {
        let client = try call.client()
        order(
            call, .kick(client, publishesWill: call.boolean("will") ?? true), to: broker.shard(of: client)
        ) {
            (result) throws(APIError) in
            guard result == .done else { throw .notFound("connected client") }
            call.answer(HTTPResponse(.noContent))
        }
    }

    func endSession(_ call: Call) throws(APIError) {
        let client = try call.client()
        order(call, .endSession(client, publishesWill: true), to: broker.shard(of: client)) {
            (result) throws(APIError) in
            guard result == .done else { throw .notFound("client") }
            call.answer(HTTPResponse(.noContent))
        }
    }

    func purgeQueue(_ call: Call) throws(APIError) {
        let client = try call.client()
        let filter = try call.filter()
        order(call, .purgeQueue(of: client, matching: filter), to: broker.shard(of: client)) {
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
    private static func words(for shortfall: ShardOrderOutcome.Shortfall, after count: Int) -> String {
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

    /// A client as all lists have it; with `fields` only those members, and its identifier.
    private func clientRow(_ row: ClientRow, shard: Int, fields: Set<String>?) -> JSONObject {
        var object = ChosenMembers(fields)
        let connection = row.connection
        object.set("clientid") { $0.set($1, "\(row.clientIdentifier)") }
        object.set("username") { $0.set($1, orNull: row.userName?.description) }
        object.set("connected") { $0.set($1, connection != nil) }
        object.set("address") {
            $0.set($1, orNull: connection?.listener == nil ? nil : connection?.address)
        }
        object.set("port") { $0.set($1, orNull: connection?.listener == nil ? nil : connection?.port) }
        let listener = connection?.listener.flatMap { index in
            broker.listeners.indices.contains(index) ? broker.listeners[index] : nil
        }
        object.set("listener") { $0.set($1, orNull: listener?.name) }
        object.set("protocol") { $0.set($1, orNull: listener?.application.rawValue) }
        object.set("proto_ver") { $0.set($1, row.version.rawValue) }
        object.set("clean_start") { $0.set($1, orNull: connection?.cleanStart) }
        object.set("session_expiry_s") {
            $0.set($1, orNull: row.sessionExpirySeconds == .max ? nil : row.sessionExpirySeconds)
        }
        object.set("keepalive_s") { $0.set($1, orNull: connection?.keepAliveSeconds) }
        object.set("created_at") { $0.set($1, orNull: time(row.createdAt)) }
        object.set("connected_at") { $0.set($1, orNull: time(connection?.connectedAt)) }
        object.set("disconnected_at") { $0.set($1, orNull: time(row.disconnectedAt)) }
        object.set("node") { $0.set($1, broker.facts.node) }
        object.set("loop") { $0.set($1, shard) }
        object.set("bridge") { $0.set($1, connection?.isBridge ?? false) }
        object.set("subscriptions") { $0.set($1, row.subscriptionCount) }
        object.set("queue_messages") { $0.set($1, row.queuedMessages) }
        object.set("queue_bytes") { $0.set($1, row.queuedBytes) }
        object.set("inflight_out") { $0.set($1, row.inFlightMessages) }
        object.set("inflight_in") { $0.set($1, row.receivedMessages) }
        object.set("output_bytes") { $0.set($1, connection?.outputBytes ?? 0) }
        object.set("lag_ms") { $0.set($1, row.lagMilliseconds) }
        object.set("received_messages") { $0.set($1, connection?.traffic.receivedMessages ?? 0) }
        object.set("received_bytes") { $0.set($1, connection?.traffic.receivedBytes ?? 0) }
        object.set("sent_messages") { $0.set($1, connection?.traffic.sentMessages ?? 0) }
        object.set("sent_bytes") { $0.set($1, connection?.traffic.sentBytes ?? 0) }
        object.set("received_rate") { $0.set($1, connection?.rates.received ?? 0) }
        object.set("sent_rate") { $0.set($1, connection?.rates.sent ?? 0) }
        object.set("dropped") { $0.set($1, Self.dropped(row.drops)) }
        return object.object
    }

    static let clientFields = [
        "clientid", "username", "connected", "address", "port", "listener", "protocol", "proto_ver",
        "clean_start",
        "session_expiry_s",
        "keepalive_s", "created_at", "connected_at", "disconnected_at", "node", "loop", "bridge",
        "subscriptions", "queue_messages",
        "queue_bytes", "inflight_out", "inflight_in", "output_bytes", "lag_ms", "received_messages",
        "received_bytes",
        "sent_messages", "sent_bytes", "received_rate", "sent_rate", "dropped",
    ]

    private func queueRows(_ reply: ShardReply) -> [JSONRow] {
        let rows: [QueueRow]
        switch reply.rows {
        case .queue(let waiting, _): rows = waiting
        case .inFlight(let sent, _): rows = sent
        default: return []
        }
        return rows.map { row in
            var object = JSONObject()
            object.set("position", row.position)
            object.set("topic", orNull: row.topic.map { Self.text($0) })
            object.set("qos", row.qos.rawValue)
            object.set("retain", row.retain)
            object.set("bytes", row.byteCount)
            object.set("packet_id", orNull: row.packetIdentifier == 0 ? nil : row.packetIdentifier)
            object.set("age_ms", orNull: row.ageMilliseconds)
            object.set("expires_at", orNull: time(row.expiresAt))
            object.set("state", "\(row.state)")
            if let payload = row.payload { object.set("payload", Base64.encode(payload)) }
            return object
        }
    }

    static func subscriptionRows(_ reply: ShardReply) -> [JSONRow] {
        guard case .subscriptions(let rows) = reply.rows else { return [] }
        return rows.map { subscription($0) }
    }

    static func subscription(_ row: SubscriptionRow) -> JSONObject {
        var object = JSONObject()
        object.set("clientid", "\(row.clientIdentifier)")
        object.set("filter", text(row.filter))
        object.set("share", orNull: row.shareName?.description)
        object.set("qos", row.options.maximumQoS.rawValue)
        object.set("no_local", row.options.noLocal)
        object.set("retain_as_published", row.options.retainAsPublished)
        object.set("identifier", orNull: row.identifier == 0 ? nil : row.identifier)
        return object
    }

    static func dropped(_ drops: DropCounts) -> JSONObject {
        var object = JSONObject()
        object.set("total", drops.total)
        for reason in DropReason.allCases { object.set(reason.label, drops[reason]) }
        return object
    }

    /// A time of the shards' clock.
    func time(_ milliseconds: UInt64?) -> String? {
        milliseconds.map { Timestamp.text($0 &+ broker.wallClockOffset) }
    }

    static func text(_ bytes: some Collection<UInt8>) -> String {
        String(decoding: Array(bytes), as: UTF8.self)
    }
}

extension DropReason {
    /// What answers and labels call it.
    var label: String { String(words.map { $0 == " " ? "_" : $0 }) }
}

/// An object with only the members that were asked for.
private struct ChosenMembers {
    private(set) var object = JSONObject()
    private let names: Set<String>?

    init(_ names: Set<String>?) { self.names = names }

    mutating func set(_ name: String, _ write: (inout JSONObject, String) -> Void) {
        if names?.contains(name) ?? true || name == "clientid" { write(&object, name) }
    }
}
