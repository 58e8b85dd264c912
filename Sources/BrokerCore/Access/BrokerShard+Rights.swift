public import MQTTCodec

/// Whose rights dynamic security has changed, while the broker runs.
public struct RightsChange: Sendable {
    /// By user name.
    public var users: Set<EncodedString>
    /// Clients without a user name.
    public var hasAnonymous: Bool
    /// Everybody, whatever else it says.
    public var hasEverybody: Bool
    /// Whether their connections end: a 5.0 client is told Administrative action (0x98), no will is published, and a session that stays
    /// loses the subscriptions that its client may not have any more.
    public var kicks: Bool

    public init(users: Set<EncodedString> = [], hasAnonymous: Bool = false, hasEverybody: Bool = false, kicks: Bool) {
        (self.users, self.hasAnonymous, self.hasEverybody, self.kicks) = (users, hasAnonymous, hasEverybody, kicks)
    }

    func concerns(_ session: Session) -> Bool {
        if session.isBrokersOwn || session.listener == nil { return false }
        if hasEverybody { return true }
        return session.userName.map { users.contains($0) } ?? hasAnonymous
    }
}

/// Changes of rights that a shard has still to bring to its sessions: two walks through all of them, each over as many turns as it takes.
///
///     told ─► the first walk gives those concerned their rights anew ─► the second ends their connections, which takes longer
///
/// What is told meanwhile waits for the next walk, which is about all that was told until it begins. Owned by a shard, used on its thread only.
struct RightsDesk {
    /// A walk: what it is about, and the index of the session that comes next.
    struct Walk {
        let changes: [RightsChange]
        var place: UInt32 = 0

        func concerns(_ session: Session) -> Bool { changes.contains { $0.concerns(session) } }
    }

    private var untold: [RightsChange] = []
    var renewal: Walk?
    var dismissal: Walk?
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

extension BrokerShard {
    /// The rights of some clients have changed. They go by them after a bounded number of turns; those who are to go have gone after more.
    /// From the thread of the shard's loop.
    public func change(_ rights: RightsChange) { self.rights.add(rights) }

    /// Goes on with bringing changed rights to the sessions.
    func stepRights() {
        rights.begin()
        if var walk = rights.renewal {
            let isOver = step(&walk) { session in
                self.renewAccess(session)
                return Limits.rightsStepsOfRenewal
            }
            rights.renewal = walk
            if isOver { rights.endRenewal() }
        } else if var walk = rights.dismissal {
            let isOver = step(&walk) { self.dismiss($0) }
            rights.dismissal = isOver ? nil : walk
        }
    }

    /// Looks at the next sessions, each a step, until the turn's steps are made.
    ///
    /// - Parameter body: says how many steps more a session has taken.
    /// - Returns: whether all sessions were looked at. One that is made meanwhile has its rights already.
    private func step(_ walk: inout RightsDesk.Walk, _ body: (Session) -> Int) -> Bool {
        let end = sessions.indexEnd
        var steps = 0
        while walk.place < end, steps < Limits.rightsStepsPerTurn {
            steps += 1
            let place = walk.place
            walk.place += 1
            guard let session = sessions.session(at: place), walk.concerns(session) else { continue }
            steps += body(session)
        }
        rights.stepCount += steps
        return walk.place >= end
    }

    /// Ends the connection of a session's client, if there is one.
    ///
    /// - Returns: how many steps that took.
    private func dismiss(_ session: Session) -> Int {
        let steps = session.expiryIntervalSeconds > 0 ? removeForbiddenSubscriptions(of: session) : 0
        guard let connection = session.connection?.object else { return steps }
        session.will = nil
        refuse(connection, .administrativeAction, because: "its login or its rights have changed.")
        return steps + Limits.rightsStepsOfDismissal
    }

    /// - Returns: how many steps that took.
    private func removeForbiddenSubscriptions(of session: Session) -> Int {
        guard let access = session.access else { return 0 }
        var forbidden: [TopicFilter] = []
        var count = session.groups.count
        var record = session.firstSubscription
        while record != SubscriptionRecord.none {
            count += 1
            if let filter = TopicFilter(tree.filter(of: record)), !access.maySubscribe(filter, asksLists: false) {
                forbidden.append(filter)
            }
            record = tree.records[record].nextOfSession
        }
        for membership in session.groups {
            guard let filter = membership.name.topicFilter, !access.maySubscribe(filter, asksLists: false) else { continue }
            forbidden.append(filter)
        }
        for filter in forbidden where unsubscribe(session, filter) {
            if isPresenceTold { tellSubscription(of: session, filter, nil, isNew: false) }
        }
        if !forbidden.isEmpty {
            recount(session)
            noteChange(of: session)
        }
        return count * Limits.rightsStepsOfSubscription
    }
}
