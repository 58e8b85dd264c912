public import MQTTCodec

/// The bans that hold. A value: the control thread has the one that counts, and gives each loop a copy when it changes.
///
/// What the broker bans by itself has places of its own: however many there are, an administrator's ban finds one.
///
/// Invariants: one ban for each target; at most `SharedLimits.bansMax` of administrators, with
/// `SharedLimits.bansBytesMax`, and at most `SharedLimits.automaticBansMax` of the broker's own, with
/// `SharedLimits.automaticBansBytesMax`, of which at most `SharedLimits.automaticBansPerOriginMax` for what one user or
/// one address has done; `networkBits` counts the networks by their length.
public struct BanList: Sendable, Equatable {
    /// Bans of administrators at the same time: no more are made.
    public static var largestCount: Int { SharedLimits.bansMax }
    /// Bytes that they take: no more are made.
    public static var largestBytes: Int { SharedLimits.bansBytesMax }

    private var names: [BanKind: [EncodedString: Ban]] = [:]
    private var addresses: [AddressRange: Ban] = [:]
    private var networks: [AddressRange: Ban] = [:]
    /// Of clients as one user comes with them from one address.
    private var scoped: [BanTarget: Ban] = [:]
    private var networkBits: [Int: Int] = [:]
    /// The targets of the bans that the broker has made by itself.
    private var automatic: Set<BanTarget> = []
    private var originCounts: [Origin: Int] = [:]
    private var automaticBytes = 0
    private var administratorsBytes = 0
    public private(set) var count = 0

    public init() {}

    public var isEmpty: Bool { count == 0 }

    /// How many administrators have made.
    public var administratorsCount: Int { count - automatic.count }

    /// The bytes of memory that they take. O(1).
    package var heldBytes: Int { administratorsBytes + automaticBytes }

    /// By kind, then by name.
    public var all: [Ban] { Self.inOrder(unordered) }

    private var unordered: [Ban] {
        names.values.flatMap(\.values) + Array(addresses.values) + Array(networks.values) + Array(scoped.values)
    }

    private static func inOrder(_ bans: [Ban]) -> [Ban] {
        bans.map { (key: $0.target.sortKey, ban: $0) }.sorted { $0.key < $1.key }.map(\.ban)
    }

    public subscript(_ target: BanTarget) -> Ban? {
        if target.scope != nil { return scoped[target] }
        return switch target.kind {
        case .client, .user: target.name.flatMap { names[target.kind]?[$0] }
        case .address: target.range.flatMap { addresses[$0] }
        case .network: target.range.flatMap { networks[$0] }
        }
    }

    /// The bans that an administrator means by a target: the ban of it, and of a client those for single users and
    /// addresses too.
    public func targets(meant target: BanTarget) -> [BanTarget] {
        let whole = self[target] == nil ? [] : [target]
        guard target.kind == .client, target.scope == nil, !scoped.isEmpty else { return whole }
        return whole + scoped.keys.filter { $0.name == target.name }.sorted { $0.sortKey < $1.sortKey }
    }

    /// Whether a ban finds a place: the broker's own always do, one that is there already gives way.
    public func hasRoom(for ban: Ban) -> Bool {
        let old = self[ban.target]
        if ban.option != nil { return ban.heldBytes <= SharedLimits.automaticBansBytesMax }
        let (oldCount, oldBytes) = old.map { $0.option == nil ? (1, $0.heldBytes) : (0, 0) } ?? (0, 0)
        return administratorsCount - oldCount < SharedLimits.bansMax
            && administratorsBytes - oldBytes + ban.heldBytes <= SharedLimits.bansBytesMax
    }

    /// The bans that have to go before the broker makes another one by itself: the oldest ones of the same user or
    /// address, or of all. O(1) while there is room, else O(bans).
    public func givingWay(to ban: Ban) -> [Ban] {
        guard ban.option != nil else { return [] }
        let known = automatic.contains(ban.target) ? self[ban.target] : nil
        let origins = known == nil ? Origin.all(of: ban.target) : []
        let bytes = automaticBytes - (known?.heldBytes ?? 0) + ban.heldBytes
        let isFull = known == nil && automatic.count >= SharedLimits.automaticBansMax
        let fullOrigins = origins.filter { originCounts[$0] ?? 0 >= SharedLimits.automaticBansPerOriginMax }
        guard isFull || bytes > SharedLimits.automaticBansBytesMax || !fullOrigins.isEmpty else { return [] }
        var others = automatic.filter { $0 != ban.target }.compactMap { self[$0] }
        var gone: [Ban] = []
        func letOldestGo(where isMeant: (Ban) -> Bool) {
            let oldest = others.indices.filter { isMeant(others[$0]) }.min { left, right in
                let (left, right) = (others[left], others[right])
                return left.at == right.at ? left.target.sortKey < right.target.sortKey : left.at < right.at
            }
            if let oldest { gone.append(others.remove(at: oldest)) }
        }
        for origin in fullOrigins where !gone.contains(where: { origin.has($0.target) }) { letOldestGo { origin.has($0.target) } }
        func isTooMuch() -> Bool {
            isFull && gone.isEmpty || bytes - gone.reduce(0) { $0 + $1.heldBytes } > SharedLimits.automaticBansBytesMax
        }
        while !others.isEmpty, isTooMuch() { letOldestGo { _ in true } }
        return gone
    }

