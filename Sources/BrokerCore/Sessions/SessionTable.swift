public import BrokerModel
public import MQTTCodec

/// The sessions of a shard, by Client Identifier and by index. Owns them, and one that has ended until the turn does:
/// what is being done for its client need not retain it.
struct SessionTable: ~Copyable {
    private var byIdentifier: [EncodedString: Session] = [:]
    private var byIndex: [Session?] = []
    private var generations: [UInt32] = []
    private var free: [UInt32] = []
    private var graveyard: [Session] = []
    /// The subscriptions of ended sessions that still stand in the tree.
    var ended = EndedSessions()
    /// Sessions of other shards that have full queues.
    var fullElsewhere = FullQueueTable()
    private var serial: UInt64 = 0
    private let shard: UInt64
    /// The sessions of all shards.
    let ofBroker: any SessionCount

    init(shard: Int, ofBroker: any SessionCount) { (self.shard, self.ofBroker) = (UInt64(shard), ofBroker) }

    var count: Int { byIdentifier.count }
    var all: some Sequence<Session> { byIndex.lazy.compactMap { $0 } }

    /// Above every index in use.
    var indexEnd: UInt32 { UInt32(byIndex.count) }

    /// The session at an index below `indexEnd`, where it stays as long as it lives; nil if there is none now.
    func session(at index: UInt32) -> Session? { byIndex[Int(index)] }

    /// The session that has a subscription, not retained; nil if it has ended, and the subscription is still to be
    /// taken out of the tree.
    @inline(__always)
    func subscriber(_ index: UInt32) -> Reference<Session>? {
        byIndex[Int(index)].map { Reference($0) }
    }

    /// The session at `index` if it still has this key.
    func find(index: UInt32, key: UInt64) -> Session? {
        guard index < byIndex.count, let session = byIndex[Int(index)], session.key == key else { return nil }
        return session
    }

    func find(index: UInt32, generation: UInt32) -> Session? {
        guard index < byIndex.count, let session = byIndex[Int(index)], session.generation == generation else { return nil }
        return session
    }

    func find(_ identity: Session.Identity) -> Session? { find(index: identity.index, generation: identity.generation) }
    func find(_ clientIdentifier: EncodedString) -> Session? { byIdentifier[clientIdentifier] }
    /// The session of a client whose identifier nobody has checked.
    func find(_ clientIdentifier: [UInt8]) -> Session? { EncodedString(clientIdentifier).flatMap { find($0) } }
    func find(_ clientIdentifier: UnsafeRawBufferPointer) -> Session? {
        EncodedString(validating: clientIdentifier).flatMap { find($0) }
    }

    /// Makes sure that no key up to this serial number is given again.
    mutating func skipKeys(through serial: UInt64) { self.serial = max(self.serial, serial) }

    /// - Parameter key: that of a session that was kept; nil for a new one.
    mutating func make(_ clientIdentifier: EncodedString, publisherKey: UInt64, key: UInt64? = nil) -> Session {
        if key == nil { serial += 1 }
        let index = free.popLast() ?? UInt32(byIndex.count)
        if index == byIndex.count {
            byIndex.append(nil)
            generations.append(0)
        }
        let session = Session(
            index: index, generation: generations[Int(index)], key: key ?? (serial << 8 | shard),
            clientIdentifier: clientIdentifier,
            publisherKey: publisherKey)
        byIndex[Int(index)] = session
        byIdentifier[clientIdentifier] = session
        return session
    }

    /// - Parameter keepsIndex: whether its index stays taken, because subscriptions name it.
    mutating func remove(_ session: Session, keepsIndex: Bool = false) {
        let index = session.index
        byIdentifier[session.clientIdentifier] = nil
        generations[Int(index)] &+= 1
        if !keepsIndex { free.append(index) }
        graveyard.append(session)
        byIndex[Int(index)] = nil
    }

    /// Lets another session have the index of one that has ended.
    mutating func giveBack(_ index: UInt32) { free.append(index) }

    mutating func endTurn() {
        if !graveyard.isEmpty { graveyard.removeAll(keepingCapacity: graveyard.count < Limits.endedSessionsCapacityMax) }
    }
}

/// The sessions of other shards that have full queues. Their filters stand in the tree, each with the index that the
/// session has here.
struct FullQueueTable {
    private struct Entry {
        let access: AccessPolicy?
        let part: TopicPart?
        var filters: Set<[UInt8]> = []
    }

    private var entries: [Entry?] = []
    private var indices: [UInt64: UInt32] = [:]
    private var free: [UInt32] = []

    var isEmpty: Bool { indices.isEmpty }

    /// Whether a message of the topic may reach the session at an index in use.
    func mayReceive(_ index: UInt32, _ topic: UnsafeRawBufferPointer) -> Bool {
        guard let entry = entries[Int(index)] else { return true }
        return (entry.part?.holds(topic) ?? true) && (entry.access?.mayReceive(topic: topic) ?? true)
    }

    /// Takes a session in that is not there.
    mutating func enter(_ key: UInt64, _ access: AccessPolicy?, _ part: TopicPart?) {
        let index = free.popLast() ?? UInt32(entries.count)
        if index == entries.count { entries.append(nil) }
        entries[Int(index)] = Entry(access: access, part: part)
        indices[key] = index
    }

    /// Notes a filter of a session, or forgets it.
    ///
    /// - Returns: the session's index; nil if it is not there, or nothing changes.
    mutating func record(_ filter: [UInt8], of key: UInt64, isThere: Bool) -> UInt32? {
        guard let index = indices[key] else { return nil }
        let hasChanged =
            isThere
            ? entries[Int(index)]?.filters.insert(filter).inserted ?? false
            : entries[Int(index)]?.filters.remove(filter) != nil
        return hasChanged ? index : nil
    }

    /// Lets go of a session; returns where it was and what it subscribed to, in no order. Nil if it is not there.
    mutating func leave(_ key: UInt64) -> (index: UInt32, filters: Set<[UInt8]>)? {
        guard let index = indices.removeValue(forKey: key), let entry = entries[Int(index)] else { return nil }
        entries[Int(index)] = nil
        free.append(index)
        return (index, entry.filters)
    }
}

/// How many sessions all shards of a broker have together, connected or not: what `global_max_clients` bounds.
///
/// Shared by all shards, on whatever threads they are. A session counts from when it is made, also for one that was
/// kept, until it ends.
public protocol SessionCount: AnyObject, Sendable {
    /// Counts a session in, unless there are `max` already; nil for no limit.
    func enter(max: Int?) -> Bool
    func leave()
    /// Counts in what a user has, unless there are `max` of it already; nil for no limit.
    func enter(_ bound: UserBound, of user: EncodedString, max: Int?) -> Bool
    /// So many of it are gone.
    func leave(_ bound: UserBound, of user: EncodedString, count: Int)
}
