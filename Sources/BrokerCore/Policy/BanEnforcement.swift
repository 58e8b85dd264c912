public import BrokerModel
import MQTTCodec

/// The bans of a shard, and the offences that it counts.
struct Banning {
    var list = BanList()
    /// The rows of bans in the store; on shard 0.
    var rowKeys: [BanTarget: UInt64] = [:]
    /// The slot of connections at which the look for banned clients goes on; nil when all were looked at.
    var sweepSlot: Int?
    /// How often connections of each client have ended lately, by the hash of client, user and address.
    var flapping = OffenceCounts<UInt64>()

    /// Whether connections are left to be looked at.
    var hasWork: Bool { sweepSlot != nil }
}

/// Keeping out who is banned. What the broker bans by itself is whoever has done what it is for, so that nobody gets
/// somebody else banned: a client name together with the user and the address that it came with, or an address for
/// those who come anew.
///
/// ```
///     apply(list) ─► the rows of the store (shard 0) ─► sweep: ends the connections of banned clients, some in each turn
///     CONNECT     ─► checkBan: before anybody looks at the password, and once more when the user is known
/// ```
struct BanEnforcement {
    let shard: BrokerShard

    /// Refuses a client that is banned.
    func checkBan(_ connect: PendingConnect, _ connection: Connection) throws(ConnectRefusal) {
        if !shard.bans.isEmpty, !connection.client.isLocal,
            shard.bans.ban(ofClient: connect.clientIdentifier, user: connect.userName, address: connection.info.address) != nil
        {
            throw ConnectRefusal(.banned, "it is banned.", failure: .banned)
        }
    }

    /// Looks at some of the connections for clients that are banned.
    func stepBanSweep() {
        guard let place = shard.policy.banning.sweepSlot else { return }
        var next = place
        let end = min(place + Limits.banSweepConnectionsPerTurn, shard.connections.slotCount)
        var left = Limits.banSweepEndsPerTurn
        while next < end, left > 0 {
            let slot = next
            next += 1
            guard let connection = shard.connections.connection(inSlot: slot), connection.state == .connected,
                !connection.client.isLocal,
                let session = connection.session,
                let ban = shard.bans.ban(
                    ofClient: session.clientIdentifier, user: connection.client.userName, address: connection.info.address,
                    isIn: true)
            else { continue }
            left -= 1
            shard.disconnecting.refuse(
                connection, .administrativeAction, because: ban.reason.isEmpty ? "it is banned." : "it is banned: \(ban.reason)")
        }
        shard.policy.banning.sweepSlot = next < shard.connections.slotCount ? next : nil
    }

    // MARK: Offences

    /// A client's connection has ended. Being sent away is nothing that it has done.
    ///
    /// It counts for the client as its user came with it from this address: who comes with somebody else's Client
    /// Identifier is counted apart.
    func countFlapping(of connection: Connection, _ client: EncodedString, _ reason: ReasonCode?) {
        guard let rule = shard.settings.flapping, reason != .administrativeAction, reason != .serverShuttingDown,
            reason != .useAnotherServer
        else { return }
        let party = BanScope.party(of: connection.info.address)
        let place = flappingKey(ofParty: party)
        if shard.policy.banning.flapping.isTooMany(
            flappingKey(client, connection.client.userName, place), from: place, by: rule, now: shard.now)
        {
            shard.effects.append(.offence(.flapping(client, BanScope(user: connection.client.userName, party: party))))
        }
    }

    /// Whether a client that comes is the one that is there, as far as bans know: its user from the same address.
    func isOneParty(_ old: Connection, _ newcomer: Connection, _ userName: EncodedString?) -> Bool {
        old.client.userName == userName && BanScope.party(of: old.info.address) == BanScope.party(of: newcomer.info.address)
    }

    private func flappingKey(ofParty party: String) -> UInt64 { Array(party.utf8).withUnsafeBytes { shard.placement.hash($0) } }

    private func flappingKey(_ client: EncodedString, _ user: EncodedString?, _ place: UInt64) -> UInt64 {
        let name = client.bytes.withUnsafeBytes { shard.placement.hash($0) }
        // No user is none of any name.
        let user = user.map { $0.bytes.withUnsafeBytes { shard.placement.hash($0) } | 1 } ?? 2
        return TopicHash.mix(TopicHash.mix(name ^ shard.placement.hashing.seed, user), place | 1)
    }

    /// A login has failed.
    func countFailedLogin(of connection: Connection, _ failure: LoginFailure) {
        guard shard.settings.countsFailedLogins, failure != .banned, !connection.client.isLocal else { return }
        shard.effects.append(.offence(.failedLogin(address: connection.info.address)))
    }

    // MARK: The store

    /// A ban that the store has kept. Before the first turn, on shard 0.
    func restore(_ ban: Ban, key: UInt64) -> Bool {
        // One that gives way to it, and its row, go when the list is given out.
        guard shard.bans[ban.target] == nil, shard.policy.banning.list.add(ban) else { return false }
        shard.policy.banning.rowKeys[ban.target] = key
        return true
    }

    /// Writes down what has changed. O(bans).
    fileprivate func storeRows(of wanted: BanList) {
        guard let journal = shard.journal else { return }
        for (target, key) in shard.policy.banning.rowKeys.sorted(by: { $0.value < $1.value }) where wanted[target] == nil {
            journal.delete(.broker, key: key)
            shard.policy.banning.rowKeys[target] = nil
        }
        for ban in wanted.all where shard.bans[ban.target] != ban {
            let body = StoredBan(ban).encoded()
            if let key = shard.policy.banning.rowKeys[ban.target] {
                journal.update(.broker, key: key, body)
            } else {
                let key = journal.nextNumber()
                shard.policy.banning.rowKeys[ban.target] = key
                journal.insert(.broker, key: key, body)
            }
        }
    }
}

extension Banning: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.policy.banning.hasWork }
    static func step(_ shard: BrokerShard) { shard.banEnforcement.stepBanSweep() }
}

extension Limits {
    /// Connections that are looked at in a turn for clients that are banned; the others wait for the next turn.
    static let banSweepConnectionsPerTurn = 2000

    /// Banned clients' connections that are ended in a turn; the others wait for the next. Each is some 15 µs of work.
    static let banSweepEndsPerTurn = 128
}

extension BrokerShard {
    /// The bans that are in force.
    public var bans: BanList { policy.banning.list }

    /// Goes by another list of bans from now on: who is on it is not let in, and who is connected has to go.
    public func apply(_ bans: BanList) {
        if index == 0 { banEnforcement.storeRows(of: bans) }
        policy.banning.list = bans
        policy.banning.sweepSlot = bans.isEmpty ? nil : 0
    }
}
