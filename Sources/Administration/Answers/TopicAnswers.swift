internal import BrokerModel
internal import Bytes
internal import HTTP
internal import JSON
internal import MQTTCodec

/// Subscriptions, topics and retained messages.
struct TopicAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    // MARK: Subscriptions

    func listSubscriptions(_ call: Call) throws(APIError) {
        let (client, topic, filter) = (
            try call.encoded("clientid"), try call.topic("matches"), try call.filter()
        )
        let share = call.text("share")
        let shards =
            client.map { [broker] in broker.shard(of: $0)..<broker.shard(of: $0) + 1 }
            ?? 0..<broker.shardCount
        let wanted = filter.map { (filter: Array($0.matchingBytes), share: $0.shareName) }
        try administration.collect(
            call, .subscriptions(of: client, matching: topic), shards: shards,
            isRare: wanted != nil || share != nil,
            { reply in
                guard case .subscriptions(let rows) = reply.rows else { return [] }
                return rows.filter { row in
                    if let wanted, row.filter != wanted.filter || row.shareName != wanted.share {
                        return false
                    }
                    return share.map { row.shareName?.description == $0 } ?? true
                }.map { ClientAnswers.subscriptionResource.json($0) }
            }, { [self] in administration.answer(call, page: $0, cursor: $1) })
    }

    func getTopicTree(_ call: Call) throws(APIError) {
        let under = call.text("under").flatMap { $0.isEmpty ? nil : Array($0.utf8) }
        var after: [UInt8]?
        if let cursor = call.cursor {
            after = Base64URL.decode(cursor)
            if after == nil { throw .badRequest("cursor does not belong to this list.") }
        }
        administration.askAll(call, .topicTree(under: under, after: after), rowsMax: call.limit) {
            [self] (replies) throws(APIError) in
            var levels: [[UInt8]: TopicLevelRow] = [:]
            /// The last names of those replies behind which their shards have more.
            var ends: [[UInt8]] = []
            for reply in replies {
                guard case .topicTree(let rows) = reply.rows else { continue }
                if reply.hasMore, let last = rows.last { ends.append(last.name) }
                for row in rows {
                    guard var sum = levels[row.name] else {
                        levels[row.name] = row
                        continue
                    }
                    sum.subscriptions += row.subscriptions
                    sum.retainedMessages += row.retainedMessages
                    sum.hasMoreLevels = sum.hasMoreLevels || row.hasMoreLevels
                    levels[row.name] = sum
                }
            }
            // A shard may have more in front of what the others tell behind its last one.
            let sorted = levels.values.sorted { $0.name.lexicographicallyPrecedes($1.name) }.prefix { row in
                ends.allSatisfy { !$0.lexicographicallyPrecedes(row.name) }
            }
            var page = PageRows(call)
            page.fill(sorted) { Self.topicLevelResource.json(ListedTopicLevel(row: $0, under: under)) }
            let hasMore = sorted.count > page.count || replies.contains { $0.hasMore }
            administration.answer(
                call, page: page.rows,
                cursor: hasMore ? sorted.prefix(page.count).last.map { Base64URL.encode($0.name) } : nil)
        }
    }

    // MARK: Retained messages

    func listRetained(_ call: Call) throws(APIError) {
        let filter = try call.filter() ?? "#"
        guard !filter.isShared else { throw .badRequest("filter must not be a shared subscription.") }
        try administration.collect(call, .retained(filter), shards: 0..<broker.shardCount, isRare: false, retainedRows) { [self] in
            administration.answer(call, page: $0, cursor: $1)
        }
    }

    private func retainedRows(_ reply: ShardReply) -> [JSONRow] {
        guard case .retained(let rows) = reply.rows else { return [] }
        let offset = broker.wallClockOffset
        return rows.map { Self.retainedResource.json(ShardRow($0, clockOffset: offset)) }
    }

    func getRetainedMessage(_ call: Call) throws(APIError) {
        guard let topic = try call.topic("topic") else { throw .badRequest("topic is missing.") }
        let isShown = administration.maySeePayloads(call.who)
        administration.ask(call, .retainedMessage(topic), of: broker.shard(of: topic)) { (reply) throws(APIError) in
            guard case .retainedMessage(let found) = reply.rows, let found else {
                throw .notFound("retained message")
            }
            call.answer(Self.retainedContentResource.json(ShownContent(content: found, isShown: isShown)))
        }
    }

    func deleteRetained(_ call: Call) throws(APIError) {
        guard let filter = try call.filter(), !filter.isShared else {
            throw .badRequest("filter is not a topic filter.")
        }
        call.target = "\(filter)"
        var (missing, removed, hasFailed) = (broker.shardCount, 0, false)
        for shard in 0..<broker.shardCount {
            broker.perform(
                ShardCommand(.deleteRetained(filter, isRehearsal: call.boolean("dry_run") ?? false)),
                to: shard
            ) { outcome in
                if case .removed(let count)? = outcome?.result {
                    removed += count
                } else {
                    hasFailed = true
                }
                missing -= 1
                guard missing == 0 else { return }
                if hasFailed { call.fail(.unavailable) } else { call.answer(ClientAnswers.removed(removed)) }
            }
        }
    }

    // MARK: Publishing

    func publish(_ call: Call) throws(APIError) {
        let body = try call.body()
        let topicText = try body.required("topic")
        guard let topic = TopicName(topicText),
            topic.bytes.first != UInt8(ascii: "$") || !(topicText.hasPrefix("$SYS/") || topicText.hasPrefix("$CONTROL/"))
        else {
            throw .badRequest("topic is not a topic name that can be published to.")
        }
        call.target = topicText
        let text = try body.text("payload") ?? ""
        let encoding = try body.choice("payload_encoding", ["plain", "base64"]) ?? "plain"
        guard let payload = encoding == "plain" ? Array(text.utf8) : Base64.decode(text) else {
            throw .badRequest("payload is not valid Base64.")
        }
        guard let qos = QoS(rawValue: UInt8(try body.integer("qos", 0...2) ?? 0)) else {
            throw .badRequest("qos must be 0, 1 or 2.")
        }
        let packet = PublishPacket(
            topic: topic.text, qos: qos, retain: try body.boolean("retain") ?? false,
            properties: try Self.properties(body), payload: payload)
        administration.perform(call, .publish(packet), to: broker.shard(of: topic)) { (result) throws(APIError) in
            guard case .published(let reason, let receivers) = result else { throw .unavailable }
            guard reason.rawValue < 0x80 else { throw Self.refusal(reason) }
            var object = JSONObject()
            object.set("reason_code", reason.rawValue)
            object.set("matched", orNull: receivers)
            call.answer(object, status: reason == .success ? .ok : .accepted)
        }
    }

    private static func refusal(_ reason: ReasonCode) -> APIError {
        switch reason {
        case .packetTooLarge: APIError(.contentTooLarge, "The message is larger than the broker accepts.")
        case .quotaExceeded: .unavailable
        default: .badRequest("The broker refuses the message: reason code \(reason.rawValue).")
        }
    }

    private static func properties(_ body: RequestBody) throws(APIError) -> Properties {
        let names = [
            "payload_format_indicator", "message_expiry_interval", "response_topic", "correlation_data",
            "content_type",
            "user_properties",
        ]
        var properties = Properties()
        guard let given = try body.object("properties", names) else { return properties }
        properties.payloadFormatIndicator = try given.integer("payload_format_indicator", 0...1).map {
            UInt8($0)
        }
        properties.messageExpiryInterval = try given.integer(
            "message_expiry_interval", 0...Int(UInt32.max)
        ).map { UInt32($0) }
        properties.contentType = try given.encoded("content_type")
        if let topic = try given.encoded("response_topic") {
            guard TopicName(topic.bytes) != nil else {
                throw .badRequest("response_topic is not a topic name.")
            }
            properties.responseTopic = topic
        }
        if let text = try given.text("correlation_data") {
            guard let data = Base64.decode(text), data.count <= 65_535 else {
                throw .badRequest("correlation_data is not valid Base64.")
            }
            properties.correlationData = data
        }
        let pairs = try given.objects("user_properties", ["name", "value"])
        guard pairs.count <= 64 else { throw .badRequest("There are more than 64 user_properties.") }
        for pair in pairs {
            guard let name = try pair.encoded("name"), let value = try pair.encoded("value") else {
                throw .badRequest("A user property needs a name and a value.")
            }
            properties.userProperties.append(UserProperty(name: name, value: value))
        }
        return properties
    }

    // MARK: What is over

    func listClosedConnections(_ call: Call) throws(APIError) {
        var selection = ClosedSelection()
        selection.clientIdentifier = try call.encoded("clientid")
        selection.network = try call.network()
        selection.wasAdmitted = call.boolean("refused").map { !$0 }
        if let cursor = call.cursor {
            selection.before = Self.closedPosition(cursor)
            if selection.before == nil { throw .badRequest("cursor does not belong to this list.") }
        }
        administration.askAll(call, .closedConnections(selection), rowsMax: call.limit) {
            [self] (replies) throws(APIError) in
            var rows: [ClosedConnectionRow] = []
            for reply in replies { if case .closedConnections(let page) = reply.rows { rows += page } }
            rows.sort { $0.position > $1.position }
            var page = PageRows(call)
            let (listeners, offset) = (broker.listeners.map(\.name), broker.wallClockOffset)
            page.fill(rows) { row in
                let name = listeners.indices.contains(row.listener) ? listeners[row.listener] : nil
                return Self.closedConnectionResource.json(
                    ListedClosedConnection(closed: ShardRow(row, clockOffset: offset), listener: name))
            }
            let hasMore = rows.count > page.count || replies.contains { $0.hasMore }
            let cursor = rows.prefix(page.count).last.map {
                Base64URL.encode(Array("\($0.position.at) \($0.position.number)".utf8))
            }
            administration.answer(call, page: page.rows, cursor: hasMore ? cursor : nil)
        }
    }

    private static func closedPosition(_ cursor: String) -> ClosedPosition? {
        guard let bytes = Base64URL.decode(cursor) else { return nil }
        let numbers = String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap {
            UInt64($0)
        }
        return numbers.count == 2 ? ClosedPosition(at: numbers[0], number: numbers[1]) : nil
    }

    func listDrops(_ call: Call) throws(APIError) {
        administration.askAll(call, .drops, rowsMax: call.limit) { [self] (replies) throws(APIError) in
            let reports = replies.compactMap {
                if case .drops(let report) = $0.rows { report } else { nil }
            }
            var page = PageRows(call)
            let offset = broker.wallClockOffset
            page.fill(reports.flatMap(\.last).sorted { $0.at > $1.at }) {
                Self.dropResource.json(ShardRow($0, clockOffset: offset))
            }
            administration.answer(call, page: page.rows, cursor: nil) { [self] object in
                object.set("by_prefix", Self.byPrefix(reports).map { Self.prefixDropsResource.json($0) })
                object.set("by_listener", dropsByListener(reports).map { Self.listenerDropsResource.json($0) })
            }
        }
    }

    private static func byPrefix(_ reports: [DropReport]) -> [(name: String?, drops: DropCounts)] {
        var sums: [[UInt8]: DropCounts] = [:]
        var others = DropCounts()
        for report in reports {
            for (prefix, drops) in report.byPrefix { sums[prefix, default: DropCounts()].add(drops) }
            others.add(report.ofOtherPrefixes)
        }
        let sorted = sums.sorted { left, right in
            left.value.total != right.value.total
                ? left.value.total > right.value.total : left.key.lexicographicallyPrecedes(right.key)
        }
        var rows = sorted.map { (name: Administration.text($0.key) as String?, drops: $0.value) }
        if others.total > 0 { rows.append((nil, others)) }
        return rows
    }

    /// What was dropped for the clients of each listener that has lost anything.
    func dropsByListener(_ reports: [DropReport]) -> [(name: String, drops: DropCounts)] {
        var sums: [(name: String, drops: DropCounts)] = []
        for (index, listener) in broker.listeners.enumerated() {
            var sum = DropCounts()
            for report in reports where report.byListener.indices.contains(index) {
                sum.add(report.byListener[index])
            }
            guard sum.total > 0 else { continue }
            // A reload may have closed one and opened another of its name.
            if let known = sums.firstIndex(where: { $0.name == listener.name }) {
                sums[known].drops.add(sum)
            } else {
                sums.append((listener.name, sum))
            }
        }
        return sums
    }
}

