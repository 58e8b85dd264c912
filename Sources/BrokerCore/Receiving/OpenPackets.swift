import BrokerModel
import Bytes
import MQTTCodec

/// A SUBSCRIBE or UNSUBSCRIBE that is worked off filter by filter, over as many turns as it takes; or a PUBLISH that
/// waits for what is decided about its topic.
enum OpenPacket {
    case publish(firstByte: UInt8, body: [UInt8])
    case subscribe(OpenSubscribe)
    case unsubscribe(OpenUnsubscribe)

    /// The bytes of memory that it takes. O(filters).
    fileprivate var byteCount: Int {
        switch self {
        case .publish(_, let body): body.count
        case .subscribe(let open):
            open.packet.subscriptions.reduce(0) { $0 + $1.filter.bytes.count + OpenPackets.bytesPerFilter }
        case .unsubscribe(let open): open.packet.filters.reduce(0) { $0 + $1.bytes.count + OpenPackets.bytesPerFilter }
        }
    }
}

/// The open packet of a connection, which waits for its turn, and the bytes of memory that it takes.
struct WaitingPacket {
    let packet: OpenPacket
    let heldBytes: Int

    /// - Parameter heldBytes: as they were counted when it was opened; nil if that is now.
    init(_ packet: OpenPacket, heldBytes: Int?) { (self.packet, self.heldBytes) = (packet, heldBytes ?? packet.byteCount) }
}

/// How far a SUBSCRIBE has come.
struct OpenSubscribe {
    let packet: SubscribePacket
    /// How many of its filters are done with.
    var position = 0
    var answer: SubackPacket
    /// The look-ups of retained messages for these filters, which begin behind SUBACK.
    var wanted: [RetainedQuery] = []
    var marks: [EndOfRetained] = []
    /// Whether others have to hear of them before SUBACK.
    var mustWait = false

    init(_ packet: SubscribePacket) {
        self.packet = packet
        answer = SubackPacket(packetIdentifier: packet.packetIdentifier, reasonCodes: [])
    }
}

/// How far an UNSUBSCRIBE has come.
struct OpenUnsubscribe {
    let packet: UnsubscribePacket
    var position = 0
    var answer: UnsubackPacket

    init(_ packet: UnsubscribePacket) {
        self.packet = packet
        answer = UnsubackPacket(packetIdentifier: packet.packetIdentifier, reasonCodes: [])
    }
}

/// The connections whose packets take more than one turn, and how much of the turn is left for such packets.
///
/// What a filter costs is counted in steps: its levels, and its bytes. A turn has so many for the packets that come in
/// it, and as many for those that earlier turns have left open, each of which gets some before the first gets more.
///
/// Invariant: a connection with an open packet stands here, once. Owned by a shard, used on its thread only.
struct OpenPackets {
    private var waiting = Deque<ConnectionID>()
    /// The steps that are left for whoever's packet is being worked off.
    var stepsLeft = Limits.packetStepsPerTurn
    /// How many steps were made so far: tests see by it how much a turn does.
    var stepCount = 0

    var isEmpty: Bool { waiting.isEmpty }

    /// A connection's packet goes on when those of others had their turn.
    mutating func append(_ connection: ConnectionID) { waiting.append(connection) }

    /// Takes the connection whose turn it is.
    mutating func takeFirst() -> ConnectionID? { waiting.popFirst() }

    /// Counts what the next filter takes; false if nothing is left of the turn.
    mutating func take(_ filter: TopicFilter) -> Bool {
        guard stepsLeft > 0 else { return false }
        let steps = Self.steps(of: filter)
        stepsLeft -= steps
        stepCount += steps
        return true
    }

    /// One for each level, and some for each filter and its bytes.
    static func steps(of filter: TopicFilter) -> Int { steps(of: filter.bytes) }

    static func steps(of bytes: [UInt8]) -> Int {
        guard bytes.count > Self.shortFilterBytes else { return Self.stepsPerShortFilter }
        let levels = bytes.withUnsafeBytes { $0.reduce(1) { $0 + ($1 == UInt8(ascii: "/") ? 1 : 0) } }
        return Self.stepsPerFilter + levels + bytes.count / Self.bytesPerStep
    }

