import BrokerModel
import Bytes
import MQTTCodec

/// What a shard has to do with a cluster's log: how far it has read, and what waits for being logged.
final class ShardLog {
    /// A QoS 2 message of a client that lasts: it counts as received when it is logged. Until then its publisher has no
    /// PUBREC, and after a crash sends it again.
    struct Unlogged {
        let serial: UInt64
        /// That its entry went into, a bit each.
        let partitions: UInt64
        let session: Session.Identity
        let packetIdentifier: UInt16
        let digest: UInt64
        /// Of its step.
        let place: FlowStep.Place

        /// Tells it from all others that wait.
        var name: UInt64 { Self.name(of: session, packetIdentifier) }

        static func name(of session: Session.Identity, _ packetIdentifier: UInt16) -> UInt64 {
            UInt64(session.index) << 32 | UInt64(session.generation & 0xffff) << 16 | UInt64(packetIdentifier)
        }
    }

    /// How far the shard's sessions have been given what was read.
    var places: LogPositions
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
    /// The number of the newest step.
    private(set) var lastStep: UInt64 = 0
    /// The place of that of the newest message from a client.
    var lastReceived = FlowStep.Place.start
    /// The partitions that have not been read as far as they went when this node found them, if it has sessions of an
    /// earlier incarnation.
    var unread: Set<Int> = []
    /// Packet identifiers that clients have ended the flows of since the last step of their session, by its key.
    private var finished: [UInt64: [UInt16]] = [:]
    /// Whether so much waits for the log that publishers are refused.
    var isFull = false
    /// The partitions that have no room, a bit for each.
    var lackingRoom: UInt64 = 0
    var refusesPublishers: Bool { isFull || lackingRoom != 0 }

    /// Whether a message of a topic is refused.
    func refuses(_ topic: UnsafeRawBufferPointer) -> Bool {
        isFull || lackingRoom >> UInt64(BrokerShard.logPartition(of: topic, among: places.places.count)) & 1 == 1
    }

    /// Whether something has changed that acknowledgements, or publishers, wait for.
    var hasNews = false

    /// What share groups have dispatched of it.
    let dispatched: OpenDispatches
    /// The messages that were dispatched to earlier incarnations of the node; nil when all are settled.
    var earlierDispatches: EarlierDispatches?
    /// How far all is done, as the store has it, or a row of an earlier incarnation.
    var storedDispatch: StoredDispatches?
    var isDispatchStored = false
    /// Whether the last incarnation is over and the next one has not begun: the row stays as it is.
    var isBetweenIncarnations = false
    var relogged = RelogQueue()
    /// Rows of the present incarnation have higher numbers.
    var incarnationBegins: UInt64 = 0
    /// What sessions that an earlier incarnation has left were given in this one, and had in that.
    var givenOwed: Set<MessageName> = []

    /// Whether a session that an earlier incarnation has left was dispatched to it in this one. That it is not done
    /// with may be known of this one alone.
    func isOfThisIncarnation(_ entry: SharedEntry) -> Bool {
        (entry.mark != nil || entry.storeNumber > incarnationBegins) && !givenOwed.contains(entry.name)
    }

    /// A message that a share group has dispatched to a session of which the log is to know it.
    struct Kept {
        let dependency: DurabilityDependency
        let session: Session.Identity
        let name: MessageName
        /// What counts it as not done with until then; nil if it is given back to a session.
        let mark: DispatchToken?
    }

    /// In the order of their serials.
    var kept: [Kept] = []

    init(places: LogPositions) {
        self.places = places
        dispatched = OpenDispatches(partitions: places.places.count)
    }

    /// The place of another step. They rise also over a restart, and behind those of other nodes that are known.
    func nextStep(epoch: UInt64, shard: Int, milliseconds: UInt64) -> FlowStep.Place {
        lastStep = max((lastStep >> 8) + 1, Self.step(milliseconds) >> 8) << 8 | UInt64(shard)
        return FlowStep.Place(epoch: epoch, number: lastStep)
    }

    /// PUBCOMP has come: the session's next step says so.
    func recordFinished(_ packetIdentifier: UInt16, of session: Session) {
        finished[session.key, default: []].append(packetIdentifier)
    }

    func takeFinished(of session: Session) -> [UInt16] { finished.isEmpty ? [] : finished.removeValue(forKey: session.key) ?? [] }

    /// The first one of a millisecond.
    static func step(_ milliseconds: UInt64) -> UInt64 { (milliseconds &* 1000) << 8 }

    /// A step is known that has this number: the next ones are behind it.
    func recordStep(_ number: UInt64) { lastStep = max(lastStep, number) }

    /// Whether some session waits.
    var hasUnlogged: Bool { !unloggedNames.isEmpty }

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

    /// The message whose step has this number, if its session waits still; it does no more. O(log n).
    func takeUnlogged(numbered number: UInt64) -> Unlogged? {
        let place = unlogged.partitioningIndex { $0.place.number >= number }
        guard place < unlogged.count, unlogged[place].place.number == number, unloggedNames.remove(unlogged[place].name) != nil
        else { return nil }
        return unlogged[place]
    }

    /// The step of the oldest message with which a session waits; nil for none.
    func oldestUnlogged(of session: Session) -> FlowStep.Place? {
        guard !unloggedNames.isEmpty else { return nil }
        return unlogged.first { $0.session == session.identity && unloggedNames.contains($0.name) }?.place
    }

    /// The packet identifiers with which a session waits.
    func unlogged(of session: Session) -> [UInt16] {
        guard !unloggedNames.isEmpty else { return [] }
        return unlogged.filter { $0.session == session.identity && unloggedNames.contains($0.name) }
            .map(\.packetIdentifier)
    }

    /// Whether a session is waiting with this packet identifier; it does no more.
    func takeUnlogged(_ packetIdentifier: UInt16, of session: Session) -> Bool {
        unloggedNames.remove(Unlogged.name(of: session.identity, packetIdentifier)) != nil
    }
}

extension ShardLog: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.clusterLog != nil }
    static func step(_ shard: BrokerShard) { shard.clusterLog?.hasNews = false }

    static func deadline(_ shard: BrokerShard) -> UInt64? {
        guard let log = shard.clusterLog else { return nil }
        return log.hasNews || !log.dispatched.returned.isEmpty ? shard.now : nil
    }
}