// MARK: - What answers say of them

/// A level of topics, below a topic or at the top.
struct ListedTopicLevel {
    let row: TopicLevelRow
    let under: [UInt8]?
}

/// A retained message, for somebody who may see its payload, or may not.
struct ShownContent {
    let content: RetainedContent
    let isShown: Bool
}

/// A connection that has ended, with the name of its listener.
struct ListedClosedConnection {
    let closed: ShardRow<ClosedConnectionRow>
    let listener: String?

    var row: ClosedConnectionRow { closed.row }
}

extension TopicAnswers {
    static let topicLevelResource = Resource<ListedTopicLevel>(
        "TopicLevel",
        [
            .text("name", help: "The level itself; may be empty.") { Administration.text($0.row.name) },
            .text("topic", help: "The whole topic or filter down to this level.") {
                Administration.text(($0.under.map { $0 + [UInt8(ascii: "/")] } ?? []) + $0.row.name)
            },
            .integer("subscriptions", help: "With a filter that ends here or below.", \.row.subscriptions),
            .integer("retained", help: "Retained messages here or below.", \.row.retainedMessages),
            .boolean("children", \.row.hasMoreLevels),
        ])

    static let retainedResource = Resource<ShardRow<RetainedRow>>(
        "RetainedMessage",
        [
            .text("topic") { Administration.text($0.row.topic) },
            .integer("qos", as: .qos, \.row.qos.rawValue),
            .integer("bytes", as: .bytes, column: "SIZE", \.row.payloadBytes),
            .timeOrNull("expires_at", column: "EXPIRES (UTC)") { $0.time($0.row.expiresAt) },
            .textOrNull("publisher", help: "The client that published it, where that is known.") { $0.row.publisher?.description },
        ])

