public import BrokerModel
package import MQTTCodec

/// Answers about what the shard holds.
struct Queries {
    let shard: BrokerShard

    fileprivate func askForLog(_ subject: ShardQuery.Subject, from cursor: ShardCursor? = nil) {
        _ = shard.inspection.queries.add(ShardQuery(subject, cursor: cursor, rowsMax: Limits.rowsLoggedPerTurn), for: .log)
    }

    /// Goes on with the questions, each in its turn: at most one page each, and a bounded number of steps for all of
    /// them together.
    func stepQueries() {
        var steps = Limits.queryStepsPerTurn
        for _ in 0..<shard.inspection.queries.open.count where steps > 0 {
            var query = shard.inspection.queries.takeFirst()
            let before = steps
            let isAtEnd = look(for: &query, &steps)
            shard.inspection.queries.stepCount += before - steps
            guard isAtEnd || query.isFull else {
                shard.inspection.queries.putBack(query)
                continue
            }
            let reply = reply(to: query, isAtEnd: isAtEnd)
            switch query.asker {
            case .shell: shard.effects.append(.reply(reply))
            case .log: log(reply)
            }
        }
    }

    private func reply(to query: QueryScheduler.OpenQuery, isAtEnd: Bool) -> ShardReply {
        func reply(_ rows: ShardReply.Rows, hasMore: Bool? = nil) -> ShardReply {
            let next = isAtEnd || hasMore != nil ? nil : query.cursor
            return ShardReply(
                token: query.query.token, rows: rows, next: next, hasMore: hasMore ?? !isAtEnd, count: query.count, at: shard.now)
        }
        switch query.query.subject {
        case .clients: return reply(.clients(query.rows.clients), hasMore: query.hasMore)
        case .client(let name): return reply(.client(shard.sessions.find(name).map { ClientDetail($0, at: shard.now) }))
        case .queue(let name, _): return reply(.queue(query.rows.queue, behind: shard.sessions.find(name)?.queue.pagedCount ?? 0))
        case .inFlight(let name):
            var received: [UInt16] = []
            shard.sessions.find(name)?.receivedIdentifiers.forEach { received.append($0) }
            return reply(.inFlight(query.rows.queue, received: received.sorted()))
        case .subscriptions: return reply(.subscriptions(query.rows.subscriptions))
        case .topicTree:
            let (rows, hasMore) = query.levels?.first(query.query.rowsMax) ?? ([], false)
            return reply(.topicTree(rows), hasMore: hasMore)
        case .retained: return reply(.retained(query.rows.retained))
        case .retainedMessage(let topic): return reply(.retainedMessage(retainedContent(of: topic)))
        case .closedConnections(var selection):
            selection.clientIdentifier = selection.clientIdentifier?.cut(by: shard.placement.hashing)
            let (rows, hasMore) = shard.inspection.closedConnections.rows(selection, max: query.query.rowsMax)
            return reply(.closedConnections(rows), hasMore: hasMore)
        case .drops: return reply(.drops(shard.inspection.dropLog.report()))
        case .topicMeters: return reply(.topicMeters(shard.topicMetrics.observed?.meters ?? []))
        }
    }

    /// Looks at the slots that come next, until the page is full, the steps are used up or nothing is left.
    ///
    /// - Returns: whether nothing is left.
    private func look(for query: inout QueryScheduler.OpenQuery, _ steps: inout Int) -> Bool {
        switch query.query.subject {
        case .clients(let selection): return lookAtClients(selection, &query, &steps)
        case .queue(let client, let withPayload):
            return lookAtQueue(of: client, isInFlightOnly: false, withPayload: withPayload, &query, &steps)
        case .inFlight(let client): return lookAtQueue(of: client, isInFlightOnly: true, withPayload: false, &query, &steps)
        case .subscriptions(let client, let topic): return lookAtSubscriptions(of: client, matching: topic, &query, &steps)
        case .topicTree: return lookAtTopics(&query, &steps)
        case .retained(let filter):
            guard let pattern = shard.retained.pattern(of: filter.matchingBytes) else { return true }
            return visit(UInt32(shard.retained.nodes.end), &query, &steps) { place, query, _ in
                guard let message = shard.retained.message(of: place), !message.hasExpired(at: shard.now),
                    shard.retained.matches(place, pattern)
                else {
                    return true
                }
                let row = RetainedRow(message)
                query.rows.retained.append(row)
                query.rows.textBytes += row.topic.count + (row.publisher?.count ?? 0)
                return true
            }
        case .client, .retainedMessage, .drops, .topicMeters: return true
        case .closedConnections:
            // All of them are looked through when the page is made.
            steps = max(0, steps - shard.inspection.closedConnections.count)
            return true
        }
    }

    private func lookAtSubscriptions(
        of client: EncodedString?, matching topic: TopicName?, _ query: inout QueryScheduler.OpenQuery, _ steps: inout Int
    ) -> Bool {
        // A client that is not here has none.
        let session = client.flatMap { shard.sessions.find($0) }
        if client != nil, session == nil { return true }
        let levels = topic.map { shard.tree.levelNumbers(of: $0.bytes) }
        return visit(shard.tree.recordLimit, &query, &steps) { place, query, steps in
            guard let (subscriber, terms) = shard.tree.holder(at: place), levels.map({ shard.tree.matches(place, $0) }) ?? true
            else {
                return true
            }
            return addSubscriptions(at: place, subscriber, terms, of: session, to: &query, &steps)
        }
    }

