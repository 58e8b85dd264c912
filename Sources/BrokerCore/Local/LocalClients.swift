public import BrokerModel
import Bytes
public import MQTTCodec

/// Clients inside the process: bridges, administration, tests.
///
/// Such a client is a connection like any other, whose far end is a `LocalClient` instead of a transport. All calls
/// come from the thread of the shard's loop, between `advance` and `endTurn`; what comes of them is told by
/// `Effect.local`.
struct LocalClients {
    let shard: BrokerShard

    fileprivate func connectPacket(_ login: LocalLogin, _ userName: EncodedString?) -> ConnectPacket {
        var properties = Properties()
        properties.sessionExpiryInterval = login.sessionExpiryInterval
        properties.receiveMaximum = max(1, login.messagesMax)
        return ConnectPacket(
            cleanStart: login.cleanStart, properties: properties, clientIdentifier: login.clientIdentifier, will: login.will,
            userName: userName)
    }

    /// What protects the broker from clients over the network does not bind one inside: it sends no PINGREQ, and has
    /// windows of its own.
    fileprivate func loosenLimits(of connection: Connection, _ session: Session, _ login: LocalLogin) {
        shard.armKeepAlive(connection, seconds: 0)
        connection.extras?.messageRate = nil
        connection.extras?.byteRate = nil
        var unbounded = shard.settings
        unbounded.inFlightMessagesMax = 0
        connection.advertisedLimits = AdvertisedLimits(unbounded, shard.settings.policy(of: connection.info.listener))
        session.inFlightMax = Int(max(1, login.messagesMax))
        guard !login.relays else { return }
        session.receivedIdentifiers.forEach { connection.extras?.local?.unreleased.insert($0) }
    }

    fileprivate func ask(_ id: ConnectionID, _ write: (LocalClient, inout [UInt8]) -> Bool) -> Bool {
        guard let (connection, client) = findLocal(id), connection.state == .connected else { return false }
        var bytes: [UInt8] = []
        guard write(client, &bytes) else { return false }
        give(bytes, connection)
        return true
    }

    fileprivate func findLocal(_ id: ConnectionID) -> (Connection, LocalClient)? {
        guard let connection = shard.connections.find(id), let client = connection.extras?.local else { return nil }
        return (connection, client)
    }

    /// Gives the shard packets that the client sends. What comes of them may be shard messages alone, so another turn
    /// is asked for whenever that was: a party may well act on an effect, when its turn is over.
    fileprivate func give(_ bytes: [UInt8], _ connection: Connection) {
        guard !bytes.isEmpty else { return }
        bytes.withUnsafeBytes { shard.received($0, from: connection.id) }
        shard.markDirty(connection)
    }

    // MARK: Output

    /// Gives a local client what the shard has for it, as far as its window is open.
    func flushLocal(_ connection: Connection) {
        if let relay = connection.extras?.relay { return flush(relay, connection) }
        guard !connection.holding.isAwaitingStore, let client = connection.extras?.local else { return }
        var taken = 0
        repeat {
            taken = takeOutput(of: connection, room: { client.room }) { client.take($0) }
            workOff(client, connection)
        } while taken > 0 && !connection.output.isEmpty
        let isClosing = connection.state == .closing
        settleOutput(of: connection)
        if isClosing || connection.pace.isBlocked { return }
        if let session = connection.session, session.queue.waiting > 0 { shard.dispatcher.pump(session, on: connection) }
    }

    /// A party has taken what it could: what is left waits for room.
    func settleOutput(of connection: Connection) {
        connection.pace.isBlocked = !connection.output.isEmpty
        if connection.state == .closing {
            // What its party has not made room for by now, it does not get.
            shard.disconnecting.end(connection)
        } else if connection.pace.isBlocked {
            connection.output.settle(arena: &shard.arena, pool: &shard.pool)
            shard.connecting.recordLag(of: connection)
        } else if connection.pace.isLagging {
            shard.connecting.endLag(of: connection)
        }
    }

    /// Gives a party what there is for it, as far as it has room, which is asked for before each piece.
    ///
    /// - Returns: how many bytes it took.
    func takeOutput(of connection: Connection, room: () -> Int, _ take: (UnsafeRawBufferPointer) -> Void) -> Int {
        var taken = 0
        for position in 0..<connection.output.gather(into: shard.output.slices) {
            let count = min(shard.output.slices[position].count, room())
            guard count > 0 else { break }
            take(UnsafeRawBufferPointer(start: shard.output.slices[position].base, count: count))
            taken += count
        }
        shard.statistics.bytesSent &+= UInt64(taken)
        connection.traffic.sentBytes &+= UInt64(taken)
        if connection.isTraced { shard.tracing.traceSent(taken, connection) }
        if taken > 0 { connection.output.consume(taken, arena: &shard.arena, pool: &shard.pool) }
        return taken
    }

