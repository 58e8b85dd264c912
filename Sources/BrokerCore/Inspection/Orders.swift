public import BrokerModel
import MQTTCodec

/// Carrying out what an administrator wants.
struct Orders {
    let shard: BrokerShard

    /// Goes on with the orders, in a bounded number of steps for all of them together.
    func stepOrders() {
        shard.inspection.orders.stepsLeft = Limits.orderStepsPerTurn
        while shard.inspection.orders.stepsLeft > 0, !shard.inspection.orders.open.isEmpty {
            if !goOn(shard.inspection.orders.takeFirst()) { return }
        }
    }

    /// Looks whether waiting orders can go on, with the steps that the turn has left.
    func stepWaitingOrders() {
        shard.inspection.orders.hasNews = false
        for order in shard.inspection.orders.takeWaiting() { _ = goOn(order) }
    }

    /// How far an order has come.
    enum OrderProgress {
        case ended(ShardOrderOutcome.Result)
        /// It needs another turn.
        case open
        /// It needs a turn after the store has done something.
        case waiting

        /// - Parameter result: nil if it needs another turn.
        init(_ result: ShardOrderOutcome.Result?) { self = result.map { .ended($0) } ?? .open }
    }

    /// - Returns: false if the order needs another turn.
    private func goOn(_ order: OrderScheduler.OpenOrder) -> Bool {
        var order = order
        var steps = shard.inspection.orders.stepsLeft
        let progress = carryOut(&order, &steps)
        shard.inspection.orders.stepCount += shard.inspection.orders.stepsLeft - steps
        shard.inspection.orders.stepsLeft = steps
        switch progress {
        case .ended(let result): shard.effects.append(.outcome(ShardOrderOutcome(token: order.order.token, result: result)))
        case .waiting: shard.inspection.orders.setAside(order)
        case .open:
            shard.inspection.orders.putBack(order)
            return false
        }
        return true
    }

    private func carryOut(_ order: inout OrderScheduler.OpenOrder, _ steps: inout Int) -> OrderProgress {
        steps -= 1
        switch order.order.action {
        case .kick(let client, let publishesWill):
            return .ended(kick(client, publishesWill: publishesWill) ? .done : .notFound)
        case .endSession(let client, let publishesWill):
            return .ended(endSession(client, publishesWill: publishesWill) ? .done : .notFound)
        case .purgeQueue(let client, let filter): return shard.purging.purge(client, filter, &order, &steps)
        case .deleteRetained(let filter, let isRehearsal):
            return OrderProgress(deleteRetained(filter, isRehearsal, &order, &steps))
        case .publish(let packet): return .ended(publishOrdered(packet))
        case .meterTopic(let filter): return .ended(shard.topicMetrics.changeObserved { $0.addMeter(filter) } ? .done : .tooMany)
        case .unmeterTopic(let filter):
            return .ended(shard.topicMetrics.changeObserved { $0.removeMeter(filter) } ? .done : .notFound)
        case .beginTrace(let wish):
            if order.count == 0 { shard.tracing.beginTrace(wish) }
            order.count = 1
            guard case .address = wish.subject else { return .ended(.done) }
            return shard.tracing.markConnections(from: &order.position, &steps) ? .ended(.done) : .open
        case .endTrace(let number): return .ended(shard.tracing.endTrace(number) ? .done : .notFound)
        }
    }

    private func kick(_ client: EncodedString, publishesWill: Bool) -> Bool {
        guard let session = shard.sessions.find(client), let connection = session.connection?.object else { return false }
        if !publishesWill { session.will = nil }
        shard.disconnecting.refuse(connection, .administrativeAction, because: "the operator has ended the connection.")
        return true
    }

    func endSession(_ client: EncodedString, publishesWill: Bool) -> Bool {
        guard let session = shard.sessions.find(client) else { return false }
        if session.connection == nil {
            shard.lifecycle.endSession(session, publishesWill: publishesWill)
            return true
        }
        // It ends with its connection.
        session.expiryIntervalSeconds = 0
        return kick(client, publishesWill: publishesWill)
    }

