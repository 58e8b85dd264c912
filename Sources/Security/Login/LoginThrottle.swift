public import MQTTCodec
internal import Platform

/// Slows down whoever keeps failing to log in, by network and by client identifier, and tells whose password is to be
/// checked first.
///
/// The answer to a failure waits the longer the more failures went before: nothing for the first few, then 250 ms, 500
/// ms, … 8 s. An answer that lets a client in never waits: many clients may share an address, and one of them with an
/// outdated password must not lock out the others. A network that keeps failing has its passwords checked one by one,
/// half a second apart, and behind those of others: a check may cost a tenth of a second of a core. A client that has
/// logged in before, from there and by that name, waits for none of that until it fails itself.
///
/// A minute without failure forgives half of them. Shared by all loops; a failure costs a lock and a few short
/// searches, and a success the same. Bounded, see `ThrottleTable`.
public final class LoginThrottle: Sendable {
    /// The verdict on a failure: what is to be done about it.
    public struct Verdict: Sendable, Equatable {
        /// How long the client's answer has to wait, in milliseconds.
        public let delayMilliseconds: UInt64
        /// A line for the log, the first time that somebody is slowed down; nil otherwise.
        public let report: String?
    }

    private let record = Locked(Record())

    public init() {}

    /// Returns the subject that tries to log in.
    ///
    /// - Parameters:
    ///   - network: what one host cannot choose freely of its address.
    ///   - site: the larger network around it.
    ///   - userName: nil where it is not known yet.
    ///   - clientIdentifier: of the CONNECT.
    public func subject(
        network: some Hashable, site: some Hashable, userName: EncodedString?, clientIdentifier: EncodedString
    ) -> LoginSubject {
        record.withLock { record in
            let networkKey = record.slots.key(of: network, kind: Kind.network.rawValue)
            let client = record.slots.key(of: clientIdentifier, kind: Kind.clientIdentifier.rawValue)
            let user = userName.map { record.slots.key(of: $0, kind: Kind.userName.rawValue) }
            return LoginSubject(
                network: networkKey, site: record.slots.key(of: site, kind: Kind.site.rawValue), clientIdentifier: client,
                userName: user,
                acquaintance: user.map {
                    record.acquaintances.key(of: [networkKey, client, $0], kind: Kind.acquaintance.rawValue)
                })
        }
    }

    /// A login has failed.
    ///
    /// - Parameters:
    ///   - subject: who has failed.
    ///   - address: of the peer, as the log prints it.
    ///   - clientIdentifier: for the log.
    ///   - now: milliseconds of any monotonic clock.
    public func failed(_ subject: LoginSubject, address: String, clientIdentifier: EncodedString, now: UInt64) -> Verdict {
        record.withLock { record in
            let byNetwork = record.count(subject.network, now)
            let byClient = record.count(subject.clientIdentifier, now)
            let delay = Record.delay(after: max(record.slots[byNetwork].failures, record.slots[byClient].failures))
            _ = record.count(subject.site, now)
            if let userName = subject.userName { _ = record.count(userName, now) }
            if let slot = subject.acquaintance.flatMap(record.acquaintances.find) { record.acquaintances[slot].failures += 1 }
            guard delay > 0 else { return Verdict(delayMilliseconds: 0, report: nil) }
            var subjects: [String] = []
            if record.report(byNetwork) { subjects.append("from address \(address)") }
            if record.report(byClient) { subjects.append("with client identifier \(LoggedText(clientIdentifier.bytes))") }
            guard !subjects.isEmpty else { return Verdict(delayMilliseconds: delay, report: nil) }
            return Verdict(
                delayMilliseconds: delay,
                report: "Repeated failed logins \(subjects.joined(separator: " and ")); answers to further failures are delayed.")
        }
    }

    /// A login has succeeded: the client's own failures are forgotten, and one of its network's is forgiven. `now` as
    /// above.
    public func succeeded(_ subject: LoginSubject, now: UInt64) {
        record.withLock { record in
            if let slot = record.slots.find(subject.clientIdentifier) { record.slots[slot] = Slot() }
            record.forgiveOne(subject.network)
            record.forgiveOne(subject.site)
            if let userName = subject.userName { record.forgiveOne(userName) }
            guard let acquaintance = subject.acquaintance else { return }
            let slot = record.acquaintances.slot(of: acquaintance)
            record.acquaintances[slot] = Slot(lastUsedAt: now)
        }
    }

