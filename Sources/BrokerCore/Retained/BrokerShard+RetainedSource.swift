import BrokerModel

/// `check_retain_source`: a retained message goes to a new subscriber only while its publisher may still write to its topic.
///
/// The message itself knows its source. One that goes to another shard to be kept has its source sent ahead of it:
///
///     publisher's shard:  [retainedSource] [retain, topic, payload]  ─►  topic's shard
extension BrokerShard {
    /// The source of retained messages that this session publishes; made once for each login.
    func retainedSource(of session: Session) -> RetainedSource {
        if let known = session.retainedSource { return known }
        let made = RetainedSource(
            clientIdentifier: session.clientIdentifier, userName: session.userName, listener: session.listener,
            listenerName: session.listener.map { settings.policy(of: $0).name } ?? "")
        session.retainedSource = made
        return made
    }

    /// Whether the rules that are in force now let the publisher of a retained message write to its topic. What the broker itself
    /// has published is always allowed.
    func mayBeHandedOut(_ message: Message) -> Bool {
        guard settings.checksRetainSource, let source = message.source else { return true }
        if let known = scans.knownPolicies(of: source) { return known.allSatisfy { $0.mayPublish(topic: message.topic) } }
        let policies = policies(
            ofListener: source.listener, userName: source.userName, clientIdentifier: source.clientIdentifier)
        scans.remember(policies, of: source)
        return policies.allSatisfy { $0.mayPublish(topic: message.topic) }
    }
}
