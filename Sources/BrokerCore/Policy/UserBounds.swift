public import BrokerModel
public import MQTTCodec

/// How many connections, sessions and subscriptions each user has, on all shards together: what
/// `martlet_max_connections_per_user` and its like bound. Of users that have none nothing is kept.
public struct UserPlaces: Sendable {
    private struct Counts {
        var counts: [Int] = [0, 0, 0]
    }

    private var users: [EncodedString: Counts] = [:]

    public init() {}

    /// Counts one in, unless the user has `max` already; nil for no limit.
    public mutating func enter(_ bound: UserBound, of user: EncodedString, max: Int?) -> Bool {
        guard users[user]?.counts[bound.place] ?? 0 < max ?? .max else { return false }
        users[user, default: Counts()].counts[bound.place] += 1
        return true
    }

    public mutating func leave(_ bound: UserBound, of user: EncodedString, count: Int) {
        guard var counts = users[user] else { return }
        counts.counts[bound.place] -= count
        users[user] = counts.counts.contains { $0 > 0 } ? counts : nil
    }

    /// How many users have any.
    public var userCount: Int { users.count }
}

extension UserBound {
    fileprivate var place: Int {
        switch self {
        case .connections: 0
        case .sessions: 1
        case .subscriptions: 2
        }
    }
}

/// What a session has of its user's places.
struct CountedUser {
    let user: EncodedString
    var hasSession = false
    var hasConnection = false
    var subscriptions = 0
}

/// Keeping users within what they may have at once. Only what has come since a bound is set counts.
///
///     CONNECT ─► takePlaces: 0x97, or a place as connection and one as session ─► settle: the session has them
///                                              connection ends, session ends ─► they are free again
struct UserBounds {
    let shard: BrokerShard

    private var bounds: UserBoundSettings { shard.settings.userBounds }
    private var count: any SessionCount { shard.sessions.ofBroker }

    /// The places of a connection that comes, and its session's, which are to be settled or given back.
    ///
    /// Who comes back to a session of theirs, or takes a connection of theirs over, has a place already: it is taken
    /// twice for the moment, so that nobody else gets it.
    func takePlaces(
        _ existing: ExistingSession, of user: EncodedString?, _ connection: Connection
    ) throws(ConnectRefusal) -> CountedUser? {
        guard let user, !bounds.isEmpty, !connection.client.isLocal else { return nil }
        let known = existing.session?.counted.flatMap { $0.user == user ? $0 : nil }
        var places = CountedUser(user: user)
        if let max = bounds.connectionsMax {
            guard count.enter(.connections, of: user, max: known?.hasConnection == true ? nil : max) else {
                throw refusal(.connections, user, max)
            }
            places.hasConnection = true
        }
        if let max = bounds.sessionsMax {
            guard count.enter(.sessions, of: user, max: known?.hasSession == true ? nil : max) else {
                giveBack(places)
                throw refusal(.sessions, user, max)
            }
            places.hasSession = true
        }
        return places
    }

    private func refusal(_ bound: UserBound, _ user: EncodedString, _ max: Int) -> ConnectRefusal {
        shard.statistics.userRefusals.count(bound)
        return ConnectRefusal(.quotaExceeded, "the user has \(max) \(bound.rawValue), and may have no more.")
    }

    func giveBack(_ places: CountedUser?) {
        guard let places else { return }
        if places.hasConnection { count.leave(.connections, of: places.user, count: 1) }
        if places.hasSession { count.leave(.sessions, of: places.user, count: 1) }
    }

    /// The session has the places from now on; what it had of the same is given back.
    func settle(_ places: CountedUser?, _ session: Session) {
        guard let places else { return }
        var counted = session.counted.flatMap { $0.user == places.user ? $0 : nil } ?? CountedUser(user: places.user)
        if places.hasConnection {
            if counted.hasConnection { count.leave(.connections, of: places.user, count: 1) }
            counted.hasConnection = true
        }
        if places.hasSession {
            if counted.hasSession { count.leave(.sessions, of: places.user, count: 1) }
            counted.hasSession = true
        }
        session.counted = counted
    }

    /// A session that the store has kept is not sent away.
    func restore(_ session: Session) {
        guard let user = session.owner.userName, !bounds.isEmpty else { return }
        var counted = CountedUser(user: user)
        if bounds.sessionsMax != nil { counted.hasSession = count.enter(.sessions, of: user, max: nil) }
        session.counted = counted
    }

    /// The client has gone.
    func connectionEnded(_ session: Session) {
        guard let counted = session.counted, counted.hasConnection else { return }
        session.counted?.hasConnection = false
        count.leave(.connections, of: counted.user, count: 1)
    }

    func sessionEnded(_ session: Session) {
        guard let counted = session.counted else { return }
        session.counted = nil
        if counted.hasConnection { count.leave(.connections, of: counted.user, count: 1) }
        if counted.hasSession { count.leave(.sessions, of: counted.user, count: 1) }
        if counted.subscriptions > 0 { count.leave(.subscriptions, of: counted.user, count: counted.subscriptions) }
    }

    /// Takes a place for a subscription that the session has not yet.
    ///
    /// - Returns: false if the user has as many as they may.
    func takeSubscription(_ session: Session) -> Bool {
        guard let max = bounds.subscriptionsMax, !session.owner.isBrokersOwn, let user = session.owner.userName else { return true }
        release(session)
        guard count.enter(.subscriptions, of: user, max: max) else {
            shard.statistics.userRefusals.count(.subscriptions)
            return false
        }
        var counted = session.counted ?? CountedUser(user: user)
        counted.subscriptions += 1
        session.counted = counted
        return true
    }

    /// One that the store has kept.
    func restoreSubscription(of session: Session) {
        guard bounds.subscriptionsMax != nil, let user = session.counted?.user else { return }
        if count.enter(.subscriptions, of: user, max: nil) { session.counted?.subscriptions += 1 }
    }

    /// Gives back the places of subscriptions that the session has no more.
    func release(_ session: Session) {
        guard let counted = session.counted, counted.subscriptions > session.heldSubscriptions else { return }
        count.leave(.subscriptions, of: counted.user, count: counted.subscriptions - session.heldSubscriptions)
        session.counted?.subscriptions = session.heldSubscriptions
    }
}
