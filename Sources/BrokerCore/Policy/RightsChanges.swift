import BrokerModel
public import MQTTCodec

/// The users whose rights dynamic security has changed while the broker runs.
public struct RightsChange: Sendable {
    /// By user name.
    public var users: Set<EncodedString>
    /// Clients without a user name.
    public var hasAnonymous: Bool
    /// Everybody, whatever else it says.
    public var hasEverybody: Bool
    /// Those who have groups or roles by their certificates, whatever they are called.
    public var hasMembers: Bool
    /// Whether their connections end: a 5.0 client is told Administrative action (0x98), no will is published, and a
    /// session that stays loses the subscriptions that its client may not have any more.
    public var kicks: Bool

    public init(
        users: Set<EncodedString> = [], hasAnonymous: Bool = false, hasEverybody: Bool = false, hasMembers: Bool = false,
        kicks: Bool
    ) {
        (self.users, self.hasAnonymous, self.hasEverybody, self.kicks) = (users, hasAnonymous, hasEverybody, kicks)
        self.hasMembers = hasMembers
    }

    func concerns(_ session: Session) -> Bool {
        if session.owner.isBrokersOwn || session.owner.listener == nil { return false }
        if hasEverybody || hasMembers && session.grant?.memberships.isEmpty == false { return true }
        return session.owner.userName.map { users.contains($0) } ?? hasAnonymous
    }
}

/// Changes of rights that a shard has still to bring to its sessions: two walks through all of them, each over as many
/// turns as it takes.
///
///     told ─► the first walk gives those concerned their rights anew ─► the second ends their connections, which takes longer
///
/// Changes that come during a walk wait for the next one, which is about all changes until it begins. Owned by a shard,
/// used on its thread only.
struct RightsUpdates {
    /// A walk: what it is about, and the index of the session that comes next.
    struct Walk {
        let changes: [RightsChange]
        var index: UInt32 = 0

        func concerns(_ session: Session) -> Bool { changes.contains { $0.concerns(session) } }
    }

    /// The subscriptions of one session, which are looked at over as many turns as it takes.
    struct Check {
        let sessionKey: UInt64
        /// The indexes of their records as the look began: one that has ended since is nobody's or another's.
        var records: [UInt32]
        var groups: [TopicFilter]
    }

    private var untold: [RightsChange] = []
    var renewal: Walk?
    var dismissal: Walk?
    /// Of the session at which the second walk stands; nil before any of its subscriptions was looked at.
    var check: Check?
    private var leaving: [RightsChange] = []
    /// How many steps were made so far: tests see by it how much a turn does.
    var stepCount = 0

    var isEmpty: Bool { renewal == nil && dismissal == nil && untold.isEmpty && leaving.isEmpty }

    mutating func add(_ change: RightsChange) { untold.append(change) }

    /// Begins the walks that can begin.
    mutating func begin() {
        if renewal == nil, !untold.isEmpty {
            renewal = Walk(changes: untold)
            untold = []
        }
        if renewal == nil, dismissal == nil, !leaving.isEmpty {
            dismissal = Walk(changes: leaving)
            leaving = []
        }
    }

    /// All have their new rights.
    mutating func endRenewal() {
        leaving += (renewal?.changes ?? []).filter(\.kicks)
        renewal = nil
    }
}

/// Brings changed rights to the sessions that are there, some in each turn.
struct RightsChanges {
    let shard: BrokerShard

    /// Goes on with bringing changed rights to the sessions.
    func stepRights() {
        shard.policy.rights.begin()
        if var walk = shard.policy.rights.renewal {
            let isOver = step(&walk) { session, _ in
                shard.accessChecks.renewAccess(session)
                return (Limits.rightsStepsOfRenewal, true)
            }
            shard.policy.rights.renewal = walk
            if isOver { shard.policy.rights.endRenewal() }
        } else if var walk = shard.policy.rights.dismissal {
            let isOver = step(&walk) { shard.rightsChanges.dismiss($0, $1) }
            shard.policy.rights.dismissal = isOver ? nil : walk
        }
    }