    fileprivate func workOff(_ client: LocalClient, _ connection: Connection) {
        let isLegible = client.workOff { shard.effects.append(.local(connection.id, $0)) }
        if !isLegible {
            shard.disconnecting.refuse(connection, .malformedPacket, because: "what the broker has sent cannot be read.")
        }
        if !client.replies.isEmpty { shard.connections.replyingLocals.append(connection.id) }
    }

    /// Takes in what local clients have answered by themselves.
    func receiveLocalReplies() {
        for id in shard.connections.takeReplyingLocals() {
            if let (connection, client) = findLocal(id) { give(client.takeReplies(), connection) }
        }
    }
}

/// The login of a local client: what CONNECT says of a client that comes over the network.
public struct LocalLogin: Sendable {
    /// The identity whose access rules hold.
    public enum Identity: Hashable, Sendable {
        /// The broker's own: it may read and write everything that clients may.
        case broker
        /// A user's: the rules of the first listener that has any. Nothing else of a listener holds, neither its mount
        /// point nor its limits.
        case user(EncodedString)
    }

    public var identity: Identity
    /// Must live on the shard that the client is attached to, see `ShardPlacement`.
    public var clientIdentifier: EncodedString
    public var cleanStart = true
    /// Seconds that the session outlives the client; `UInt32.max` for ever.
    public var sessionExpiryInterval: UInt32 = 0
    public var will: Will?
    /// How many messages may be handed to the party before it acknowledges the first of them, 1 to 65,535.
    public var messagesMax: UInt16 = 256
    /// The bytes of those; one larger message is handed out alone. What does not fit waits as for any client that does
    /// not read.
    public var bytesMax = 1 << 20
    /// How many of the party's own messages of QoS 1 and 2 may be without an outcome, 1 to 65,535.
    public var publicationsMax: UInt16 = 256

    /// Whether the party speaks MQTT 5.0 with the broker itself, CONNECT excepted: it is told `LocalEvent.bytes`, as
    /// many as it has opened room for, and answers by `BrokerShard.relay`. Nothing else of `LocalEvent` but `closed`
    /// comes then. `messagesMax` is the Receive Maximum; `bytesMax` is the room at the beginning.
    public var relays = false

    public init(_ clientIdentifier: EncodedString, identity: Identity = .broker) {
        self.clientIdentifier = clientIdentifier
        self.identity = identity
    }
}

/// What the shard knows of a local client that speaks MQTT itself: how many bytes its party takes. Owned by its
/// connection.
final class LocalRelay {
    /// How many bytes of the connection's output the party takes before it opens more room.
    var room: Int

    init(room: Int) { self.room = max(0, room) }
}

/// Local clients that relay packets between the shard and another broker.
///
/// The party sees the packets of an MQTT 5.0 session, and answers each by itself: so what is acknowledged here is what
/// was acknowledged there, and the session's state, which is durable, is all the state there is.
extension LocalClients {
    /// Gives the party what there is, as far as it has room.
    func flush(_ relay: LocalRelay, _ connection: Connection) {
        guard !connection.holding.isAwaitingStore else { return }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(max(0, min(relay.room, connection.output.pendingBytes)))
        while relay.room > 0, !connection.holding.isAwaitingStore, !connection.output.isEmpty {
            let taken = takeOutput(of: connection, room: { relay.room }) { piece in
                bytes.append(contentsOf: piece)
                relay.room -= piece.count
            }
            guard taken > 0 else { break }
            guard connection.output.isEmpty, connection.state != .closing, let session = connection.session,
                session.queue.waiting > 0
            else { continue }
            shard.dispatcher.pump(session, on: connection)
        }
        if !bytes.isEmpty { shard.effects.append(.local(connection.id, .bytes(bytes))) }
        if connection.holding.isAwaitingStore { return }
        settleOutput(of: connection)
    }
}