    private func deleteRetained(
        _ filter: TopicFilter, _ isRehearsal: Bool, _ order: inout OrderScheduler.OpenOrder, _ steps: inout Int
    ) -> ShardOrderOutcome.Result? {
        guard let pattern = shard.retained.pattern(of: filter.matchingBytes) else { return .removed(order.count) }
        let end = shard.retained.nodes.end
        while order.position < end, steps > 0 {
            steps -= 1
            let index = UInt32(order.position)
            order.position += 1
            guard let message = shard.retained.message(of: index), !message.hasExpired(at: shard.now),
                shard.retained.matches(index, pattern)
            else {
                continue
            }
            order.count += 1
            guard !isRehearsal else { continue }
            shard.sessionRows.forgetRetained(shard.retained.storeNumber(message.topic))
            _ = shard.retained.remove(message.topic)
            if let cluster = shard.cluster { shard.clusterMessaging.recordDeletion(of: message, cluster) }
        }
        return order.position < end ? nil : .removed(order.count)
    }

    private func publishOrdered(_ packet: PublishPacket) -> ShardOrderOutcome.Result {
        let properties = ForwardedProperties.encode(packet.properties)
        return packet.topic.bytes.withUnsafeBytes { topic in
            guard !topic.isEmpty, TopicName(packet.topic.bytes) != nil, !shard.publishing.isTooLong(topic),
                !shard.publishing.isTooDeep(topic)
            else {
                return .published(.topicNameInvalid, receivers: nil)
            }
            guard !packet.retain || shard.settings.retainAvailable else { return .published(.retainNotSupported, receivers: nil) }
            guard shard.settings.payloadBytesMax == 0 || packet.payload.count <= shard.settings.payloadBytesMax,
                topic.count + properties.count + packet.payload.count <= shard.settings.packetBytesMax - Limits.packetHeadBytesMax
            else { return .published(.packetTooLarge, receivers: nil) }
            guard !shard.memoryBound.isMemoryFull else { return .published(.quotaExceeded, receivers: nil) }
            let expiresAt = packet.properties.messageExpiryInterval.map { shard.now + UInt64($0) * 1000 } ?? Message.neverExpires
            let (receivers, isHereOnly) = shard.dispatcher.matches(of: topic).with { matches in
                (matches.routeCount + matches.groups.count, matches.shards & ~(1 << UInt64(shard.index)) == 0)
            }
            properties.withUnsafeBytes { properties in
                packet.payload.withUnsafeBytes { payload in
                    var publication = Publication(
                        topic: topic, properties: properties, payload: payload, qos: packet.qos, retain: packet.retain,
                        expiresAt: expiresAt, publisher: 0)
                    shard.publishing.publish(&publication)
                }
            }
            let hasReceivers = receivers > 0 || !isHereOnly
            return .published(hasReceivers ? .success : .noMatchingSubscribers, receivers: isHereOnly ? receivers : nil)
        }
    }
}

/// The orders that a shard has been given and has not carried out, oldest first.
///
///     add ─► open ─► done
///             ▲│
///             │▼ the store has to do something first
///            waiting ─► done
///
/// Orders in `open` are carried out one after the other, a part in each turn; orders in `waiting` are looked at in each
/// turn, and others go on meanwhile.
///
/// Invariant: of administrators' orders, at most `Limits.ordersMax` wait. Owned by a shard, used on its thread only.
struct OrderScheduler {
    /// An order, and how far it is carried out.
    struct OpenOrder {
        let order: ShardOrder
        /// A message with a higher number has come after it.
        let lastNumber: UInt64
        /// Where it goes on, in the table or queue of what it is about.
        var position = 0
        /// How many are given up.
        var count = 0
        /// The queue that is purged; nil for another order, and before it has begun.
        var purge: QueuePurge?