    private static let stepsPerFilter = 3
    private static let bytesPerStep = 32
    /// Not looked at, as there are few levels in it.
    private static let shortFilterBytes = 16
    private static let stepsPerShortFilter = 6
    /// Bytes of memory that a filter of an open packet takes beside its own.
    fileprivate static let bytesPerFilter = 64
}

/// Packets that take more than one turn, so that nobody waits for one client's filters.
///
/// ```
///     SUBSCRIBE ─► filter by filter, as far as the turn's steps go ─► SUBACK
///                     │ steps used up                      ▲
///                     └─► open: what its client sends      │
///                         waits in `inbound` ─► endTurn ───┘ ─► `inbound`
/// ```
/// Each filter counts as if it had come alone, as the standard has it, so that what others publish meanwhile goes to
/// the filters that are done. SUBACK leaves when all of them are. With a store their rows may stand in several batches:
/// a crash between two leaves the first ones, which nobody was told of; SUBACK waits for the last. If the connection
/// ends before, the rest of its packet is dropped with it.
extension Receiving {
    /// A packet has used up the turn's steps.
    ///
    /// - Parameter heldBytes: nil for one that was not open before.
    func keepOpen(_ packet: OpenPacket, of connection: Connection, heldBytes: Int? = nil) {
        connection.makeExtras().openPacket = WaitingPacket(packet, heldBytes: heldBytes)
        connection.hasOpenPacket = true
        // What waits for a decision goes on when that has come.
        if connection.extras?.awaitsDecision != true { shard.connections.openPackets.append(connection.id) }
        if heldBytes == nil { shard.memoryBound.recount(connection) }
    }

    /// A PUBLISH waits for what is decided about its topic: it is read again then.
    @inline(never)
    func keepOpen(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, of connection: Connection) {
        keepOpen(.publish(firstByte: firstByte, body: Array(body)), of: connection)
    }

    /// Forgets the connection's open packet.
    func dropOpenPacket(of connection: Connection) {
        connection.extras?.openPacket = nil
        connection.hasOpenPacket = false
    }

    /// Goes on with the open packets, as far as a turn's steps go, and then with what their clients have sent behind
    /// them.
    func stepOpenPackets() {
        var left = Limits.packetStepsPerTurn
        while left > 0, let id = shard.connections.openPackets.takeFirst() {
            guard let connection = shard.connections.find(id), connection.hasOpenPacket else { continue }
            let slice = min(left, Limits.packetStepsPerSlice)
            shard.connections.openPackets.stepsLeft = slice
            goOn(connection)
            left -= max(1, slice - shard.connections.openPackets.stepsLeft)
        }
    }

    private func goOn(_ connection: Connection) {
        let heldBytes = connection.extras?.openPacket?.heldBytes
        // Nothing else holds it meanwhile, so that it changes in place.
        switch takeOpenPacket(of: connection) {
        case nil: return
        case .publish(let firstByte, let body): body.withUnsafeBytes { readAgain(firstByte, $0, connection) }
        case .subscribe(var open):
            if !shard.subscribing.goOn(with: &open, connection) { keepOpen(.subscribe(open), of: connection, heldBytes: heldBytes) }
        case .unsubscribe(var open):
            if !shard.subscribing.goOn(with: &open, connection) {
                keepOpen(.unsubscribe(open), of: connection, heldBytes: heldBytes)
            }
        }
        // What it sends behind the packet is not read yet: it is not silent.
        connection.lastReceivedAt = shard.now
        if !connection.hasOpenPacket, connection.state == .connected {
            resumeInbound(connection)
        }
        if connection.state == .connected { shard.memoryBound.recount(connection) }
    }

    private func takeOpenPacket(of connection: Connection) -> OpenPacket? {
        defer { dropOpenPacket(of: connection) }
        return connection.extras?.openPacket?.packet
    }
}

extension OpenPackets: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.connections.openPackets.isEmpty }
    static func step(_ shard: BrokerShard) { shard.receiving.stepOpenPackets() }
}