    static let retainedContentResource = Resource<ShownContent>(
        "RetainedContent",
        [
            .text("topic") { Administration.text($0.content.row.topic) },
            .integer("qos", as: .qos, \.content.row.qos.rawValue),
            .integer("bytes", as: .bytes, \.content.row.payloadBytes),
            .textOrNull("payload", help: "Base64; null without the right to see payloads.") {
                $0.isShown ? Base64.encode($0.content.packet.payload) : nil
            },
            .object("properties", as: .named("Properties")) { propertiesResource.json($0.content.packet.properties) },
        ])

    /// Their description is `Schema.properties`: a message that is published has them too.
    private static let propertiesResource = Resource<Properties>(
        "Properties",
        [
            .integerIfAny("payload_format_indicator", \.payloadFormatIndicator),
            .integerIfAny("message_expiry_interval", as: .seconds, \.messageExpiryInterval),
            .textIfAny("response_topic") { $0.responseTopic?.description },
            .textIfAny("correlation_data") { $0.correlationData.map { Base64.encode($0) } },
            .textIfAny("content_type") { $0.contentType?.description },
            .objectsIfAny("user_properties", as: userPropertyResource, \.userProperties),
        ])

    private static let userPropertyResource = Resource<UserProperty>(
        nil, [.text("name") { "\($0.name)" }, .text("value") { "\($0.value)" }])

