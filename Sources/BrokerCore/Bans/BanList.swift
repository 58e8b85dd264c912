public import MQTTCodec

/// Who is banned. A value: the control thread has the one that holds, and gives each loop a copy when it changes.
///
/// Invariant: at most `Limits.bansMax`, one for each target; `networkBits` counts the networks by their length.
public struct BanList: Sendable, Equatable {
    /// Bans at the same time: no more are made.
    public static var largestCount: Int { Limits.bansMax }

    private var names: [BanKind: [EncodedString: Ban]] = [:]
    private var addresses: [AddressRange: Ban] = [:]
    private var networks: [AddressRange: Ban] = [:]
    private var networkBits: [Int: Int] = [:]
    public private(set) var count = 0

    public init() {}

    public var isEmpty: Bool { count == 0 }

    /// By kind, then by name.
    public var all: [Ban] {
        let bans = names.values.flatMap(\.values) + Array(addresses.values) + Array(networks.values)
        return bans.sorted { ($0.target.kind.rawValue, $0.target.who) < ($1.target.kind.rawValue, $1.target.who) }
    }

    public subscript(_ target: BanTarget) -> Ban? {
        switch target.kind {
        case .client, .user: target.name.flatMap { names[target.kind]?[$0] }
        case .address: target.range.flatMap { addresses[$0] }
        case .network: target.range.flatMap { networks[$0] }
        }
    }

    /// Adds a ban, or puts it in the place of the one that its target has; false if there are as many as may be.
    public mutating func add(_ ban: Ban) -> Bool {
        let isNew = self[ban.target] == nil
        guard !isNew || count < Self.largestCount else { return false }
        put(ban, ban.target)
        if isNew {
            count += 1
            if ban.target.kind == .network, let bits = ban.target.range?.bits { networkBits[bits, default: 0] += 1 }
        }
        return true
    }

    /// Takes a ban out; nil if there is none of this target.
    @discardableResult
    public mutating func remove(_ target: BanTarget) -> Ban? {
        guard let ban = self[target] else { return nil }
        put(nil, target)
        count -= 1
        if target.kind == .network, let bits = target.range?.bits, let others = networkBits[bits] {
            networkBits[bits] = others > 1 ? others - 1 : nil
        }
        return ban
    }

    /// Takes out those whose time is over. O(bans).
    ///
    /// - Parameter now: milliseconds since 1970.
    public mutating func removeExpired(at now: UInt64) -> [Ban] {
        let expired = all.filter { $0.until.map { $0 <= now } ?? false }
        for ban in expired { remove(ban.target) }
        return expired
    }

    /// The ban that somebody falls under; nil for none. O(lengths of networks).
    ///
    /// - `address`: as `ConnectionInfo.address`; what is no address, such as a Unix socket's path, falls under no ban of addresses.
    public func ban(ofClient client: EncodedString?, user: EncodedString?, address: String) -> Ban? {
        guard count > 0 else { return nil }
        if let client, let ban = names[.client]?[client] { return ban }
        if let user, let ban = names[.user]?[user] { return ban }
        return ban(ofAddress: address)
    }

    /// The ban that an address falls under; nil for none. O(lengths of networks).
    public func ban(ofAddress address: String) -> Ban? {
        guard !addresses.isEmpty || !networks.isEmpty, let address = AddressRange(address), address.isAddress else { return nil }
        if let ban = addresses[address] { return ban }
        // The narrowest one says most.
        for bits in networkBits.keys.sorted(by: >) {
            if let ban = networks[address.prefix(bits)] { return ban }
        }
        return nil
    }

    private mutating func put(_ ban: Ban?, _ target: BanTarget) {
        switch target.kind {
        case .client, .user: if let name = target.name { names[target.kind, default: [:]][name] = ban }
        case .address: if let range = target.range { addresses[range] = ban }
        case .network: if let range = target.range { networks[range] = ban }
        }
    }
}
