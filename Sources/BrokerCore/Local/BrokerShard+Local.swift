public import BrokerModel
import Bytes
public import MQTTCodec

/// Clients inside the process: bridges, administration, tests.
///
/// Such a client is a connection like any other, whose far end is a `LocalClient` instead of a transport. All calls come from the
/// thread of the shard's loop, between `advance` and `endTurn`; what comes of them is told by `Effect.local`.
extension BrokerShard {
    /// Lets a local client in, in place of any other with its Client Identifier. `LocalEvent.connected` or `closed` follows.
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
        connection.version = .v5
        connection.isLocal = true
        connection.state = .authenticating
        let packet = connectPacket(login, userName)
        let extras = connection.makeExtras()
        if login.relays { extras.relay = LocalRelay(room: login.bytesMax) } else { extras.local = LocalClient(login) }
        extras.pendingConnect = packet
        guard !isStopping else {
            refuseConnect(connection, .serverUnavailable, "the broker is shutting down.")
            return connection.id
        }
        admit(connection, packet, userName: userName, authenticationData: nil)
        if connection.state == .connected, let session = connection.session { loosenLimits(of: connection, session, login) }
        return connection.id
    }

    private func connectPacket(_ login: LocalLogin, _ userName: EncodedString?) -> ConnectPacket {
        var properties = Properties()
        properties.sessionExpiryInterval = login.sessionExpiryInterval
        properties.receiveMaximum = max(1, login.messagesMax)
        return ConnectPacket(
            cleanStart: login.cleanStart, properties: properties, clientIdentifier: login.clientIdentifier, will: login.will,
            userName: userName)
    }

    /// What protects the broker from clients over the network does not bind one inside: it sends no PINGREQ, and has windows of its
    /// own.
    private func loosenLimits(of connection: Connection, _ session: Session, _ login: LocalLogin) {
        armKeepAlive(connection, seconds: 0)
        connection.extras?.messageRate = nil
        connection.extras?.byteRate = nil
        var unbounded = settings
        unbounded.inFlightMessagesMax = 0
        connection.advertisedLimits = AdvertisedLimits(unbounded, settings.policy(of: connection.info.listener))
        session.inFlightMax = Int(max(1, login.messagesMax))
        guard !login.relays else { return }
        session.receivedIdentifiers.forEach { connection.extras?.local?.unreleased.insert($0) }
    }

    /// Ends the session of a local client, without its will, before this returns: whoever attaches next begins a new one.
    public func endLocalSession(of clientIdentifier: EncodedString) { _ = endSession(clientIdentifier, publishesWill: false) }

    /// Ends a local client: its will is discarded, and its session goes on as long as it was to. `LocalEvent.closed` follows.
    ///
    /// - Parameters:
    ///   - id: what `attach` gave; nothing happens if it is no more.
    ///   - publishesWill: whether its will is published after all.
    public func detach(_ id: ConnectionID, publishesWill: Bool = false) {
        guard let (connection, client) = findLocal(id), connection.state == .connected else { return }
        client.closeReason = .normalDisconnection
        let reason: ReasonCode = publishesWill ? .disconnectWithWillMessage : .normalDisconnection
        give(ControlPacket.disconnect(DisconnectPacket(reasonCode: reason)).encoded(version: .v5), connection)
    }

    /// Publishes messages of a local client, in order, as one row.
    ///
    /// - Returns: how many were taken. The others found no room: the client is not connected yet, or `LocalLogin.publicationsMax` of its
    ///   messages have no outcome. They may be tried again after the next outcome.
    @discardableResult
    public func publish(_ publications: [LocalPublication], from id: ConnectionID) -> Int {
        guard let (connection, client) = findLocal(id), connection.state == .connected else { return 0 }
        var bytes: [UInt8] = []
        var count = 0
        var isTaken = true
        while isTaken, count < publications.count {
            isTaken = client.publish(publications[count], packetBytesMax: settings.packetBytesMax, into: &bytes) {
                effects.append(.local(id, $0))
            }
            if isTaken { count += 1 }
        }
        give(bytes, connection)
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
        ask(id) { $0.subscribe(subscriptions, identifier: identifier, token: token, into: &$1) }
    }

    /// Unsubscribes; `LocalEvent.unsubscribed` with `token` follows.
    ///
    /// - Returns: false if the client is not connected.
    @discardableResult
    public func unsubscribe(_ filters: [TopicFilter], token: UInt64 = 0, by id: ConnectionID) -> Bool {
        ask(id) { $0.unsubscribe(filters, token: token, into: &$1) }
    }

    /// Gives up a QoS 2 message of `LocalConnection.unreleased`; `LocalEvent.published` with `token` follows.
    ///
    /// - Returns: false if there is no such message.
    @discardableResult
    public func release(_ packetIdentifier: UInt16, token: UInt64? = nil, by id: ConnectionID) -> Bool {
        ask(id) { $0.release(packetIdentifier, token: token, into: &$1) }
    }

    /// The party has done with all messages up to this one: they are not handed out again, and as many others may be.
    public func acknowledge(through sequence: UInt64, by id: ConnectionID) {
        guard let (connection, client) = findLocal(id) else { return }
        var bytes: [UInt8] = []
        client.acknowledge(through: sequence, into: &bytes)
        give(bytes, connection)
        workOff(client, connection)
        guard connection.isBlocked, client.room > 0 else { return }
        connection.isBlocked = false
        markDirty(connection)
    }

    private func ask(_ id: ConnectionID, _ write: (LocalClient, inout [UInt8]) -> Bool) -> Bool {
        guard let (connection, client) = findLocal(id), connection.state == .connected else { return false }
        var bytes: [UInt8] = []
        guard write(client, &bytes) else { return false }
        give(bytes, connection)
        return true
    }

    private func findLocal(_ id: ConnectionID) -> (Connection, LocalClient)? {
        guard let connection = connections.find(id), let client = connection.extras?.local else { return nil }
        return (connection, client)
    }

    /// Gives the shard packets that the client sends. What comes of them may be shard messages alone, so another turn
    /// is asked for whenever that was: a party may well act on an effect, when its turn is over.
    private func give(_ bytes: [UInt8], _ connection: Connection) {
        guard !bytes.isEmpty else { return }
        bytes.withUnsafeBytes { received($0, from: connection.id) }
        markDirty(connection)
    }

    // MARK: Output

    /// Gives a local client what the shard has for it, as far as its window is open.
    func flushLocal(_ connection: Connection) {
        if let relay = connection.extras?.relay { return flush(relay, connection) }
        guard !connection.isAwaitingStore, let client = connection.extras?.local else { return }
        var taken = 0
        repeat {
            taken = takeOutput(of: connection, room: { client.room }) { client.take($0) }
            workOff(client, connection)
        } while taken > 0 && !connection.output.isEmpty
        let isClosing = connection.state == .closing
        settleOutput(of: connection)
        if isClosing || connection.isBlocked { return }
        if let session = connection.session, session.outbox.waiting > 0 { pump(session, on: connection) }
    }

    /// A party has taken what it could: what is left waits for room.
    func settleOutput(of connection: Connection) {
        connection.isBlocked = !connection.output.isEmpty
        if connection.state == .closing {
            // What its party has not made room for by now, it does not get.
            end(connection)
        } else if connection.isBlocked {
            connection.output.settle(arena: &arena, pool: &pool)
            recordLag(of: connection)
        } else if connection.isLagging {
            endLag(of: connection)
        }
    }

    /// Gives a party what there is for it, as far as it has room, which is asked for before each piece.
    ///
    /// - Returns: how many bytes it took.
    func takeOutput(of connection: Connection, room: () -> Int, _ take: (UnsafeRawBufferPointer) -> Void) -> Int {
        var taken = 0
        for position in 0..<connection.output.gather(into: slices) {
            let count = min(slices[position].count, room())
            guard count > 0 else { break }
            take(UnsafeRawBufferPointer(start: slices[position].base, count: count))
            taken += count
        }
        statistics.bytesSent &+= UInt64(taken)
        connection.traffic.sentBytes &+= UInt64(taken)
        if connection.isTraced { traceSent(taken, connection) }
        if taken > 0 { connection.output.consume(taken, arena: &arena, pool: &pool) }
        return taken
    }

    private func workOff(_ client: LocalClient, _ connection: Connection) {
        let isLegible = client.workOff { effects.append(.local(connection.id, $0)) }
        if !isLegible { refuse(connection, .malformedPacket, because: "what the broker has sent cannot be read.") }
        if !client.replies.isEmpty { replyingLocals.append(connection.id) }
    }

    /// Takes in what local clients have answered by themselves.
    func receiveLocalReplies() {
        guard !replyingLocals.isEmpty else { return }
        let replying = replyingLocals
        replyingLocals = []
        for id in replying {
            if let (connection, client) = findLocal(id) { give(client.takeReplies(), connection) }
        }
    }
}