        init(_ order: ShardOrder, after lastNumber: UInt64) { (self.order, self.lastNumber) = (order, lastNumber) }
    }

    private(set) var open: [OpenOrder] = []
    private(set) var waiting: [OpenOrder] = []
    /// How many slots may be looked at in this turn still.
    var stepsLeft = 0
    /// How many were looked at so far: tests see by it how much a turn does.
    var stepCount = 0
    /// Whether one of those may wait for what has happened since it was looked at.
    var hasNews = false

    var isEmpty: Bool { open.isEmpty && waiting.isEmpty }
    /// Whether a turn would do anything.
    var hasWork: Bool { !open.isEmpty || hasNews && !waiting.isEmpty }
    private var administratorsCount: Int { (open + waiting).count { $0.order.token != 0 } }

    /// Takes an order; false if too many wait.
    ///
    /// - Parameter lastNumber: the highest one that a message has by now.
    mutating func add(_ order: ShardOrder, after lastNumber: UInt64) -> Bool {
        guard administratorsCount < Limits.ordersMax else { return false }
        open.append(OpenOrder(order, after: lastNumber))
        return true
    }

    /// Takes one of the loop's own: there are a few for each bridge, and none may be lost. Nobody waits for its
    /// outcome, so it has no token.
    mutating func addOwn(_ action: ShardOrder.Action, after lastNumber: UInt64) {
        open.append(OpenOrder(ShardOrder(action), after: lastNumber))
    }

    /// Takes out the one whose turn it is.
    mutating func takeFirst() -> OpenOrder { open.removeFirst() }

    /// Puts back the one that needs another turn, before the others.
    mutating func putBack(_ order: OpenOrder) { open.insert(order, at: 0) }

    /// Puts one aside that waits for the store.
    mutating func setAside(_ order: OpenOrder) { waiting.append(order) }

    /// Takes out all that were put aside.
    mutating func takeWaiting() -> [OpenOrder] {
        defer { waiting = [] }
        return waiting
    }

    /// The purge of a session's queue that waits for rows, to be changed in place; nil if there is none.
    func indexOfReader(_ sessionKey: UInt64) -> Int? {
        waiting.firstIndex { $0.purge.map { $0.sessionKey == sessionKey && $0.isReading } ?? false }
    }

    /// The waiting order at an index has come further.
    mutating func change(waiting index: Int, to order: OpenOrder) { waiting[index] = order }

    /// Traps where the invariant does not hold.
    func checkInvariants() { precondition(administratorsCount <= Limits.ordersMax, "too many orders wait") }
}

extension OrderScheduler: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.inspection.orders.isEmpty }
    static func step(_ shard: BrokerShard) { shard.orders.stepOrders() }
    static func deadline(_ shard: BrokerShard) -> UInt64? { shard.inspection.orders.hasWork ? shard.now : nil }
}

/// The orders that the store has to do something for first.
enum WaitingOrders: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.inspection.orders.waiting.isEmpty }
    static func step(_ shard: BrokerShard) { shard.orders.stepWaitingOrders() }
    /// The scheduler's own says it.
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}

extension Limits {
    /// Orders that wait for their turn; beyond it, more are not taken. Bytes: 65,535 each at most, those of a name.
    static let ordersMax = 64

    /// Messages that all orders together look at in a turn; the rest is looked at in the next.
    static let orderStepsPerTurn = 4096

    /// Bytes of a PUBLISH packet besides topic, properties and content, at most.
    static let packetHeadBytesMax = 16
}

extension BrokerShard {
    /// Gives an order; `Effect.outcome` follows. From the thread of the shard's loop.
    ///
    /// - Returns: false if too many orders wait already.
    public func order(_ order: ShardOrder) -> Bool { inspection.orders.add(order, after: journal?.lastNumber ?? .max) }

    /// Gives an order of the loop's own, which is taken however many others wait.
    public func orderOwn(_ action: ShardOrder.Action) { inspection.orders.addOwn(action, after: journal?.lastNumber ?? .max) }
}