/// What a session has still to deliver: messages that were not sent, and those that were and are not acknowledged.
public struct SessionBacklog: Hashable, Sendable {
    public internal(set) var messages = 0
    /// Of those that were not sent, topics and properties included, and of those in flight.
    public internal(set) var bytes = 0
    /// How many of the messages memory need not hold, because they are on the disk.
    public internal(set) var storedMessages = 0
    /// How long the oldest of them has waited since it came, or since the broker's start, in milliseconds; 0 for none.
    public internal(set) var oldestMilliseconds: UInt64 = 0

    public init() {}

    /// Counts what another session has too.
    public mutating func add(_ other: SessionBacklog) {
        (messages, bytes) = (messages + other.messages, bytes + other.bytes)
        storedMessages += other.storedMessages
        oldestMilliseconds = max(oldestMilliseconds, other.oldestMilliseconds)
    }

    init(_ session: Session, now: UInt64) {
        let queue = session.queue
        messages = queue.inFlight + queue.waiting
        bytes = queue.inFlightBytes + queue.waitingBytes
        storedMessages = queue.pagedCount
        // What is at the head, or what of it was released, is the oldest; the places between hold no message.
        let oldest = (queue.count > 0 ? queue[0].message : nil) ?? queue.firstWaiting.flatMap { queue[$0].message }
        oldestMilliseconds = oldest?.with { now &- min(now, $0.madeAt / 1000) } ?? 0
    }
}

/// What local clients have answered by themselves.
enum LocalReplies: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.connections.replyingLocals.isEmpty }
    static func step(_ shard: BrokerShard) { shard.localClients.receiveLocalReplies() }
    /// All are taken in by one step; what they cause wants a turn by itself.
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}

extension BrokerShard {
    /// Lets a local client in, in place of any other with its Client Identifier. `LocalEvent.connected` or `closed`
    /// follows.
    ///
    /// - Precondition: the client lives on this shard.
    public func attach(_ login: LocalLogin) -> ConnectionID {
        precondition(placement.shard(of: login.clientIdentifier) == index, "the client lives on another shard")
        let (listener, userName): (Int, EncodedString?) =
            switch login.identity {
            case .broker: (BrokerSettings.ownListener, nil)
            case .user(let userName): (BrokerSettings.ownUsersListener, userName)
            }
        let connection = connections.make(ConnectionInfo(address: "local", listener: listener), now: now)
        connection.client.isLocal = true
        let extras = connection.makeExtras()
        if login.relays { extras.relay = LocalRelay(room: login.bytesMax) } else { extras.local = LocalClient(login) }
        let verified = VerifiedLogin(userName: userName, authenticationData: nil)
        connecting.begin(PendingConnect(localClients.connectPacket(login, userName), .verified(verified)), connection)
        connecting.advance(connection, .begun)
        if connection.state == .connected, let session = connection.session {
            localClients.loosenLimits(of: connection, session, login)
        }
        return connection.id
    }

    /// Ends the session of a local client, without its will, before this returns: whoever attaches next begins a new
    /// one.
    public func endLocalSession(of clientIdentifier: EncodedString) {
        _ = commands.endSession(clientIdentifier, publishesWill: false)
    }

    /// Ends a local client: its will is discarded, and its session goes on as long as it was to. `LocalEvent.closed`
    /// follows.
    ///
    /// - Parameters:
    ///   - id: what `attach` gave; nothing happens if it is no more.
    ///   - publishesWill: whether its will is published after all.
    public func detach(_ id: ConnectionID, publishesWill: Bool = false) {
        guard let (connection, client) = localClients.findLocal(id), connection.state == .connected else { return }
        client.closeReason = .normalDisconnection
        let reason: ReasonCode = publishesWill ? .disconnectWithWillMessage : .normalDisconnection
        localClients.give(ControlPacket.disconnect(DisconnectPacket(reasonCode: reason)).encoded(version: .v5), connection)
    }

    /// Publishes messages of a local client, in order, as one row.
    ///
    /// - Returns: how many were taken. The others found no room: the client is not connected yet, or
    ///   `LocalLogin.publicationsMax` of its messages have no outcome. They may be tried again after the next outcome.
    @discardableResult
    public func publish(_ publications: [LocalPublication], from id: ConnectionID) -> Int {
        guard let (connection, client) = localClients.findLocal(id), connection.state == .connected else { return 0 }
        var bytes: [UInt8] = []
        var count = 0
        var isTaken = true
        while isTaken, count < publications.count {
            isTaken = client.publish(publications[count], packetBytesMax: settings.packetBytesMax, into: &bytes) {
                effects.append(.local(id, $0))
            }
            if isTaken { count += 1 }
        }
        localClients.give(bytes, connection)
        return count
    }

