public import MQTTCodec

/// Changes while the broker runs, and what an operator wants to see.
extension BrokerShard {
    /// Takes over other limits and choices, from now on and for every connection. What a client was told in CONNACK holds until its
    /// connection ends, which it does at once for a client without a user name where none is let in any more.
    ///
    /// - Parameter settings: must have as many listeners as before, in the same order.
    public func apply(_ settings: BrokerSettings) {
        let settings = settings.withOwnListener()
        precondition(settings.listeners.count == self.settings.listeners.count, "listeners stay as long as the broker runs")
        let hadRules = self.settings.listeners.contains { $0.accessControl != nil }
        if self.settings.queueOverflow == .refusesPublisher { forgetFullness() }
        self.settings = settings
        if settings.queueOverflow == .refusesPublisher { noteFullness() }
        scans.forgetPolicies()
        dismissStrangers()
        if hadRules || settings.listeners.contains(where: { $0.accessControl != nil }) { renewAccess() }
        promises = Promises.all(settings)
        if index == 0, settings.systemIntervalSeconds > 0, !systemReport.isOn { beginSystemTopics() }
    }

    /// Ends the connection of a client, if it lives on this shard and is connected: an operator wants it gone. A 5.0 client is told why.
    ///
    /// - Returns: whether there was one.
    @discardableResult
    public func disconnect(_ clientIdentifier: EncodedString, reason: ReasonCode = .administrativeAction) -> Bool {
        guard let connection = sessions.find(clientIdentifier)?.connection?.takeUnretainedValue() else { return false }
        refuse(connection, reason, because: "the operator has ended the connection.")
        return true
    }

    /// Logs every subscription of this shard's sessions and share groups, a part of them in each turn, and at the end the clients that
    /// have lost messages.
    public func listSubscriptions() { subscriptionListing = 0 }

    func listSubscriptions(from start: UInt32) {
        let end = min(start + Limits.subscriptionsListedPerTurn, tree.recordLimit)
        for record in start..<max(start, end) {
            guard let (filter, subscriber, terms) = tree.subscription(at: record) else { continue }
            logSubscription(filter, subscriber, terms)
        }
        if end < tree.recordLimit {
            subscriptionListing = end
        } else {
            subscriptionListing = nil
            for session in sessions.all { logDrops(of: session) }
        }
    }

    private func logSubscription(_ filter: [UInt8], _ subscriber: Subscriber, _ terms: SubscriptionTerms) {
        let text = LoggedText(filter)
        if subscriber.isSession {
            let identifier = sessions[subscriber.index]._withUnsafeGuaranteedRef { $0.clientIdentifier }
            log(.notice) { "Subscription: \(text) (\(identifier), \(terms.maximumQoS.rawValue))" }
        } else if subscriber.isGroup, let group = groups[subscriber.index] {
            for member in group.members where member.shard == index {
                guard let session = sessions.find(index: member.sessionIndex, key: member.sessionKey) else { continue }
                log(.notice) {
                    "Subscription: $share/\(group.name.shareName)/\(text) "
                        + "(\(session.clientIdentifier), \(member.terms.maximumQoS.rawValue))"
                }
            }
        }
    }
}
