public import BrokerModel
import Bytes
/// What the cluster knows of a session: one entry in the engine, written by compare-and-set.
///
///     version 4 │ epoch │ owners │ identifier │ expiry │ wills │ away since │ 0, or 1 │ saved: epoch │ state │ places
///
/// Earlier versions were never released, and are refused. Numbers are variable integers; what has a length has it in
/// front, and so has what is counted.
public struct SessionRecord: Equatable, Sendable {
    /// A node that keeps the session, or has not been seen to have stopped.
    public struct Owner: Hashable, Sendable {
        public let node: NodeID
        /// The number of its lease's first entry: who has read the leases so far and does not find the node knows that
        /// it has ended.
        public let leaseSequence: UInt64

        public init(node: NodeID, leaseSequence: UInt64) {
            self.node = node
            self.leaseSequence = leaseSequence
        }
    }

    /// What its next owner needs if the last one is gone together with its disk. Nobody but the owners' shards reads
    /// it.
    public struct Saved: Equatable, Sendable {
        /// The claim by which the node kept it that has saved this; never 0.
        public var epoch: UInt64
        /// What the session is, without its messages.
        public var state: [UInt8]
        /// Places in the log before which the session had nothing left to do.
        public var places: [UInt8]

        public init(epoch: UInt64, state: [UInt8], places: [UInt8]) {
            (self.epoch, self.state, self.places) = (epoch, state, places)
        }
    }

    /// Grows with each CONNECT: a node that acts by an earlier epoch must not act any more.
    public var epoch: UInt64
    /// The node that keeps the session, first; behind it those that kept it before and may not know that they do not.
    public var owners: [Owner]
    /// The Client Identifier: another one than was asked for has the same key.
    public var identifier: [UInt8]
    /// In seconds; `UInt32.max` for ever.
    public var expiryInterval: UInt32
    /// The wills of earlier connections that are not known to be published, and that of the last one.
    public var wills: [SavedWill] = []
    /// Since when its client is away, in milliseconds since 1970; 0 while it is connected, or nobody has seen yet that
    /// its node is gone.
    public var awaySince: UInt64 = 0
    /// nil if nothing was saved, or what was is not to be used any more.
    public var saved: Saved?

    public init(epoch: UInt64, owners: [Owner], identifier: [UInt8] = [], expiryInterval: UInt32 = 0) {
        self.epoch = epoch
        self.owners = owners
        self.identifier = identifier
        self.expiryInterval = expiryInterval
    }
}

extension SessionRecord {
    private static let version: UInt8 = 4
    /// Epochs and times are below this, so that what is reckoned from them has room.
    private static let numbersEnd: UInt64 = 1 << 62

    public var encoded: [UInt8] {
        var bytes = [Self.version]
        VariableInteger.append(epoch, to: &bytes)
        VariableInteger.append(UInt64(owners.count), to: &bytes)
        for owner in owners {
            VariableInteger.append(owner.node.rawValue, to: &bytes)
            VariableInteger.append(owner.leaseSequence, to: &bytes)
        }
        VariableInteger.append(counted: identifier, to: &bytes)
        VariableInteger.append(UInt64(expiryInterval), to: &bytes)
        VariableInteger.append(UInt64(wills.count), to: &bytes)
        for will in wills {
            VariableInteger.append(will.name.epoch, to: &bytes)
            VariableInteger.append(will.name.number, to: &bytes)
            VariableInteger.append(UInt64(will.delayInterval), to: &bytes)
            VariableInteger.append(counted: will.message, to: &bytes)
            VariableInteger.append(counted: will.origin, to: &bytes)
        }
        VariableInteger.append(awaySince, to: &bytes)
        bytes.append(saved == nil ? 0 : 1)
        if let saved {
            VariableInteger.append(saved.epoch, to: &bytes)
            VariableInteger.append(counted: saved.state, to: &bytes)
            VariableInteger.append(counted: saved.places, to: &bytes)
        }
        return bytes
    }

    /// What stands in the tombstone of a session's end: that it is no record, and its last epoch.
    public static func tombstone(endedAt epoch: UInt64) -> [UInt8] {
        var bytes: [UInt8] = [0]
        VariableInteger.append(epoch, to: &bytes)
        return bytes
    }