    /// - Parameter body: looks at a slot; false if it has to be looked at again, because the page is full before all
    ///   of it is told.
    func visit(
        _ end: UInt32, _ query: inout QueryScheduler.OpenQuery, _ steps: inout Int,
        _ body: (UInt32, inout QueryScheduler.OpenQuery, inout Int) -> Bool
    ) -> Bool {
        while query.cursor.index < end, steps > 0, !query.isFull {
            steps -= 1
            if body(query.cursor.index, &query, &steps) { query.cursor = ShardCursor(index: query.cursor.index + 1) }
        }
        return query.cursor.index >= end
    }

    /// Adds the subscription in a slot of the tree, of one session or all; of a share group's the members that live
    /// here, in the order of their sessions. All members of a group are steps of one turn.
    private func addSubscriptions(
        at place: UInt32, _ subscriber: Subscriber, _ terms: SubscriptionTerms, of owner: Session?,
        to query: inout QueryScheduler.OpenQuery, _ steps: inout Int
    ) -> Bool {
        if subscriber.isSession {
            guard owner == nil || owner?.index == subscriber.index else { return true }
            guard let session = shard.sessions.subscriber(subscriber.index) else { return true }
            let filter = shard.tree.filter(of: place)
            session.with {
                query.rows.textBytes += filter.count + $0.clientIdentifier.count
                query.rows.subscriptions.append(SubscriptionRow($0, filter, shareName: nil, terms))
            }
        } else if subscriber.isGroup, let group = shard.groups[subscriber.index] {
            if let owner {
                if let member = group.member(owner.key) { add(member, owner, of: group, to: &query) }
                return true
            }
            steps = max(0, steps - group.members.count)
            let told = query.cursor.member
            let here = group.members.filter { $0.shard == shard.index && $0.sessionKey > told }.sorted {
                $0.sessionKey < $1.sessionKey
            }
            for member in here {
                guard !query.isFull else { return false }
                if let session = shard.sessions.find(index: member.sessionIndex, key: member.sessionKey) {
                    add(member, session, of: group, to: &query)
                }
                query.cursor.member = member.sessionKey
            }
        }
        return true
    }

    private func add(
        _ member: GroupMember, _ session: Session, of group: ShareGroup, to query: inout QueryScheduler.OpenQuery
    ) {
        query.rows.textBytes += group.name.filter.count + session.clientIdentifier.count
        query.rows.subscriptions.append(
            SubscriptionRow(session, group.name.filter, shareName: group.name.shareName, member.terms))
    }

    // MARK: The log

    /// Writes a page to the log and asks for the next one: behind the subscriptions come the clients that have lost
    /// messages.
    private func log(_ reply: ShardReply) {
        switch reply.rows {
        case .subscriptions(let rows):
            for row in rows { logSubscription(row) }
            if let next = reply.next {
                askForLog(.subscriptions(of: nil, matching: nil), from: next)
            } else {
                askForLog(.clients())
            }
        case .clients(let rows):
            for row in rows { shard.drops.logDrops(row.drops, of: row.clientIdentifier) }
            if let next = reply.next { askForLog(.clients(), from: next) }
        case .client, .queue, .inFlight, .topicTree, .retained, .retainedMessage, .closedConnections, .drops, .topicMeters: return
        }
    }

    private func logSubscription(_ row: SubscriptionRow) {
        let share = row.shareName.map { "$share/\($0)/" } ?? ""
        shard.log(.notice) {
            "Subscription: \(share)\(LoggedText(row.filter)) (\(row.clientIdentifier), \(row.options.maximumQoS.rawValue))"
        }
    }
}

/// Single records, looked at one after the other.
extension SubscriptionTree {
    /// The numbers of a topic's levels, `LevelTable.none` for those that no filter has; and whether it begins with `$`,
    /// so that no wildcard in front matches it.
    struct LevelNumbers {
        fileprivate let levels: [UInt32]
        fileprivate let isHidden: Bool
    }

    func levelNumbers(of topic: [UInt8]) -> LevelNumbers {
        var numbers: [UInt32] = []
        topic.withUnsafeBytes { bytes in
            var sequence = LevelSequence(bytes)
            while let text = sequence.next() { numbers.append(levels.find(text)) }
        }
        return LevelNumbers(levels: numbers, isHidden: topic.first == UInt8(ascii: "$"))
    }

