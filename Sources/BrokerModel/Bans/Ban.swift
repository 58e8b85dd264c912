public import MQTTCodec

/// What a ban is for, as administrators call it.
public enum BanKind: String, CaseIterable, Sendable {
    /// A Client Identifier.
    case client = "clientid"
    case user = "username"
    /// An address.
    case address = "peerhost"
    /// Addresses that begin alike, such as `192.0.2.0/24`.
    case network = "peerhost_net"
}

/// The connections of a client that a ban is for: an offence under somebody else's Client Identifier must not keep out
/// the client that it belongs to.
public struct BanScope: Hashable, Sendable {
    /// Nil for those without a user name.
    public let user: EncodedString?
    /// As `party(of:)`.
    public let party: String

    public init(user: EncodedString?, party: String) { (self.user, self.party) = (user, party) }

    /// The party behind an address: in IPv6 the network of 64 bits. A text that is no address, such as a Unix socket's
    /// path, stands for itself.
    public static func party(of address: String) -> String { AddressRange.ofParty(address) ?? address }
}

/// An option by which the broker bans by itself; bans name it as the one who made them.
public enum BanOption: String, Sendable {
    case failedLogins = "martlet_ban_after"
    case flapping = "martlet_flapping"
}

/// The target of a ban, written in one way alone: `192.0.2.7/24` and `192.0.2.0/24` are the same network.
public struct BanTarget: Hashable, Sendable {
    public let kind: BanKind
    public let who: String
    /// Of an address or a network.
    package let range: AddressRange?
    /// A Client Identifier or a user name.
    package let name: EncodedString?
    /// Of a client: for whom alone; nil for everybody who comes with its name.
    public let scope: BanScope?

    /// Nil for a text that is no name, address or network, and for a network of all addresses: nobody would be left.
    public init?(_ kind: BanKind, _ who: String) {
        self.kind = kind
        scope = nil
        switch kind {
        case .client, .user:
            guard !who.isEmpty, let name = EncodedString(who) else { return nil }
            (self.who, self.name, range) = (who, name, nil)
        case .address:
            guard let range = AddressRange(who), range.isAddress, !who.utf8.contains(UInt8(ascii: "/")) else { return nil }
            (self.who, self.range, name) = ("\(range)", range, nil)
        case .network:
            guard who.utf8.contains(UInt8(ascii: "/")), let range = AddressRange(who), range.bits > 0, !range.isAllOfVersion4 else {
                return nil
            }
            let network = range.prefix(range.bits)
            (self.who, self.range, name) = (network.networkText, network, nil)
        }
    }

    /// A client's name as one user or address uses it, and nobody else with that name.
    public init(client: EncodedString, _ scope: BanScope) {
        (kind, who, range, name, self.scope) = (.client, "\(client)", nil, client, scope)
    }

    /// The key by which lists are sorted: one text, which no other target has.
    public var sortKey: String {
        // Neither a kind has a space in it nor a name U+0000.
        "\(kind.rawValue) \(who)" + (scope.map { "\0\($0.party)\0" + ($0.user.map { "\($0)\0" } ?? "") } ?? "")
    }

    /// The bytes of memory that its texts take.
    package var textBytes: Int {
        who.utf8.count + (name?.count ?? 0) + (scope.map { $0.party.utf8.count + ($0.user?.count ?? 0) } ?? 0)
    }
}

/// A ban: its target is refused, and disconnected, until a time or for ever.
public struct Ban: Hashable, Sendable {
    public let target: BanTarget
    /// The maker of the ban: an administrator, or the option by which the broker made it.
    public var by: String
    public var reason: String
    /// When it was made, in milliseconds since 1970.
    public var at: UInt64
    /// When it ends, in milliseconds since 1970; nil for never.
    public var until: UInt64?

    public init(_ target: BanTarget, by: String, reason: String, at: UInt64, until: UInt64?) {
        (self.target, self.by, self.reason, self.at, self.until) = (target, by, reason, at, until)
    }

