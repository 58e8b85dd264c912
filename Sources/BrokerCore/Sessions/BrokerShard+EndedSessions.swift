import BrokerModel

/// The rest of a session's end, over as many turns as it takes, so that nobody waits for one client's subscriptions.
///
/// ```
///     endSession ─► as far as the turn's steps go ─► out of the table of sessions: its identifier is free, what names its
///                                                    index finds nobody, and all matches found before are old
///                        endTurn, again and again ─► its records go from the tree, its groups are told of ─► its index is free
/// ```
/// The row of the session goes in the batch of the turn in which it ends. Rows of its subscriptions may go later: without a session
/// they are nothing, and a start that finds some deletes them.
///
/// Other shards and nodes lose their interest later than the session goes: they send messages that nobody wants here. A share group's
/// message that they deal to it meanwhile goes to another member, as one that was on its way does.
extension BrokerShard {
    /// The turn's steps are used up: the rest of an ended session is taken out of the tree in the next ones.
    func keepRemains(of session: Session, _ memberships: [GroupMembership]) {
        statistics.subscriptions -= Int(session.subscriptionCount)
        sessions.remove(session, keepsIndex: true)
        tree.forgetMatches()
        endedSessions.add(session, memberships)
    }

    /// Goes on with that, as far as a turn's steps go.
    func stepEndedSessions() {
        endedSessions.stepsLeft = Limits.endedStepsPerTurn
        while endedSessions.stepsLeft > 0, let session = endedSessions.first {
            if session.firstSubscription != SubscriptionRecord.none {
                endedSessions.count(takeOut(session.firstSubscription, of: session))
            } else if let membership = endedSessions.takeMembership() {
                sendLeft(membership, by: session.key)
                endedSessions.count(removeGroupIfEmpty(membership))
            } else {
                sessions.giveBack(session.index)
                endedSessions.removeFirst()
            }
        }
    }

    /// A session has left a share group: tells whoever does not know.
    func sendLeft(_ membership: GroupMembership, by sessionKey: UInt64) {
        forgetSubscription(membership.storeNumber)
        sendToOthers(.group(membership.name, .left(sessionKey: sessionKey)))
        sendToCluster(membership.name.filter, isWanted: false)
        sendGroup(membership.name)
    }

    /// - Returns: how many steps that took, of which there is one for each level.
    func removeGroupIfEmpty(_ membership: GroupMembership) -> Int {
        // Its index may be another group's by now.
        if let group = groups.find(membership.name) { removeIfEmpty(group) }
        return OpenPackets.steps(of: membership.name.filter)
    }
}