    /// Looks at the next sessions, each a step, until the turn's steps are made.
    ///
    /// - Parameter body: gets how many steps are left, and says how many more a session has taken, and whether it is
    ///   done with.
    /// - Returns: whether all sessions were looked at. One that is made meanwhile has its rights already.
    private func step(_ walk: inout RightsUpdates.Walk, _ body: (Session, Int) -> (steps: Int, isDone: Bool)) -> Bool {
        let end = shard.sessions.indexEnd
        var steps = 0
        while walk.index < end, steps < Limits.rightsStepsPerTurn {
            steps += 1
            guard let session = shard.sessions.session(at: walk.index), walk.concerns(session) else {
                walk.index += 1
                continue
            }
            let (taken, isDone) = body(session, Limits.rightsStepsPerTurn - steps)
            steps += taken
            if isDone { walk.index += 1 }
        }
        shard.policy.rights.stepCount += steps
        return walk.index >= end
    }

    /// Ends the connection of a session's client, if there is one, when its subscriptions were looked at, if it stays.
    ///
    /// - Returns: how many steps that took, and whether it is done.
    private func dismiss(_ session: Session, _ stepsLeft: Int) -> (steps: Int, isDone: Bool) {
        var steps = 0
        if session.expiryIntervalSeconds > 0, let access = session.owner.access {
            steps = removeForbiddenSubscriptions(of: session, access, stepsLeft)
            guard shard.policy.rights.check == nil else { return (steps, false) }
        }
        guard let connection = session.connection?.object else { return (steps, true) }
        session.will = nil
        shard.disconnecting.refuse(connection, .administrativeAction, because: "its login or its rights have changed.")
        return (steps + Limits.rightsStepsOfDismissal, true)
    }

    /// Looks at the subscriptions of a session, as far as the steps go; `rights.check` is nil when all were looked at.
    ///
    /// - Returns: how many steps that took.
    private func removeForbiddenSubscriptions(of session: Session, _ access: AccessPolicy, _ stepsLeft: Int) -> Int {
        var check = shard.policy.rights.check.flatMap { $0.sessionKey == session.key ? $0 : nil } ?? beginCheck(of: session)
        var steps = 0
        var hasChanged = false
        while steps < stepsLeft, let filter = nextSubscription(&check, of: session) {
            steps += Limits.rightsStepsOfSubscription + OpenPackets.steps(of: filter)
            // What asks for a QoS comes with a login, and was asked when the client subscribed.
            guard !access.maySubscribe(filter, qos: nil, asksLists: false), shard.subscribing.unsubscribe(session, filter) else {
                continue
            }
            hasChanged = true
            if shard.presence.reportsPresence { shard.presence.reportSubscription(of: session, filter, nil, isNew: false) }
        }
        if hasChanged {
            shard.memoryBound.recount(session)
            shard.saves.markChanged(of: session)
        }
        shard.policy.rights.check = check.records.isEmpty && check.groups.isEmpty ? nil : check
        return steps
    }

    private func beginCheck(of session: Session) -> RightsUpdates.Check {
        var check = RightsUpdates.Check(
            sessionKey: session.key, records: [], groups: session.groups.compactMap { $0.name.topicFilter })
        var record = session.firstSubscription
        while record != SubscriptionRecord.none {
            check.records.append(record)
            record = shard.tree.records[record].nextOfSession
        }
        return check
    }

    /// The filter that is looked at next; nil if there is none left.
    private func nextSubscription(_ check: inout RightsUpdates.Check, of session: Session) -> TopicFilter? {
        while let record = check.records.popLast() {
            guard let (subscriber, _) = shard.tree.holder(at: record), subscriber == .session(session.index) else { continue }
            if let filter = TopicFilter(shard.tree.filter(of: record)) { return filter }
        }
        return check.groups.popLast()
    }
}

extension RightsUpdates: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.policy.rights.isEmpty }
    static func step(_ shard: BrokerShard) { shard.rightsChanges.stepRights() }
}

extension Limits {
    /// Steps in a turn of bringing changed rights to sessions, each session that is looked at being one; the next turn
    /// goes on. A millisecond or two.
    static let rightsStepsPerTurn = 2500

    /// Such steps that it takes to give a session its rights anew.
    static let rightsStepsOfRenewal = 10

    /// Such steps that it takes to look at a subscription, and to end it if it is not granted any more.
    static let rightsStepsOfSubscription = 10

    /// Such steps that it takes to send a client away: it costs its socket's end.
    static let rightsStepsOfDismissal = 100
}

extension BrokerShard {
    /// The rights of some clients have changed. They go by them after a bounded number of turns; those who are to go
    /// have gone after more. From the thread of the shard's loop.
    public func change(_ rights: RightsChange) { policy.rights.add(rights) }
}