    /// Subscribes; `LocalEvent.subscribed` with `token` follows.
    ///
    /// - Parameters:
    ///   - subscriptions: one at least.
    ///   - identifier: the Subscription Identifier that comes with the messages; nil for none.
    ///   - token: comes back with the event.
    ///   - id: what `attach` gave.
    /// - Returns: false if the client is not connected.
    @discardableResult
    public func subscribe(
        _ subscriptions: [Subscription], identifier: UInt32? = nil, token: UInt64 = 0, by id: ConnectionID
    ) -> Bool {
        localClients.ask(id) { $0.subscribe(subscriptions, identifier: identifier, token: token, into: &$1) }
    }

    /// Unsubscribes; `LocalEvent.unsubscribed` with `token` follows.
    ///
    /// - Returns: false if the client is not connected.
    @discardableResult
    public func unsubscribe(_ filters: [TopicFilter], token: UInt64 = 0, by id: ConnectionID) -> Bool {
        localClients.ask(id) { $0.unsubscribe(filters, token: token, into: &$1) }
    }

    /// Gives up a QoS 2 message of `LocalConnection.unreleased`; `LocalEvent.published` with `token` follows.
    ///
    /// - Returns: false if there is no such message.
    @discardableResult
    public func release(_ packetIdentifier: UInt16, token: UInt64? = nil, by id: ConnectionID) -> Bool {
        localClients.ask(id) { $0.release(packetIdentifier, token: token, into: &$1) }
    }

    /// The party has done with all messages up to this one: they are not handed out again, and as many others may be.
    public func acknowledge(through sequence: UInt64, by id: ConnectionID) {
        guard let (connection, client) = localClients.findLocal(id) else { return }
        var bytes: [UInt8] = []
        client.acknowledge(through: sequence, into: &bytes)
        localClients.give(bytes, connection)
        localClients.workOff(client, connection)
        guard connection.pace.isBlocked, client.room > 0 else { return }
        connection.pace.isBlocked = false
        markDirty(connection)
    }

    /// Packets of a local client that relays, whole or cut anywhere; nothing happens if it is no more.
    public func relay(_ bytes: [UInt8], from id: ConnectionID) {
        guard let connection = connections.find(id), connection.extras?.relay != nil, !bytes.isEmpty else { return }
        bytes.withUnsafeBytes { received($0, from: id) }
        markDirty(connection)
    }

    /// The party takes so many bytes from now on, with those that it was allowed before.
    public func openRoom(_ byteCount: Int, of id: ConnectionID) {
        guard let connection = connections.find(id), let relay = connection.extras?.relay else { return }
        relay.room += byteCount
        guard connection.pace.isBlocked else { return }
        connection.pace.isBlocked = false
        markDirty(connection)
    }

    /// What a client's session has still to deliver, whether the client is connected or not; nothing if it has none
    /// here.
    public func backlog(of clientIdentifier: EncodedString) -> SessionBacklog {
        guard let session = sessions.find(clientIdentifier) else { return SessionBacklog() }
        return SessionBacklog(session, now: now)
    }

    /// Whether a session is one of the broker's own clients, by the way that its client came when it was here last.
    public func hasOwnSession(of clientIdentifier: EncodedString) -> Bool {
        sessions.find(clientIdentifier)?.owner.listener.map { settings.policy(of: $0).isOwn } ?? false
    }

    /// The packet identifiers of the QoS 2 messages that a client's session has taken and that were not released, in
    /// command.
    public func unreleasedIdentifiers(of clientIdentifier: EncodedString) -> [UInt16] {
        var identifiers: [UInt16] = []
        sessions.find(clientIdentifier)?.receivedIdentifiers.forEach { identifiers.append($0) }
        return identifiers.sorted()
    }

    /// What a client's session is subscribed to; nothing if it has none here.
    public func subscriptions(of clientIdentifier: EncodedString) -> [TopicFilter] {
        guard let session = sessions.find(clientIdentifier) else { return [] }
        var filters: [TopicFilter] = []
        var record = session.firstSubscription
        while record != SubscriptionRecord.none {
            TopicFilter(tree.filter(of: record)).map { filters.append($0) }
            record = tree.records[record].nextOfSession
        }
        return filters
    }
}
