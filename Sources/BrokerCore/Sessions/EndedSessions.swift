/// The subscriptions of sessions that have ended which still stand in the tree of topics, and what there is left to tell of their share
/// groups; and how much of the turn is left for the like.
///
/// Invariant: a session stands here as long as its index is kept for it. Owned by a shard, used on its thread only.
struct EndedSessions {
    /// What is left of a session.
    struct Remains {
        /// Its chain of records is what is still in the tree.
        let session: Session
        /// Groups that have lost it as a member, which others do not know yet.
        var memberships: [GroupMembership]
    }

    private var remains: [Remains] = []
    /// How many at the front of them are done with.
    private var head = 0
    /// The steps that are left for whichever session's end is being worked off.
    var stepsLeft = Limits.endedStepsPerTurn
    /// How many steps were made so far: tests see by it how much a turn does.
    private(set) var stepCount = 0

    var isEmpty: Bool { remains.isEmpty }

    mutating func add(_ session: Session, _ memberships: [GroupMembership]) {
        remains.append(Remains(session: session, memberships: memberships))
    }

    /// What is to be done next.
    var first: Session? { isEmpty ? nil : remains[head].session }

    /// One of the share groups of that session; nil if there is none left.
    mutating func takeMembership() -> GroupMembership? { remains[head].memberships.popLast() }

    /// Nothing is left of the first one.
    mutating func removeFirst() {
        head += 1
        if head == remains.count {
            (remains, head) = ([], 0)
        } else if head == Limits.endedSessionsCapacityMax {
            remains.removeFirst(head)
            head = 0
        }
    }

    mutating func count(_ steps: Int) {
        stepsLeft -= steps
        stepCount += steps
    }
}