    /// A party that could have many bans made by names that it makes up.
    private enum Origin: Hashable {
        case party(String)
        case user(EncodedString)

        package static func all(of target: BanTarget) -> [Origin] {
            target.scope.map { scope in [.party(scope.party)] + (scope.user.map { [.user($0)] } ?? []) } ?? []
        }

        package func has(_ target: BanTarget) -> Bool {
            switch self {
            case .party(let party): target.scope?.party == party
            case .user(let user): target.scope?.user == user
            }
        }
    }

    /// Adds a ban, or puts it in the place of the one that its target has; false if there are as many as may be.
    public mutating func add(_ ban: Ban) -> Bool {
        guard hasRoom(for: ban) else { return false }
        for old in givingWay(to: ban) { remove(old.target) }
        remove(ban.target)
        put(ban, ban.target)
        count += 1
        if ban.target.kind == .network, let bits = ban.target.range?.bits { networkBits[bits, default: 0] += 1 }
        if ban.option == nil {
            administratorsBytes += ban.heldBytes
        } else {
            automatic.insert(ban.target)
            automaticBytes += ban.heldBytes
            for origin in Origin.all(of: ban.target) { originCounts[origin, default: 0] += 1 }
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
        guard automatic.remove(target) != nil else {
            administratorsBytes -= ban.heldBytes
            return ban
        }
        automaticBytes -= ban.heldBytes
        for origin in Origin.all(of: target) {
            let left = (originCounts[origin] ?? 0) - 1
            originCounts[origin] = left > 0 ? left : nil
        }
        return ban
    }

    /// Removes and returns the bans that have expired. O(bans).
    ///
    /// - Parameter now: milliseconds since 1970.
    public mutating func removeExpired(at now: UInt64) -> [Ban] {
        let expired = Self.inOrder(unordered.filter { $0.until.map { $0 <= now } ?? false })
        for ban in expired { remove(ban.target) }
        return expired
    }

    /// The ban that somebody falls under; nil for none. O(lengths of networks).
    ///
    /// - Parameters:
    ///   - client: its Client Identifier; nil if it is not known.
    ///   - user: its user name; nil for none.
    ///   - address: as `ConnectionInfo.address`; what is no address, such as a Unix socket's path, falls under no ban
    ///     of addresses.
    ///   - isIn: whether the client is connected: what others have done at its address keeps out who comes, and leaves
    ///     in who is in.
    public func ban(ofClient client: EncodedString?, user: EncodedString?, address: String, isIn: Bool = false) -> Ban? {
        guard count > 0 else { return nil }
        if let client, let ban = names[.client]?[client] { return ban }
        if let user, let ban = names[.user]?[user] { return ban }
        if let client, !scoped.isEmpty,
            let ban = scoped[BanTarget(client: client, BanScope(user: user, party: BanScope.party(of: address)))]
        {
            return ban
        }
        return ban(ofAddress: address) { !isIn || $0.option == nil }
    }

    /// The ban that an address falls under; nil for none. O(lengths of networks).
    public func ban(ofAddress address: String) -> Ban? { ban(ofAddress: address) { _ in true } }

    private func ban(ofAddress address: String, where counts: (Ban) -> Bool) -> Ban? {
        guard !addresses.isEmpty || !networks.isEmpty, let address = AddressRange(address), address.isAddress else { return nil }
        if let ban = addresses[address], counts(ban) { return ban }
        // The narrowest one says most.
        for bits in networkBits.keys.sorted(by: >) {
            if let ban = networks[address.prefix(bits)], counts(ban) { return ban }
        }
        return nil
    }

    private mutating func put(_ ban: Ban?, _ target: BanTarget) {
        if target.scope != nil {
            scoped[target] = ban
            return
        }
        switch target.kind {
        case .client, .user: if let name = target.name { names[target.kind, default: [:]][name] = ban }
        case .address: if let range = target.range { addresses[range] = ban }
        case .network: if let range = target.range { networks[range] = ban }
        }
    }
}

extension BanList {
    /// The list that holds on a node of a cluster which has just read all that the nodes share.
    ///
    /// - Parameters:
    ///   - shared: the cluster's bans.
    ///   - kept: whose bans were made here while the cluster was out of reach.
    ///   - hasJoined: whether this node has brought its own once: then what the cluster does not have was lifted.
    /// - Returns: the list, and what of it the cluster has yet to be told.
    public func merged(with shared: [Ban], keeping kept: Set<BanTarget>, hasJoined: Bool) -> (list: BanList, offered: [Ban]) {
        var list = BanList()
        // The cluster's first: of too many, what is left out is left out on all nodes.
        for ban in shared where !kept.contains(ban.target) || self[ban.target] == nil { _ = list.add(ban) }
        var offered: [Ban] = []
        for ban in all where kept.contains(ban.target) || (!hasJoined && list[ban.target] == nil) {
            if list.add(ban) { offered.append(ban) }
        }
        return (list, offered)
    }
}
