import MQTTCodec

/// Who may read and write which topics.
///
/// Writing is checked when a message comes. Reading is checked when a topic's audience is looked up, so that the fan-out has no question
/// to ask; whatever changes a client's rights makes the audiences be looked up anew.
extension BrokerShard {
    /// Gives the session the rights of the client that has just connected.
    func grantAccess(_ session: Session, _ connection: Connection) {
        let isKnown = session.userName == connection.userName && session.listener == connection.info.listener
        session.userName = connection.userName
        session.listener = connection.info.listener
        if !isKnown { session.retainedSource = nil }
        guard !isKnown || session.access == nil else { return }
        renewAccess(session)
    }

    /// The rules have changed: gives every session its rights anew.
    func renewAccess() {
        for session in sessions.all { renewAccess(session) }
        tree.forgetMatches()
    }

    func renewAccess(_ session: Session) {
        let before = session.access
        session.access = settings.listeners[session.listener].accessControl?.policy(
            userName: session.userName, clientIdentifier: session.clientIdentifier)
        // A session that has no subscription yet stands in no audience.
        let isListed = session.firstSubscription != SubscriptionRecord.none
        if before != nil || session.access != nil, isListed { tree.forgetMatches() }
        if before !== session.access { tellAccess(of: session) }
    }

    func mayPublish(_ session: Session, _ topic: UnsafeRawBufferPointer) -> Bool {
        session.access?.mayPublish(topic: topic) ?? true
    }

    func mayReceive(_ session: Session, _ topic: UnsafeRawBufferPointer) -> Bool {
        session.access?.mayReceive(topic: topic) ?? true
    }
}