    static let closedConnectionResource = Resource<ListedClosedConnection>(
        "ClosedConnection",
        [
            .textOrNull("clientid", column: "CLIENT") { $0.row.clientIdentifier?.description },
            .textOrNull("username", column: "USER") { $0.row.userName?.description },
            .text("address", \.row.address),
            .integer("port", \.row.port),
            .textOrNull("listener", \.listener),
            .time("from") { $0.row.from &+ $0.closed.clockOffset },
            .time("to", column: "AT (UTC)") { $0.row.position.at &+ $0.closed.clockOffset },
            .integerOrNull(
                "reason_code", help: "Of DISCONNECT or CONNACK; null where the network connection ended without one."
            ) { $0.row.reason?.rawValue },
            .text("reason", \.row.words),
            .boolean("refused", help: "Whether it was refused.") { !$0.row.wasAdmitted },
            .boolean("by_client", \.row.isByClient),
        ] + closedTraffic)

    private static let closedTraffic: [Field<ListedClosedConnection>] = [
        .integer("received_messages", \.row.traffic.receivedMessages),
        .integer("received_bytes", as: .bytes, \.row.traffic.receivedBytes),
        .integer("sent_messages", \.row.traffic.sentMessages),
        .integer("sent_bytes", as: .bytes, \.row.traffic.sentBytes),
    ]

    static let dropResource = Resource<ShardRow<DropRow>>(
        "Drop",
        [
            .time("at", column: "AT (UTC)") { $0.row.at &+ $0.clockOffset },
            .textOrNull(
                "clientid", column: "CLIENT",
                help: "The client that it concerns: the receiver, or the publisher where there was no receiver."
            ) { $0.row.clientIdentifier?.description },
            .text("topic") { Administration.text($0.row.topic) },
            .text("reason", as: .choice(DropReason.allCases.map(\.label)), \.row.reason.label),
            .integer("qos", as: .qos, \.row.qos.rawValue),
            .integer("bytes", as: .bytes, column: "SIZE", help: "Of topic, properties and payload.", \.row.byteCount),
        ])

    static let prefixDropsResource = Resource<(name: String?, drops: DropCounts)>(
        nil, [.textOrNull("prefix", \.name), .object("dropped", as: ClientAnswers.dropCountsResource, \.drops)])

    static let listenerDropsResource = Resource<(name: String, drops: DropCounts)>(
        nil, [.text("listener", \.name), .object("dropped", as: ClientAnswers.dropCountsResource, \.drops)])
}
