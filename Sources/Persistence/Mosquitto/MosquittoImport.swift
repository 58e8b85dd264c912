public import BrokerModel
import MQTTCodec

/// Turns what mosquitto kept into the rows of a new store.
///
/// What waits for a client, or is on its way to it, becomes the session's entries in the same order. A QoS 2 message
/// that a client has sent and not released is different: mosquitto publishes it when PUBREL comes, Martlet when PUBLISH
/// comes. To leave it out would lose it, since its publisher has PUBREC and will never send it again. So it is
/// published by the import: it goes to the queues that its topic matches (their sessions are all away now) and into the
/// retained messages, and the receipt stays, so that the client's PUBREL, or the same PUBLISH once more, finds it
/// received. It goes to the end of the queues, where its PUBREL would have put it.
///
/// A will waits with its session, which begins its time anew if its client was connected. One of a client without a
/// session is published, as mosquitto does at its start.
///
/// Messages and sessions whose time is over are imported all the same, for it is the broker that ends them. A session
/// without an expiry interval stays, as in mosquitto, until its client has come back: it may be one of MQTT 5.0 whose
/// client was connected, but also one that mosquitto has from a file of versions 3 or 4, which knew no intervals. Left
/// out is what belongs to nothing in the file.
public struct MosquittoImport {
    /// One batch, to be committed as a whole.
    public let batch = JournalBatch()
    public internal(set) var counts = MosquittoImportCounts()

    let database: MosquittoDatabase
    private let listenerPorts: [UInt16]
    private let wills: [EncodedString: MosquittoWill]
    let messages: [UInt64: MosquittoMessage]
    /// The keys of the sessions that are imported, and in which order.
    private(set) var sessions: [EncodedString: UInt64] = [:]
    private(set) var sessionOrder: [EncodedString] = []
    /// The subscriptions of the sessions that are imported, by Client Identifier.
    private(set) var subscriptions: [EncodedString: [MosquittoSubscription]] = [:]
    private var filters: [EncodedString: Set<TopicFilter>] = [:]
    /// The row of each message that several entries share.
    var sharedRows: [UInt64: UInt64] = [:]
    /// Which packet identifiers are in use towards clients, and from them: as keys of receipts.
    var sentIdentifiers: Set<UInt64> = []
    var receivedIdentifiers: Set<UInt64> = []
    private var lastSerial: UInt64 = 0

    /// Makes the rows.
    ///
    /// - Parameters:
    ///   - database: what mosquitto has left.
    ///   - listenerPorts: those of the configuration, in its order; a client that came by none of them belongs to no
    ///     listener.
    public init(of database: MosquittoDatabase, listenerPorts: [UInt16] = []) {
        self.database = database
        messages = Dictionary(database.messages.map { ($0.number, $0) }, uniquingKeysWith: { first, _ in first })
        self.listenerPorts = listenerPorts
        wills = Dictionary(database.wills.map { ($0.client, $0) }, uniquingKeysWith: { first, _ in first })
        for client in database.clients { add(client) }
        for subscription in database.subscriptions { add(subscription) }
        addOutgoing()
        let published = addIncoming() + addWills()
        addRetained(published)
    }

    private mutating func add(_ client: MosquittoClient) {
        guard sessions[client.identifier] == nil else {
            counts.leftOut += 1
            return
        }
        let key = nextKey()
        sessions[client.identifier] = key
        sessionOrder.append(client.identifier)
        let interval = client.sessionExpiryInterval > 0 || client.sessionEndsAt != nil ? client.sessionExpiryInterval : .max
        var session = StoredSession(clientIdentifier: client.identifier, expiryIntervalSeconds: interval)
        session.endsAt = client.sessionEndsAt.flatMap(Self.milliseconds)
        // It was connected when the file was written: its time begins when the broker starts.
        session.isConnected = client.sessionEndsAt == nil && interval != .max
        session.userName = client.userName
        session.listener = listener(ofPort: client.listenerPort)
        if let pending = wills[client.identifier] {
            session.will = pending.will
            session.willDueAt = pending.dueAt.flatMap(Self.milliseconds)
            // Its client was connected: it counts as gone without a word.
            if pending.dueAt == nil { (session.isConnected, session.endsAt) = (true, nil) }
        }
        insert(.session, key, session.encoded())
        counts.sessions += 1
    }

    private mutating func add(_ subscription: MosquittoSubscription) {
        guard let session = sessions[subscription.client],
            filters[subscription.client, default: []].insert(subscription.filter).inserted
        else {
            counts.leftOut += 1
            return
        }
        let row = StoredSubscription(
            session: session, filter: subscription.filter, maximumQoS: subscription.maximumQoS, noLocal: subscription.noLocal,
            retainAsPublished: subscription.retainAsPublished, identifier: subscription.identifier)
        insert(.subscription, nextKey(), row.encoded())
        subscriptions[subscription.client, default: []].append(subscription)
        counts.subscriptions += 1
    }

    /// A listener by its place in the configuration; none for one that is not there.
    func listener(ofPort port: UInt16) -> StoredListener {
        listenerPorts.firstIndex(of: port).flatMap { UInt16(exactly: $0) }.map { .place($0) } ?? .name("")
    }

    /// A number that no row has; they rise, as the entries of a queue must. The shard stands in the lowest byte.
    mutating func nextKey() -> UInt64 {
        lastSerial += 1
        return lastSerial << 8
    }

    func insert(_ table: StoreTable, _ key: UInt64, _ body: [UInt8]) {
        body.withUnsafeBytes { batch.append(JournalRecord(.insert, table, key: key, body: $0)) }
    }

    /// Nil for a time so late that it never comes.
    static func milliseconds(_ seconds: UInt64) -> UInt64? {
        let (product, hasOverflown) = seconds.multipliedReportingOverflow(by: 1000)
        return hasOverflown ? nil : product
    }
}

/// What an import took over, and what it did not.
public struct MosquittoImportCounts: Equatable, Sendable {
    public internal(set) var sessions = 0
    public internal(set) var subscriptions = 0
    /// Messages on their way to clients, sent or not.
    public internal(set) var queuedMessages = 0
    /// QoS 2 messages from clients, published and not yet released.
    public internal(set) var receivedMessages = 0
    public internal(set) var retainedMessages = 0
    /// Records of no client, of no message, or that stand there twice.
    public internal(set) var leftOut = 0
}
