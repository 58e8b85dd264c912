public import MQTTCodec

/// Bridges with several connections: each is a bridge of its own, with a session here and one there, and carries a part of the topics that go
/// out. What comes in comes by the first, which also tells whether the bridge is connected.
extension BridgeSettings {
    /// What one of the connections is to do.
    ///
    /// - Parameters:
    ///   - number: from 1 on.
    ///   - count: of all connections; with one the settings are as they are.
    public func connection(_ number: Int, of count: Int) -> BridgeSettings {
        guard count > 1 else { return self }
        var settings = self
        settings.name = "\(name) (\(number) of \(count))"
        guard number > 1 else { return settings }
        func own(_ first: EncodedString) -> EncodedString { Self.clientIdentifier(first, ofConnection: number) ?? first }
        settings.remote.clientIdentifier = own(remote.clientIdentifier)
        settings.localClientIdentifier = own(localClientIdentifier)
        settings.topics = topics.filter(\.goesOut).map { topic in
            var topic = topic
            topic.direction = .out
            return topic
        }
        (settings.notifies, settings.attemptsUnsubscribe) = (false, false)
        return settings
    }

    /// The client identifier of a connection, here or there: `ID`, `ID-2`, `ID-3`; nil if it is too long.
    public static func clientIdentifier(_ first: EncodedString, ofConnection number: Int) -> EncodedString? {
        number > 1 ? EncodedString("\(first)-\(number)") : first
    }
}