    /// The last epoch of a session, of the tombstone of its end; 0 if that does not say.
    public static func epoch(ofTombstone bytes: [UInt8]) -> UInt64 {
        bytes.withUnsafeBytes { bytes in
            var reader = EnvelopeReader(bytes)
            guard reader.byte() == 0, let epoch = reader.integer(), epoch < numbersEnd else { return 0 }
            return epoch
        }
    }

    /// Reads a record; nil if it is none, or of a version that this node does not know.
    public init?(_ bytes: [UInt8]) {
        let read = bytes.withUnsafeBytes { bytes -> SessionRecord? in
            var reader = EnvelopeReader(bytes)
            guard let record = Self.read(&reader), reader.isAtEnd else { return nil }
            return record
        }
        guard let read else { return nil }
        self = read
    }

    private static func read(_ reader: inout EnvelopeReader) -> SessionRecord? {
        guard reader.byte() == version, let epoch = reader.integer(), epoch < numbersEnd, let ownerCount = reader.integer(),
            ownerCount > 0, ownerCount <= Limits.ownersMax
        else { return nil }
        var owners: [Owner] = []
        for _ in 0..<ownerCount {
            guard let node = reader.integer(), let sequence = reader.integer() else { return nil }
            owners.append(Owner(node: NodeID(node), leaseSequence: sequence))
        }
        guard let identifier = reader.counted(), let expiryInterval = reader.integer().flatMap({ UInt32(exactly: $0) }),
            let willCount = reader.integer()
        else { return nil }
        var record = SessionRecord(epoch: epoch, owners: owners, identifier: Array(identifier), expiryInterval: expiryInterval)
        for _ in 0..<willCount {
            guard let epoch = reader.integer(), let number = reader.integer(),
                let delay = reader.integer().flatMap({ UInt32(exactly: $0) }), let message = reader.counted(),
                let origin = reader.counted()
            else { return nil }
            let name = WillName(epoch: epoch, number: number)
            record.wills.append(SavedWill(name: name, delayInterval: delay, message: Array(message), origin: Array(origin)))
        }
        guard let awaySince = reader.integer(), awaySince < numbersEnd, let isSaved = reader.byte(), isSaved < 2 else { return nil }
        record.awaySince = awaySince
        guard isSaved == 1 else { return record }
        guard let epoch = reader.integer(), epoch > 0, let state = reader.counted(), let places = reader.counted() else {
            return nil
        }
        record.saved = Saved(epoch: epoch, state: Array(state), places: Array(places))
        return record
    }
}

/// The duties towards a session whose client does not come, and when they are due. Times are in milliseconds since
/// 1970.
extension SessionRecord {
    /// When the session ends if its client stays away; nil for never, and while it is not known since when it is away.
    public var endsAt: UInt64? {
        guard awaySince > 0, expiryInterval < .max else { return nil }
        return awaySince + UInt64(expiryInterval) * 1000
    }

    /// Whether the session's time is over. [MQTT-3.1.2-23 v5]
    public func hasEnded(now: UInt64) -> Bool { endsAt.map { $0 <= now } ?? false }

    /// The wills that are due while nobody comes, in the order in which they are published: after their delay, or when
    /// the session ends. [MQTT-3.1.2-8 v5]
    public func dueWills(now: UInt64) -> [SavedWill] {
        guard awaySince > 0 else { return [] }
        return wills.filter { hasEnded(now: now) || dueAt($0) <= now }.sorted { $0.name < $1.name }
    }

    /// The wills that are due although a client has come: of those who were away for longer than the delay, and of
    /// those whose connection has ended with its node and that have none. [MQTT-3.1.3-9 v5]
    ///
    /// - Parameters:
    ///   - cleanStart: whether the client begins anew: then a session whose client was connected ends with that
    ///     connection.
    ///   - now: the time.
    public func dueWills(atReturn cleanStart: Bool, now: UInt64) -> [SavedWill] {
        guard awaySince == 0 else { return dueWills(now: now) }
        return wills.filter { cleanStart || expiryInterval == 0 || $0.delayInterval == 0 }.sorted { $0.name < $1.name }
    }

    /// When whoever looks after the session has something to do next, if its node is gone: 0 for at once; nil for
    /// never.
    public var dutyAt: UInt64? {
        if awaySince == 0 { return wills.isEmpty && expiryInterval == .max ? nil : 0 }
        return (wills.map { dueAt($0) } + [endsAt].compactMap { $0 }).min()
    }

    private func dueAt(_ will: SavedWill) -> UInt64 { awaySince + UInt64(will.delayInterval) * 1000 }
}
