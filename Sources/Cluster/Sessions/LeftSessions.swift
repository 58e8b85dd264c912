public import BrokerModel
import Bytes

/// Carries out what `LeftSessions` decides. It does not call it from its methods.
public protocol LeftSessionsSink: AnyObject {
    /// Claims a session, as `SessionOwnership.adopt` does; `restored` or `notTaken` follows.
    func adopt(_ session: [UInt8])

    /// Puts a will into the log, where it stands once whoever else does so; `published` follows.
    func publish(_ will: SavedWill, of session: [UInt8])

    /// Stores the record without these wills; `saved` follows.
    func remove(_ wills: Set<WillName>, of session: [UInt8])

    /// Ends the session: its record is removed.
    func end(_ session: [UInt8])

    /// Lets go of a session for which there is nothing to do for now, so that a client that wants it need not wait.
    func letGo(_ session: [UInt8])
}

/// Sessions whose node is gone and whose clients do not come, of those that this node sees to: publishes their wills
/// when they are due, and ends them when their time is over.
///
///     waiting ──► adopting ──► taken ──► publishing ──► taken ──► removing ──► taken ──► over, or waiting for what is due next
///        └────────────┴──────────┴───────────┴────────────────────────┴──► another's
///
/// A will is published before it leaves the record, and stands in the log once whoever publishes it again: so it is
/// neither lost nor doubled, whenever this node dies. It is published after the claim is stored: so nobody publishes it
/// whose knowledge is of yesterday.
///
/// Times are in milliseconds since 1970. Few are worked off at a time.
public struct LeftSessions {
    private enum Phase {
        case adopting
        /// The session is this node's; these wills stand in the log.
        case taken(SessionRecord, published: Set<WillName>)
        case publishing(SessionRecord, published: Set<WillName>, WillName)
        case removing
    }

    private var handled: [[UInt8]: Phase] = [:]
    /// The sessions that go on with the next step.
    private var steps: [[UInt8]] = []
    /// When each that waits is due, in seconds; and those of each second, some of which may have changed their minds.
    private var waiting = BoundedSessionMap<UInt64>(countMax: Limits.leftSessionsMax, nameBytesMax: Limits.leftSessionBytesMax)
    private var calendar: [UInt64: [[UInt8]]] = [:]
    private var passedThrough: UInt64 = 0
    private var due = Deque<[UInt8]>()

    public init() {}

    public var isEmpty: Bool { handled.isEmpty && waiting.isEmpty }

    /// How many are looked after, those that wait included.
    public var count: Int { handled.count + waiting.count }

    /// Whether a session is claimed here although no client has asked for it, or about to be.
    public func isHandling(_ session: [UInt8]) -> Bool { handled[session] != nil }

    // MARK: Input

    /// Takes over the care of a session; see `SessionRecord.dutyAt`. A session that is due so late that its record is
    /// read again before is not kept.
    public mutating func record(_ session: [UInt8], dutyAt: UInt64?) {
        guard handled[session] == nil else { return }
        guard let dutyAt else {
            waiting[session] = nil
            return
        }
        let second = max(dutyAt / 1000 + (dutyAt == 0 ? 0 : 1), passedThrough + 1)
        guard waiting[session] != second else { return }
        // It would take the place of what is due before it is found again.
        guard passedThrough == 0 || second - passedThrough <= Limits.leftSessionsHorizonSeconds else {
            waiting[session] = nil
            return
        }
        guard waiting.hasRoom(for: session) else { return }
        waiting[session] = second
        calendar[second, default: []].append(session)
    }

    /// Goes on with a session whose claim is stored, and whose earlier owners have all stopped.
    public mutating func restored(_ session: [UInt8], _ record: SessionRecord) {
        guard case .adopting = handled[session] else { return }
        goOn(session, record)
    }

    /// Forgets a session that is another node's, has ended, or whose client has come.
    public mutating func notTaken(_ session: [UInt8]) {
        (handled[session], waiting[session]) = (nil, nil)
    }

