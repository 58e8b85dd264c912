public import BrokerModel

extension SavedWill {
    /// Calls `body` with the message, whose life begins now.
    public func withMessage(_ body: (ClusterMessage) -> Void) {
        topic.withUnsafeBytes { topic in
            properties.withUnsafeBytes { properties in
                payload.withUnsafeBytes { payload in
                    origin.withUnsafeBytes { origin in
                        var message = ClusterMessage(
                            topic: topic, properties: properties, payload: payload, qos: qos, retain: retain, expiresAt: nil,
                            publisher: publisher, isLogged: true)
                        message.origin = origin
                        body(message)
                    }
                }
            }
        }
    }
}
