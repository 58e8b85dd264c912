public import BrokerCore
public import BrokerModel
public import BrokerSimulation
public import MQTTCodec

/// Who has a client inside a `SimulatedBroker`: notes what it is told, and acknowledges what it is handed unless told
/// not to.
public final class LocalParty: LocalEventReceiver {
    public let broker: SimulatedBroker
    public let login: LocalLogin
    /// The shard that the client lives on.
    public let shard: Int
    public private(set) var id: ConnectionID?
    /// Whether messages are acknowledged as soon as the turn in which they came is over.
    public var acknowledges = true
    public private(set) var connection: LocalConnection?
    public private(set) var messages: [LocalMessage] = []
    /// The sizes of the batches that came.
    public private(set) var batches: [Int] = []
    public private(set) var outcomes: [UInt64: ReasonCode] = [:]
    public private(set) var granted: [UInt64: [ReasonCode]] = [:]
    /// Why the client is no more; nil while it is.
    public private(set) var closeReason: ReasonCode?
    private var acknowledged: UInt64 = 0

    init(_ broker: SimulatedBroker, _ login: LocalLogin) {
        (self.broker, self.login) = (broker, login)
        shard = broker.shard(of: login.clientIdentifier)
    }

    private var core: BrokerShard { broker.cores[shard] }

    /// The payloads of all messages so far, as text.
    public var texts: [String] { messages.map { String(decoding: $0.packet.payload, as: UTF8.self) } }

    func attach() {
        let made = core.attach(login)
        id = made
        broker.shards[shard].parties[made] = self
    }

    /// Publishes, and settles.
    ///
    /// - Returns: whether it was taken.
    @discardableResult
    public func publish(
        _ topic: EncodedString, _ payload: String = "", qos: QoS = .atMostOnce, retain: Bool = false, token: UInt64? = nil,
        packetIdentifier: UInt16? = nil, properties: Properties = Properties(), settles: Bool = true
    ) -> Bool {
        let packet = PublishPacket(
            topic: topic, packetIdentifier: packetIdentifier, qos: qos, retain: retain, properties: properties,
            payload: Array(payload.utf8))
        defer { if settles { broker.settle() } }
        return id.map { core.publish([LocalPublication(packet, token: token)], from: $0) == 1 } ?? false
    }

    /// Subscribes, and settles.
    public func subscribe(
        _ filter: TopicFilter, _ options: SubscriptionOptions = SubscriptionOptions(maximumQoS: .exactlyOnce),
        identifier: UInt32? = nil, token: UInt64 = 0
    ) {
        if let id { core.subscribe([Subscription(filter: filter, options: options)], identifier: identifier, token: token, by: id) }
        broker.settle()
    }

    /// Unsubscribes, and settles.
    public func unsubscribe(_ filter: TopicFilter, token: UInt64 = 0) {
        if let id { core.unsubscribe([filter], token: token, by: id) }
        broker.settle()
    }

    /// Acknowledges the oldest messages, and settles.
    ///
    /// - Parameter count: how many; nil for all.
    public func acknowledge(_ count: Int? = nil) {
        acknowledge(through: count.map { acknowledged + UInt64($0) } ?? messages.last?.sequence ?? 0)
        broker.settle()
    }

    private func acknowledge(through sequence: UInt64) {
        acknowledged = max(acknowledged, sequence)
        if let id { core.acknowledge(through: sequence, by: id) }
    }

    /// Gives up a message of an earlier client, and settles.
    public func release(_ packetIdentifier: UInt16, token: UInt64) {
        if let id { core.release(packetIdentifier, token: token, by: id) }
        broker.settle()
    }

    /// Ends the client, and settles.
    public func detach(publishesWill: Bool = false) {
        if let id { core.detach(id, publishesWill: publishesWill) }
        broker.settle()
    }

    package func received(_ event: LocalEvent) {
        switch event {
        // Of clients that relay.
        case .bytes: break
        case .connected(let connection): self.connection = connection
        case .messages(let batch):
            messages += batch
            batches.append(batch.count)
            if acknowledges, let last = batch.last { acknowledge(through: last.sequence) }
        case .published(let token, let reason): outcomes[token] = reason
        case .subscribed(let token, let reasons), .unsubscribed(let token, let reasons): granted[token] = reasons
        case .closed(let reason): closeReason = reason
        }
    }
}

extension SimulatedBroker {
    /// Attaches a client inside the broker, and settles.
    public func attached(_ identifier: EncodedString, _ change: (inout LocalLogin) -> Void = { _ in }) -> LocalParty {
        var login = LocalLogin(identifier)
        change(&login)
        let party = LocalParty(self, login)
        party.attach()
        settle()
        return party
    }
}