    /// Takes note that a session's will is in the log.
    public mutating func published(_ session: [UInt8], _ name: WillName) {
        guard case .publishing(let record, let published, name) = handled[session] else { return }
        goOn(session, record, published: published.union([name]))
    }

    /// Takes note that the record is stored without the wills that were published.
    public mutating func saved(_ session: [UInt8], _ record: SessionRecord) {
        guard case .removing = handled[session] else { return }
        goOn(session, record)
    }

    private mutating func goOn(_ session: [UInt8], _ record: SessionRecord, published: Set<WillName> = []) {
        handled[session] = .taken(record, published: published)
        steps.append(session)
    }

    // MARK: Steps

    /// Does what is due; to be called soon after the other calls, and a few times a second while there are sessions.
    public mutating func step(wallClock now: UInt64, _ sink: some LeftSessionsSink) {
        passTime(now)
        while handled.count < Limits.leftSessionsHandledMax, let session = due.popFirst() {
            // It is another's since, or is due at another time.
            guard handled[session] == nil, waiting[session].map({ $0 <= passedThrough }) == true else { continue }
            waiting[session] = nil
            handled[session] = .adopting
            sink.adopt(session)
        }
        let ready = steps
        steps = []
        for session in ready { step(session, now: now, sink) }
    }

    private mutating func step(_ session: [UInt8], now: UInt64, _ sink: some LeftSessionsSink) {
        guard case .taken(let record, let published) = handled[session] else { return }
        if let will = record.dueWills(now: now).first(where: { !published.contains($0.name) }) {
            handled[session] = .publishing(record, published: published, will.name)
            return sink.publish(will, of: session)
        }
        if record.hasEnded(now: now) {
            handled[session] = nil
            return sink.end(session)
        }
        if !published.isEmpty {
            handled[session] = .removing
            return sink.remove(published, of: session)
        }
        handled[session] = nil
        sink.letGo(session)
        self.record(session, dutyAt: record.dutyAt)
    }

    private mutating func passTime(_ now: UInt64) {
        let second = now / 1000
        guard second > passedThrough else { return }
        // Once a second, of as many entries as there are seconds up to the horizon.
        for key in calendar.keys.filter({ $0 <= second }).sorted() {
            due.append(contentsOf: calendar.removeValue(forKey: key) ?? [])
        }
        passedThrough = second
    }
}

/// Something of each of many sessions, by their Client Identifiers, as far as there is room: who puts in another one
/// asks for that first.
public struct BoundedSessionMap<Value> {
    private var values: [[UInt8]: Value] = [:]
    /// Bytes of the Client Identifiers.
    private var byteCount = 0
    private let countMax: Int
    private let nameBytesMax: Int

    /// - Parameters:
    ///   - countMax: how many sessions.
    ///   - nameBytesMax: how many bytes their Client Identifiers have together.
    public init(countMax: Int, nameBytesMax: Int) { (self.countMax, self.nameBytesMax) = (countMax, nameBytesMax) }

    public var isEmpty: Bool { values.isEmpty }
    public var count: Int { values.count }

    /// Whether a session is there, or may be.
    public func hasRoom(for session: [UInt8]) -> Bool {
        values[session] != nil || count < countMax && byteCount + session.count <= nameBytesMax
    }

    public subscript(session: [UInt8]) -> Value? {
        get { values[session] }
        set {
            if (values[session] == nil) != (newValue == nil) { byteCount += newValue == nil ? -session.count : session.count }
            values[session] = newValue
        }
    }

    public mutating func removeAll() { (values, byteCount) = ([:], 0) }
}

extension Limits {
    /// Sessions of nodes that are gone that one node looks after; more are found when these are done with. Bytes:
    /// `leftSessionBytesMax`.
    static let leftSessionsMax = 200_000

    /// Bytes of their Client Identifiers; beyond them the same.
    static let leftSessionBytesMax = 16 << 20

    /// How far ahead what is due is kept, in seconds: twice the time after which all records are read again.
    static let leftSessionsHorizonSeconds: UInt64 = 600

    /// Of how many of them the record is being written, or a will published, at the same time.
    /// Bytes: 80 KiB each at most, those of a record.
    static let leftSessionsHandledMax = 64
}