    /// How a login stands that waits for its check. `now` as above.
    func standing(of subject: LoginSubject, now: UInt64) -> LoginStanding {
        record.withLock { record in
            if let slot = subject.acquaintance.flatMap(record.acquaintances.find),
                record.acquaintances[slot].failures <= Limits.failuresFree
            {
                return LoginStanding(rank: 0, mayBeginAt: 0)
            }
            let network = record.slots.find(subject.network)
            let ofSite = record.failures(record.slots.find(subject.site), now)
            let ofUser = record.failures(subject.userName.flatMap(record.slots.find), now)
            return LoginStanding(
                rank: 1 + record.failures(network, now) + ofSite + ofUser,
                mayBeginAt: network.map { record.slots[$0].mayBeginAt } ?? 0)
        }
    }

    /// A check begins: the next one of a network that keeps failing has to wait. `now` as above.
    func began(_ subject: LoginSubject, now: UInt64) {
        record.withLock { record in
            guard let slot = record.slots.find(subject.network) else { return }
            record.slots[slot].mayBeginAt =
                now + min(Record.delay(after: record.failures(slot, now)), Limits.spacingMillisecondsMax)
        }
    }
}

/// The entries of those who failed and those who did well.
private struct Record {
    var slots = ThrottleTable<Slot>()
    /// Clients that have logged in well, apart from the others: failures, which cost nothing to make, cannot push them
    /// out.
    var acquaintances = ThrottleTable<Slot>()

    /// One more failure at a key's slot, after those that time has forgiven.
    mutating func count(_ key: UInt64, _ now: UInt64) -> Int {
        let slot = slots.slot(of: key)
        slots[slot].failures = failures(slot, now)
        if slots[slot].failures == 0 { slots[slot].isReported = false }
        slots[slot].failures = min(slots[slot].failures + 1, Limits.failuresMax)
        slots[slot].lastUsedAt = now
        return slot
    }

    mutating func forgiveOne(_ key: UInt64) {
        if let slot = slots.find(key), slots[slot].failures > 0 { slots[slot].failures -= 1 }
    }

    /// The failures at a slot that time has not forgiven.
    func failures(_ slot: Int?, _ now: UInt64) -> UInt32 {
        guard let slot, now > slots[slot].lastUsedAt else { return slot.map { slots[$0].failures } ?? 0 }
        let minutes = (now - slots[slot].lastUsedAt) / Limits.forgivenessMilliseconds
        return minutes >= 32 ? 0 : slots[slot].failures >> UInt32(minutes)
    }

    /// Whether the slot is over the limit and that has not been said yet.
    mutating func report(_ slot: Int) -> Bool {
        guard Self.delay(after: slots[slot].failures) > 0, !slots[slot].isReported else { return false }
        slots[slot].isReported = true
        return true
    }

    static func delay(after failures: UInt32) -> UInt64 {
        guard failures > Limits.failuresFree else { return 0 }
        return min(250 << UInt64(min(failures - Limits.failuresFree - 1, 16)), Limits.delayMillisecondsMax)
    }
}

private struct Slot: ThrottleEntry {
    var lastUsedAt: UInt64 = 0
    var failures: UInt32 = 0
    var isReported = false
    /// When a network may have its next password checked.
    var mayBeginAt: UInt64 = 0
}

private enum Kind: Int {
    case network
    case clientIdentifier
    case site
    case userName
    case acquaintance
}

/// The one who tries to log in, by the keys under which `LoginThrottle` remembers them.
public struct LoginSubject: Sendable {
    /// What one host cannot choose freely of its address.
    let network: UInt64
    /// The larger network around it, which may well be one attacker's.
    let site: UInt64
    let clientIdentifier: UInt64
    /// nil where it is not known yet.
    let userName: UInt64?
    /// All of them together, without the site: a client that comes again.
    let acquaintance: UInt64?
}

/// How a login stands beside others that wait with it.
struct LoginStanding {
    /// The rank of a login: one with fewer failures goes first; 0 for a client that has logged in well before. Failures
    /// of its network, its site and its user name.
    let rank: UInt32
    /// When its network may have its next password checked, in milliseconds; 0 for at once.
    let mayBeginAt: UInt64
}

/// An entry that is remembered for one key of a `ThrottleTable`.
protocol ThrottleEntry {
    /// Of a key that nothing is known of.
    init()
    /// The entry with the lowest is the first to be forgotten.
    var lastUsedAt: UInt64 { get }
}

/// A table of addresses and clients that come too often.
///
/// Bounded: 8,192 slots in sets of four; what is older gives way, so that an attacker with many addresses can make it
/// forget but not grow. Keys are hashed with a seed of the table's own, so that nobody outside knows who shares a set.
struct ThrottleTable<Entry: ThrottleEntry> {
    /// None before the first one is kept, as most brokers throttle nobody.
    private var keys: [UInt64] = []
    private var entries: [Entry] = []
    private let seed: UInt64

