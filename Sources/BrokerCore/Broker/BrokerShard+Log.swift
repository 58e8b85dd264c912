import MQTTCodec

/// Lines for the log, in mosquitto's wording.
extension BrokerShard {
    /// Logs a line; its text is made only when somebody wants it.
    @inline(__always)
    func log(_ topic: LogTopics, _ text: () -> String) {
        if settings.logTopics.contains(topic) { effects.append(.log(topic, text())) }
    }

    /// Logs a line about a connection's coming or going, which `connection_messages false` silences.
    @inline(__always)
    func logConnection(_ topic: LogTopics, _ text: () -> String) {
        if settings.logsConnections { log(topic, text) }
    }

    /// Logs that a connection ends because of what its client did: mosquitto's line, which scripts know, and one that says what was
    /// wrong.
    func logRefusal(of connection: Connection, _ reason: ReasonCode, because explanation: String) {
        logConnection(.notice) { "Client \(connection.name) \(Self.refusalWords(for: reason))." }
        logConnection(.information) {
            "Client \(connection.name) [\(connection.info.address):\(connection.info.port)]: \(explanation)"
        }
    }

    private static func refusalWords(for reason: ReasonCode) -> String {
        switch reason {
        case .notAuthorized, .badUserNameOrPassword, .badAuthenticationMethod: "disconnected, not authorised"
        case .packetTooLarge: "disconnected due to oversize packet"
        case .qosNotSupported, .retainNotSupported: "disconnected due to QoS too high or retain not supported"
        case .administrativeAction: "been disconnected by administrative action"
        default: "disconnected due to \(reason)"
        }
    }
}
