import BrokerModel
import MQTTCodec

/// What a shard has to do with sessions that are the cluster's: who waits for one, what comes, what goes, and what lacks some of the log.
///
///     CONNECT ─► claims ─► sessionClaimed ─┬─────────────────────────────────────────────► admit
///                                          └─► arrivals ─► (replays) ─► restored ────────►
///     sessionLeaves ─► departures ─► pieces ─► sessionGone, sessionStays
///
/// There is none where each node keeps its own sessions.
final class SessionMoves {
    /// A CONNECT that waits for its session.
    struct Claim {
        var connection: ConnectionID
        var packet: ConnectPacket
        var userName: EncodedString?
        var authenticationData: [UInt8]?
    }

    /// Something that is told when the journal is durable so far.
    struct Notice {
        let sequence: UInt64
        let identifier: EncodedString
        let arrival: UInt64
        let number: Int
        let isLast: Bool
    }

    /// What was put into the log for a session that is taken up from there, and is to be read.
    struct Mark {
        let number: UInt64
        /// The partitions in which it was not read yet.
        var unread: Set<Int>
    }

    /// That a session's client has sent with QoS 2 what may be in the log, or not.
    struct Doubt {
        let session: Session
        /// When its mark was put into the log last; 0 for never.
        var markedAt: UInt64 = 0
    }

    var claims: [EncodedString: Claim] = [:]
    /// By the session's key.
    var marks: [UInt64: Mark] = [:]
    /// By the session's key; until its mark is read.
    var doubts: [UInt64: Doubt] = [:]
    /// Sessions that arrive, until all of them is durable.
    var arrivals: [EncodedString: Arrival] = [:]
    var lastArrival: UInt64 = 0
    /// By the session's key.
    var departures: [UInt64: Departure] = [:]
    /// The departures that have something to do, or look each turn whether they have.
    var busyDepartures: [UInt64] = []
    /// Until when sessions have passed on to others what share groups had dealt them, or have got that from others, by the session's key.
    var passedOn: [UInt64: Durability.Moment] = [:]
    /// By the session's key.
    var replays: [UInt64: LogReplay] = [:]
    /// The holders of what share groups have dealt, as far as the log was read for sessions that are taken up.
    var holders = DealtHolders()
    /// The replays that were given something in this turn.
    var touchedReplays: [UInt64] = []
    /// Sessions that are claimed and whose clients wait until the log was read as far as it went, by which claim.
    var awaitingLog: [EncodedString: UInt64] = [:]
    /// What the cluster has stored of the sessions that are kept here, by the session's key.
    var saves: [UInt64: SessionSave] = [:]
    /// The keys of those of which something has changed since the last turn.
    var changedSaves: [UInt64] = []
    /// The keys of all, and some that are gone, in the order in which their places are looked at.
    var saveOrder: [UInt64] = []
    /// Where that goes on.
    var savePosition = 0
    var lastSaveNumber: UInt64 = 0
    /// The number of the newest will.
    var lastWill: UInt64 = 0
    /// What arrived and is not durable yet, in the order of its sequences.
    private var notices: [Notice] = []

    /// Whether the end of a turn has anything to do with it.
    var hasWork: Bool { hasNews || !notices.isEmpty || !busyDepartures.isEmpty || !touchedReplays.isEmpty || !changedSaves.isEmpty }

    /// When a departure stops waiting, in milliseconds; nil if none waits.
    var nextDeadline: UInt64? {
        busyDepartures.isEmpty ? nil : busyDepartures.compactMap { departures[$0]?.deadline }.min()
    }

    /// Whether the end of a turn has something to do that nothing else announces.
    var hasNews = false

    func announce(_ notice: Notice) { notices.append(notice) }

    /// The notices that are durable.
    func takeNotices(persisted: UInt64) -> [Notice] {
        let count = notices.prefix { $0.sequence <= persisted }.count
        guard count > 0 else { return [] }
        defer { notices.removeFirst(count) }
        return Array(notices.prefix(count))
    }

    func makeBusy(_ departure: Departure) {
        hasNews = true
        if !busyDepartures.contains(departure.session.key) { busyDepartures.append(departure.session.key) }
    }
}