    /// The option by which the broker has made it by itself; nil for an administrator's.
    public var option: BanOption? { BanOption(rawValue: by) }

    /// The bytes of memory that it takes, in all lists together.
    package var heldBytes: Int { 512 + target.textBytes + by.utf8.count + reason.utf8.count }
}

/// How often somebody may do what they should not before they are banned. `martlet_ban_after`, `martlet_flapping`
public struct BanRule: Hashable, Sendable {
    /// So many times in a window are too many.
    public var count: Int
    public var windowMilliseconds: UInt64
    public var banMilliseconds: UInt64

    public init(count: Int, windowMilliseconds: UInt64, banMilliseconds: UInt64) {
        (self.count, self.windowMilliseconds, self.banMilliseconds) = (count, windowMilliseconds, banMilliseconds)
    }
}

/// What may end in a ban.
public enum Offence: Hashable, Sendable {
    /// A login has failed, while `martlet_ban_after` counts them; whoever counts knows of all shards.
    case failedLogin(address: String)
    /// A client's connections have ended more often than `martlet_flapping` lets them; whose, and from where.
    case flapping(EncodedString, BanScope)
}

/// Counts how often each of many has done something: a window of time begins with the first time.
///
/// Invariant: at most `SharedLimits.offendersMax` are counted, and of one origin at most
/// `SharedLimits.offendersPerOriginMax`, so that names that somebody makes up do not take all places; while their
/// windows are not over, nobody else is.
public struct OffenceCounts<Key: Hashable & Sendable>: Sendable {
    private struct Window {
        package var count = 0
        package var since: UInt64
        package let origin: UInt64?
    }

    private var windows: [Key: Window] = [:]
    /// How many are counted of each origin.
    private var origins: [UInt64: Int] = [:]
    /// No window is over before.
    private var roomAt: UInt64 = 0

    public init() {}

    package var count: Int { windows.count }

    /// Counts once more; true if that is too many, and then the count begins anew.
    ///
    /// - Parameters:
    ///   - key: who has done it.
    ///   - origin: who could make up many keys; nil for nobody.
    ///   - rule: how often is too often.
    ///   - now: milliseconds on whatever clock.
    public mutating func isTooMany(_ key: Key, from origin: UInt64? = nil, by rule: BanRule, now: UInt64) -> Bool {
        var window = windows[key] ?? Window(since: now, origin: origin)
        if Self.isOver(window, rule, now) { (window.count, window.since) = (0, now) }
        window.count += 1
        guard window.count < rule.count else {
            remove(key)
            return true
        }
        if windows[key] == nil {
            guard hasRoom(origin, rule, now) else { return false }
            if let origin { origins[origin, default: 0] += 1 }
        }
        windows[key] = window
        return false
    }

    /// Forgets all that was counted.
    public mutating func removeAll() { (windows, origins, roomAt) = ([:], [:], 0) }

    private static func isOver(_ window: Window, _ rule: BanRule, _ now: UInt64) -> Bool {
        now - min(now, window.since) >= rule.windowMilliseconds
    }

    /// O(1), but for once in a window.
    private mutating func hasRoom(_ origin: UInt64?, _ rule: BanRule, _ now: UInt64) -> Bool {
        func isFull() -> Bool {
            windows.count >= SharedLimits.offendersMax
                || origin.map { origins[$0] ?? 0 >= SharedLimits.offendersPerOriginMax } ?? false
        }
        guard isFull(), now >= roomAt else { return !isFull() }
        for (key, window) in windows where Self.isOver(window, rule, now) { remove(key) }
        roomAt = (windows.values.lazy.map(\.since).min() ?? now) + rule.windowMilliseconds
        return !isFull()
    }

    private mutating func remove(_ key: Key) {
        guard let window = windows.removeValue(forKey: key), let origin = window.origin, let count = origins[origin] else { return }
        origins[origin] = count > 1 ? count - 1 : nil
    }
}