    /// Whether the filter of a record that is there matches a topic. O(levels). [MQTT-4.7.2-1 v5]
    func matches(_ record: UInt32, _ topic: LevelNumbers) -> Bool {
        var node = records[record].node
        var depth = 0
        var above = node
        while above != Self.root {
            depth += 1
            above = nodes[above].parent
        }
        if nodes[node].level == Self.multiLevelWildcard {
            // `a/#` matches `a` too.
            depth -= 1
            guard depth <= topic.levels.count, depth > 0 || !topic.isHidden else { return false }
            node = nodes[node].parent
        } else {
            guard depth == topic.levels.count else { return false }
        }
        while node != Self.root {
            depth -= 1
            let level = nodes[node].level
            if level == Self.singleLevelWildcard {
                if depth == 0, topic.isHidden { return false }
            } else if level != topic.levels[depth] {
                return false
            }
            node = nodes[node].parent
        }
        return true
    }

    /// The subscriber of the record at an index below `recordLimit`; nil if there is none now. O(1).
    func holder(at record: UInt32) -> (subscriber: Subscriber, terms: SubscriptionTerms)? {
        // A record that was removed is still legible, but nobody finds it.
        let (node, subscriber) = (records[record].node, records[record].subscriber)
        guard index.find(node: node, subscriber: subscriber, in: records.base) == record else { return nil }
        return (subscriber, records[record].terms)
    }
}

/// Single nodes, looked at one after the other.
extension RetainedStore {
    /// A filter by the numbers of its levels.
    struct Pattern {
        fileprivate let levels: [UInt32]
        fileprivate let hasRest: Bool

        /// Stands for `+`; no level has this number.
        fileprivate static let single = UInt32.max - 1
    }

    /// The pattern of a filter without a `$share` prefix; nil if it has a level that no retained topic has.
    func pattern(of filter: some Collection<UInt8>) -> Pattern? {
        Array(filter).withUnsafeBytes { bytes in
            var (numbers, hasRest): ([UInt32], Bool) = ([], false)
            var sequence = LevelSequence(bytes)
            while let text = sequence.next() {
                if LevelSequence.isMultiLevelWildcard(text) {
                    hasRest = true
                } else if LevelSequence.isSingleLevelWildcard(text) {
                    numbers.append(Pattern.single)
                } else {
                    let number = levels.find(text)
                    guard number != LevelTable.none else { return nil }
                    numbers.append(number)
                }
            }
            return Pattern(levels: numbers, hasRest: hasRest)
        }
    }

    /// Whether the topic of a node matches; O(levels). [MQTT-4.7.2-1 v5]
    func matches(_ start: UInt32, _ pattern: borrowing Pattern) -> Bool {
        var depth = 0
        var node = start
        while node != Self.root {
            depth += 1
            node = nodes[node].parent
        }
        let wanted = pattern.levels.count
        guard depth == wanted || (pattern.hasRest && depth > wanted) else { return false }
        node = start
        while node != Self.root {
            depth -= 1
            let level = nodes[node].level
            let pattern = depth < wanted ? pattern.levels[depth] : Pattern.single
            if pattern == Pattern.single {
                if depth == 0, levels.text(of: level).first == UInt8(ascii: "$") { return false }
            } else if pattern != level {
                return false
            }
            node = nodes[node].parent
        }
        return true
    }
}

extension QueryScheduler: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.inspection.queries.isEmpty }
    static func step(_ shard: BrokerShard) { shard.queries.stepQueries() }
}

/// What tests, and programs with a broker of their own, see of its messages.
extension Queries {
    /// Gives a message that was taken, before anybody receives it, to who watches.
    @inline(never)
    func show(_ publication: borrowing Publication, to watcher: (PublishPacket) -> Void) {
        if let packet = Self.packet(publication, qos: publication.qos, retain: publication.retain) { watcher(packet) }
    }

    fileprivate static func packet(_ publication: borrowing Publication, qos: QoS, retain: Bool) -> PublishPacket? {
        let frame = PublishFrame(version: .v5, qos: .atMostOnce, retain: retain)
        let bytes = [UInt8](unsafeUninitializedCapacity: frame.size(publication)) { buffer, count in
            if let base = buffer.baseAddress { frame.write(publication, to: UnsafeMutableRawPointer(base)) }
            count = buffer.count
        }
        return bytes.withUnsafeBytes { bytes in
            guard case .packet(let firstByte, let header, let length) = FrameScan.scan(bytes),
                let decoded = try? ControlPacket.decode(
                    firstByte: firstByte, body: UnsafeRawBufferPointer(rebasing: bytes[header..<header + length]), version: .v5,
                    from: .server),
                case .publish(var packet) = decoded
            else { return nil }
            packet.qos = qos
            return packet
        }
    }
}

extension BrokerShard {
    /// Asks; the answer is `Effect.reply`, one page. From the thread of the shard's loop.
    ///
    /// - Returns: false if too many questions wait already.
    public func ask(_ query: ShardQuery) -> Bool { inspection.queries.add(query, for: .shell) }

    /// Logs every subscription of this shard's sessions and share groups, a part of them in each turn, and at the end
    /// the clients that have lost messages.
    public func listSubscriptions() { queries.askForLog(.subscriptions(of: nil, matching: nil)) }

    /// The retained message of a topic, if it is kept on this shard.
    package func retainedMessage(of topic: TopicName) -> PublishPacket? {
        guard let message = topic.bytes.withUnsafeBytes({ retained.find($0) }) else { return nil }
        return Queries.packet(Publication(message), qos: message.qos, retain: true)
    }
}
