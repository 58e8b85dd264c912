internal import BrokerModel
internal import Bytes
internal import HTTP
internal import JSON
internal import MQTTCodec

/// Subscriptions, topics and retained messages.
extension Administration {
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
        try collect(
            call, .subscriptions(of: client, matching: topic), shards: shards,
            isRare: wanted != nil || share != nil,
            { reply in
                guard case .subscriptions(let rows) = reply.rows else { return [] }
                return rows.filter { row in
                    if let wanted, row.filter != wanted.filter || row.shareName != wanted.share {
                        return false
                    }
                    return share.map { row.shareName?.description == $0 } ?? true
                }.map { Self.subscription($0) }
            }, { [self] in answer(call, page: $0, cursor: $1) })
    }

    func getTopicTree(_ call: Call) throws(APIError) {
        let under = call.text("under").flatMap { $0.isEmpty ? nil : Array($0.utf8) }
        var after: [UInt8]?
        if let cursor = call.cursor {
            after = Base64URL.decode(cursor)
            if after == nil { throw .badRequest("cursor does not belong to this list.") }
        }
        askAll(call, .topicTree(under: under, after: after), rowsMax: call.limit) { [self] (replies) throws(APIError) in
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
            page.fill(sorted) { Self.level($0, under: under) }
            let hasMore = sorted.count > page.count || replies.contains { $0.hasMore }
            answer(
                call, page: page.rows,
                cursor: hasMore ? sorted.prefix(page.count).last.map { Base64URL.encode($0.name) } : nil)
        }
    }

    private static func level(_ row: TopicLevelRow, under: [UInt8]?) -> JSONObject {
        var object = JSONObject()
        object.set("name", text(row.name))
        object.set("topic", text((under.map { $0 + [UInt8(ascii: "/")] } ?? []) + row.name))
        object.set("subscriptions", row.subscriptions)
        object.set("retained", row.retainedMessages)
        object.set("children", row.hasMoreLevels)
        return object
    }

    // MARK: Retained messages

    func listRetained(_ call: Call) throws(APIError) {
        let filter = try call.filter() ?? "#"
        guard !filter.isShared else { throw .badRequest("filter must not be a shared subscription.") }
        try collect(call, .retained(filter), shards: 0..<broker.shardCount, isRare: false, retainedRows) { [self] in
            answer(call, page: $0, cursor: $1)
        }
    }

    private func retainedRows(_ reply: ShardReply) -> [JSONRow] {
        guard case .retained(let rows) = reply.rows else { return [] }
        return rows.map { row in
            var object = JSONObject()
            object.set("topic", Self.text(row.topic))
            object.set("qos", row.qos.rawValue)
            object.set("bytes", row.payloadBytes)
            object.set("expires_at", orNull: time(row.expiresAt))
            object.set("publisher", orNull: row.publisher?.description)
            return object
        }
    }

    func getRetainedMessage(_ call: Call) throws(APIError) {
        guard let topic = try call.topic("topic") else { throw .badRequest("topic is missing.") }
        let isShown = maySeePayloads(call.who)
        ask(call, .retainedMessage(topic), of: broker.shard(of: topic)) { (reply) throws(APIError) in
            guard case .retainedMessage(let found) = reply.rows, let found else {
                throw .notFound("retained message")
            }
            var object = JSONObject()
            object.set("topic", Self.text(found.row.topic))
            object.set("qos", found.row.qos.rawValue)
            object.set("bytes", found.row.payloadBytes)
            object.set("payload", orNull: isShown ? Base64.encode(found.packet.payload) : nil)
            object.set("properties", Self.properties(found.packet.properties))
            call.answer(object)
        }
    }

    private static func properties(_ properties: Properties) -> JSONObject {
        var object = JSONObject()
        if let format = properties.payloadFormatIndicator {
            object.set("payload_format_indicator", format)
        }
        if let seconds = properties.messageExpiryInterval {
            object.set("message_expiry_interval", seconds)
        }
        if let topic = properties.responseTopic { object.set("response_topic", "\(topic)") }
        if let data = properties.correlationData { object.set("correlation_data", Base64.encode(data)) }
        if let type = properties.contentType { object.set("content_type", "\(type)") }
        if !properties.userProperties.isEmpty {
            object.set(
                "user_properties",
                properties.userProperties.map { property in
                    var pair = JSONObject()
                    pair.set("name", "\(property.name)")
                    pair.set("value", "\(property.value)")
                    return pair
                })
        }
        return object
    }

    func deleteRetained(_ call: Call) throws(APIError) {
        guard let filter = try call.filter(), !filter.isShared else {
            throw .badRequest("filter is not a topic filter.")
        }
        call.target = "\(filter)"
        var (missing, removed, hasFailed) = (broker.shardCount, 0, false)
        for shard in 0..<broker.shardCount {
            broker.order(
                ShardOrder(.deleteRetained(filter, isRehearsal: call.boolean("dry_run") ?? false)),
                to: shard
            ) { outcome in
                if case .removed(let count)? = outcome?.result {
                    removed += count
                } else {
                    hasFailed = true
                }
                missing -= 1
                guard missing == 0 else { return }
                if hasFailed { call.fail(.unavailable) } else { call.answer(Self.removed(removed)) }
            }
        }
    }

    // MARK: Publishing

    func publish(_ call: Call) throws(APIError) {
        let body = try call.body("topic", "payload", "payload_encoding", "qos", "retain", "properties")
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
        order(call, .publish(packet), to: broker.shard(of: topic)) { (result) throws(APIError) in
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
        selection.network = try network(call)
        selection.wasAdmitted = call.boolean("refused").map { !$0 }
        if let cursor = call.cursor {
            selection.before = Self.closedPosition(cursor)
            if selection.before == nil { throw .badRequest("cursor does not belong to this list.") }
        }
        askAll(call, .closedConnections(selection), rowsMax: call.limit) {
            [self] (replies) throws(APIError) in
            var rows: [ClosedConnectionRow] = []
            for reply in replies { if case .closedConnections(let page) = reply.rows { rows += page } }
            rows.sort { $0.position > $1.position }
            var page = PageRows(call)
            page.fill(rows) { closedConnection($0) }
            let hasMore = rows.count > page.count || replies.contains { $0.hasMore }
            let cursor = rows.prefix(page.count).last.map {
                Base64URL.encode(Array("\($0.position.at) \($0.position.number)".utf8))
            }
            answer(call, page: page.rows, cursor: hasMore ? cursor : nil)
        }
    }

    private static func closedPosition(_ cursor: String) -> ClosedPosition? {
        guard let bytes = Base64URL.decode(cursor) else { return nil }
        let numbers = String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap {
            UInt64($0)
        }
        return numbers.count == 2 ? ClosedPosition(at: numbers[0], number: numbers[1]) : nil
    }

    private func closedConnection(_ row: ClosedConnectionRow) -> JSONObject {
        var object = JSONObject()
        object.set("clientid", orNull: row.clientIdentifier?.description)
        object.set("username", orNull: row.userName?.description)
        object.set("address", row.address)
        object.set("port", row.port)
        object.set("listener", orNull: listenerName(row.listener))
        object.set("from", Timestamp.text(row.from &+ broker.wallClockOffset))
        object.set("to", Timestamp.text(row.position.at &+ broker.wallClockOffset))
        object.set("reason_code", orNull: row.reason?.rawValue)
        object.set("reason", row.words)
        object.set("refused", !row.wasAdmitted)
        object.set("by_client", row.isByClient)
        object.set("received_messages", row.traffic.receivedMessages)
        object.set("received_bytes", row.traffic.receivedBytes)
        object.set("sent_messages", row.traffic.sentMessages)
        object.set("sent_bytes", row.traffic.sentBytes)
        return object
    }

    func listenerName(_ index: Int) -> String? {
        let listeners = broker.listeners
        return listeners.indices.contains(index) ? listeners[index].name : nil
    }

    func listDrops(_ call: Call) throws(APIError) {
        askAll(call, .drops, rowsMax: call.limit) { [self] (replies) throws(APIError) in
            let reports = replies.compactMap {
                if case .drops(let report) = $0.rows { report } else { nil }
            }
            var page = PageRows(call)
            page.fill(reports.flatMap(\.last).sorted { $0.at > $1.at }) { drop($0) }
            answer(call, page: page.rows, cursor: nil) { [self] object in
                object.set("by_prefix", Self.byPrefix(reports))
                object.set("by_listener", byListener(reports))
            }
        }
    }

    private func drop(_ row: DropRow) -> JSONObject {
        var object = JSONObject()
        object.set("at", Timestamp.text(row.at &+ broker.wallClockOffset))
        object.set("clientid", orNull: row.clientIdentifier?.description)
        object.set("topic", Self.text(row.topic))
        object.set("reason", row.reason.label)
        object.set("qos", row.qos.rawValue)
        object.set("bytes", row.byteCount)
        return object
    }

    private static func byPrefix(_ reports: [DropReport]) -> [JSONObject] {
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
        var rows = sorted.map { prefixRow(text($0.key), $0.value) }
        if others.total > 0 { rows.append(prefixRow(nil, others)) }
        return rows
    }

    private static func prefixRow(_ prefix: String?, _ drops: DropCounts) -> JSONObject {
        var object = JSONObject()
        object.set("prefix", orNull: prefix)
        object.set("dropped", dropped(drops))
        return object
    }

    private func byListener(_ reports: [DropReport]) -> [JSONObject] {
        dropsByListener(reports).map { name, drops in
            var object = JSONObject()
            object.set("listener", name)
            object.set("dropped", Self.dropped(drops))
            return object
        }
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
