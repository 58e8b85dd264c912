public import BrokerModel
public import MQTTCodec

/// Changes while the broker runs.
extension BrokerShard {
    /// Takes over other limits and choices, from now on and for every connection. What a client was told in CONNACK
    /// holds until its connection ends, which it does at once for a client without a user name where none is let in any
    /// more.
    ///
    /// - Parameter settings: must have the listeners from before in the same order; others may follow them. Those that
    ///   are closed now lose their clients.
    public func apply(_ settings: BrokerSettings) {
        let settings = settings.withOwnPolicies()
        precondition(settings.listeners.count >= self.settings.listeners.count, "no listener gives up its place")
        let hadRules = self.settings.listeners.contains { $0.accessControl != nil }
        let sweptEvery = self.settings.retainedSweepMinutes
        if room.mayRefusePublishers { queueRoom.forgetFullness() }
        if settings.flapping != self.settings.flapping { policy.banning.flapping.removeAll() }
        let isOneClosed = zip(settings.listeners, self.settings.listeners).contains { $0.isClosed && !$1.isClosed }
        // As long as the rules of their listener are known, for the sake of their wills.
        if isOneClosed { authentication.dismissClients(ofClosedIn: settings) }
        let hadOwnBounds = !self.settings.ownQueueBounds.isEmpty
        self.settings = settings
        inspection.closedConnections.bound(memoryMax: settings.keptBytesMax)
        if hadOwnBounds || !settings.ownQueueBounds.isEmpty {
            for session in sessions.all { dispatcher.updateOwnBound(of: session) }
        }
        for clientIdentifier in settings.topicParts.keys {
            if let session = sessions.find(clientIdentifier) { dispatcher.updateTopicPart(of: session) }
        }
        if settings.retainedSweepMinutes != sweptEvery { retainedMessages.armRetainedSweep() }
        if room.mayRefusePublishers { queueRoom.updateFullness() }
        scans.forgetPolicies()
        authentication.dismissUnknownUsers()
        if hadRules || settings.listeners.contains(where: { $0.accessControl != nil }) { accessChecks.renewAccess() }
        policy.advertisedLimits = AdvertisedLimits.all(settings)
        if index == 0, settings.systemIntervalSeconds > 0, !inspection.systemReport.isOn { figures.beginSystemTopics() }
    }

    /// Ends the connection of a client, if it lives on this shard and is connected: an operator wants it gone. A 5.0
    /// client is told why.
    ///
    /// - Returns: whether there was one.
    @discardableResult
    public func disconnect(_ clientIdentifier: EncodedString, reason: ReasonCode = .administrativeAction) -> Bool {
        guard let connection = sessions.find(clientIdentifier)?.connection?.object else { return false }
        disconnecting.refuse(connection, reason, because: "the operator has ended the connection.")
        return true
    }
}
