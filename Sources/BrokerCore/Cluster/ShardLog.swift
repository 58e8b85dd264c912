import MQTTCodec

/// What a shard has to do with a cluster's log: how far it has read, and what waits for being logged.
final class ShardLog {
    /// A QoS 2 message of a client that lasts: it counts as received when it is logged. Until then its publisher has no PUBREC, and after a
    /// crash sends it again.
    struct Unlogged {
        let serial: UInt64
        let session: (index: UInt32, generation: UInt32)
        let packetIdentifier: UInt16
        let digest: UInt64

        /// Tells it from all others that wait.
        var name: UInt64 { Self.name(of: session, packetIdentifier) }

        static func name(of session: (index: UInt32, generation: UInt32), _ packetIdentifier: UInt16) -> UInt64 {
            UInt64(session.index) << 32 | UInt64(session.generation & 0xffff) << 16 | UInt64(packetIdentifier)
        }
    }

    /// How far the shard's sessions have been given what was read.
    var places: LogPlaces
    /// Whether the store has a row of it.
    var isStored = false
    /// Records that were read since it was written, and when that was.
    var unwritten = 0
    var writtenAt: UInt64 = 0
    /// Where the journal stood when the record began that is being read.
    var sequenceBefore: UInt64 = 0
    /// In the order of their serials; those whose sessions wait no more are not in `unloggedNames`.
    private var unlogged: [Unlogged] = []
    private var unloggedNames: Set<UInt64> = []
    /// Whether so much waits for the log that publishers are refused.
    var isFull = false
    /// Whether something has changed that acknowledgements, or publishers, wait for.
    var hasNews = false

    /// A message that is left to another node's members by way of the log, and is not in it yet.
    struct Dealt {
        var serial: UInt64 = 0
        let message: Message
        let share: LoggedShare
        let hops: UInt8
        let mark: DealtMark?
    }

    /// What share groups have dealt of it.
    let dealt: DealtPlaces
    /// In the order of their serials.
    var relogged: [Dealt] = []

    init(places: LogPlaces) {
        self.places = places
        dealt = DealtPlaces(partitions: places.places.count)
    }

    /// A session waits until a message is logged.
    func hold(_ message: Unlogged) {
        unlogged.append(message)
        unloggedNames.insert(message.name)
    }

    /// The messages of batches up to a serial whose sessions wait still.
    func takeUnlogged(through serial: UInt64) -> [Unlogged] {
        let count = unlogged.prefix { $0.serial <= serial }.count
        let taken = unlogged.prefix(count).filter { unloggedNames.remove($0.name) != nil }
        unlogged.removeFirst(count)
        return taken
    }

    /// The packet identifiers with which a session waits.
    func unlogged(of session: Session) -> [UInt16] {
        guard !unloggedNames.isEmpty else { return [] }
        return unlogged.filter { $0.session == (session.index, session.generation) && unloggedNames.contains($0.name) }
            .map(\.packetIdentifier)
    }

    /// Whether a session is waiting with this packet identifier; it does no more.
    func takeUnlogged(_ packetIdentifier: UInt16, of session: Session) -> Bool {
        unloggedNames.remove(Unlogged.name(of: (session.index, session.generation), packetIdentifier)) != nil
    }
}