    init() { seed = RandomBytes.seed() }

    /// - Parameter position: of `find` or `slot`.
    subscript(position: Int) -> Entry {
        get { entries[position] }
        set { entries[position] = newValue }
    }

    /// The key of a subject; two kinds of subjects do not meet.
    func key(of subject: some Hashable, kind: Int = 0) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(seed)
        hasher.combine(kind)
        hasher.combine(subject)
        // 0 is a free slot.
        return UInt64(bitPattern: Int64(hasher.finalize())) | 1
    }

    /// Where a key stands, nil for nowhere.
    func find(_ key: UInt64) -> Int? { keys.isEmpty ? nil : set(of: key).first { keys[$0] == key } }

    /// Where a key stands, after having made a slot for it if there was none.
    mutating func slot(of key: UInt64) -> Int {
        if let known = find(key) { return known }
        if keys.isEmpty { makeSlots() }
        let set = set(of: key)
        let free = set.first { keys[$0] == 0 }
        let slot = free ?? set.min { entries[$0].lastUsedAt < entries[$1].lastUsedAt } ?? set.lowerBound
        keys[slot] = key
        entries[slot] = Entry()
        return slot
    }

    private mutating func makeSlots() {
        keys = Array(repeating: 0, count: Limits.throttledSets * Limits.throttledNetworksPerSet)
        entries = Array(repeating: Entry(), count: Limits.throttledSets * Limits.throttledNetworksPerSet)
    }

    private func set(of key: UInt64) -> Range<Int> {
        let first = Int((key >> 1) % UInt64(Limits.throttledSets)) * Limits.throttledNetworksPerSet
        return first..<(first + Limits.throttledNetworksPerSet)
    }
}

/// Bounds how many connections one network opens in a second: `martlet_max_connections_per_second_per_address`.
///
/// A network may open a second's worth at once; after that one more whenever its part of a second has passed. What
/// counts is only what was let in, so that a client that hammers gets its share and no less. Shared by all loops; a
/// connection costs a lock and one short search. Bounded, see `ThrottleTable`.
public final class ConnectionThrottle: Sendable {
    public enum Verdict: Sendable, Equatable {
        case admitted
        /// - isNews: whether this network was not refused since it was last admitted, so that there is something to be
        ///   said.
        case refused(isNews: Bool)
    }

    private struct Slot: ThrottleEntry {
        /// When all that was let in would have come at an even pace, in microseconds; in the past for who has its whole
        /// second free.
        var lastUsedAt: UInt64 = 0
        var isReported = false
    }

    private let table = Locked(ThrottleTable<Slot>())

    public init() {}

    /// A connection has come.
    ///
    /// - Parameters:
    ///   - network: what is bounded.
    ///   - perSecondMax: how many a second, 1 or more.
    ///   - now: milliseconds of any monotonic clock.
    public func connected(from network: some Hashable, perSecondMax: Int, now: UInt64) -> Verdict {
        let nowMicroseconds = now * 1000
        let spacing = Self.secondMicroseconds / UInt64(max(1, perSecondMax))
        return table.withLock { slots in
            let slot = slots.slot(of: slots.key(of: network))
            let next = max(slots[slot].lastUsedAt, nowMicroseconds) + spacing
            guard next <= nowMicroseconds + Self.secondMicroseconds else {
                defer { slots[slot].isReported = true }
                return .refused(isNews: !slots[slot].isReported)
            }
            slots[slot] = Slot(lastUsedAt: next)
            return .admitted
        }
    }

    private static let secondMicroseconds: UInt64 = 1_000_000
}

extension Limits {
    /// Failed logins of a network that cost nothing: people mistype.
    static let failuresFree: UInt32 = 3

    /// Failures that are counted for a network; more cost no longer a delay.
    static let failuresMax: UInt32 = 64

    /// The longest that an answer to a failed login is held back, in milliseconds.
    static let delayMillisecondsMax: UInt64 = 8_000

    /// After how many milliseconds half of a network's failures are forgotten.
    static let forgivenessMilliseconds: UInt64 = 60_000

    /// The longest that a network that keeps failing waits from one check of a password to the next, in milliseconds: a
    /// client that comes from there for the first time waits with it.
    static let spacingMillisecondsMax: UInt64 = 500

    /// Networks are remembered in sets; a network that finds its set full takes the slot of the one seen longest ago.
    static let throttledSets = 2048

    /// Networks in one set.
    static let throttledNetworksPerSet = 4
}
