import BrokerModel
import MQTTCodec

/// Packets to one client that are not messages.
struct Sending {
    let shard: BrokerShard

    /// - Returns: false if the client does not take a packet of its size.
    @discardableResult
    func sendConnack(_ packet: ConnackPacket, to connection: Connection) -> Bool {
        var packet = packet
        packet.properties.reasonString = permitted(packet.properties.reasonString, on: connection, atConnackOrDisconnect: true)
        // [MQTT-3.2.2-19 v5]
        var isSent = send(.connack(packet), to: connection)
        if !isSent, packet.properties.reasonString != nil {
            packet.properties.reasonString = nil
            isSent = send(.connack(packet), to: connection)
        }
        guard isSent else { return false }
        shard.log(.debug) {
            "Sending CONNACK to \(connection.name) (\(packet.sessionPresent ? 1 : 0), "
                + "\(connection.version == .v5 ? packet.reasonCode.rawValue : packet.returnCode.rawValue))"
        }
        return true
    }

    /// Tells a 5.0 client that the connection ends, and why. Earlier versions have no such packet from the server.
    func sendDisconnect(
        _ reason: ReasonCode, to connection: Connection, explanation: String? = nil, reference: EncodedString? = nil
    ) {
        guard connection.version == .v5, connection.state == .connected else { return }
        var packet = DisconnectPacket(reasonCode: reason)
        packet.properties.reasonString = permitted(
            explanation.flatMap { EncodedString($0) }, on: connection, atConnackOrDisconnect: true)
        packet.properties.serverReference = reference
        // [MQTT-3.14.2-3 v5]
        if !send(.disconnect(packet), to: connection) {
            send(.disconnect(DisconnectPacket(reasonCode: reason)), to: connection)
        }
        shard.log(.debug) { "Sending DISCONNECT to \(connection.name) (rc\(reason.rawValue))" }
    }

    /// - Returns: false if the client does not take a packet of its size.
    func sendAuth(_ reason: ReasonCode, data: [UInt8]?, to connection: Connection) -> Bool {
        var packet = AuthPacket(reasonCode: reason)
        // [MQTT-4.12.0-5 v5]
        packet.properties.authenticationMethod = connection.extras?.authenticationMethod
        packet.properties.authenticationData = data
        let words = reason == .success ? "the client is authenticated again" : "the server waits for the client's next answer"
        packet.properties.reasonString = permitted(EncodedString(words), on: connection)
        if packet.properties.reasonString != nil, send(.auth(packet), to: connection) { return true }
        // [MQTT-3.15.2-2 v5]
        packet.properties.reasonString = nil
        return send(.auth(packet), to: connection)
    }

    /// Sends a packet unless the client does not take one of its size. [MQTT-3.1.2-24 v5]
    ///
    /// - Returns: false if it was too large.
    @discardableResult
    func send(_ packet: ControlPacket, to connection: Connection) -> Bool {
        let bytes = packet.encoded(version: connection.version)
        guard bytes.count <= connection.maximumPacketSize else { return false }
        bytes.withUnsafeBytes { connection.output.append($0, pool: &shard.pool) }
        shard.statistics.messagesSent &+= 1
        shard.statistics.packetsSent[packet.type] &+= 1
        shard.markDirty(connection)
        return true
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP, in its shortest form.
    @inline(__always)
    func sendAcknowledgement(
        _ type: PacketType, _ packetIdentifier: UInt16, _ reason: ReasonCode = .success, to connection: Connection
    ) {
        guard reason == .success || connection.version != .v5, !shard.settings.logTopics.contains(.debug),
            let head = PlainAcknowledgement.Head(type)
        else { return sendWholeAcknowledgement(type, packetIdentifier, reason, to: connection) }
        connection.output.append(head, packetIdentifier, pool: &shard.pool)
        shard.acknowledging.countAcknowledged(type, 1, to: connection)
    }

    /// Sends an acknowledgement that has a reason, or of which the log tells.
    private func sendWholeAcknowledgement(
        _ type: PacketType, _ packetIdentifier: UInt16, _ reason: ReasonCode, to connection: Connection
    ) {
        let hasReason = reason != .success && connection.version == .v5
        guard let head = PlainAcknowledgement.Head(type) else { preconditionFailure("\(type) acknowledges nothing") }
        if hasReason {
            connection.output.append(head, packetIdentifier, reason, pool: &shard.pool)
        } else {
            connection.output.append(head, packetIdentifier, pool: &shard.pool)
        }
        shard.acknowledging.countAcknowledged(type, 1, to: connection)
        logAcknowledgement(type, packetIdentifier, reason, to: connection)
    }

    func logAcknowledgement(_ type: PacketType, _ packetIdentifier: UInt16, _ reason: ReasonCode, to connection: Connection) {
        shard.log(.debug) { "Sending \(type.name) to \(connection.name) (m\(packetIdentifier), rc\(reason.rawValue))" }
    }

    /// A reason string, if the client wants to hear it. [MQTT-3.1.2-29 v5]
    func permitted(_ text: EncodedString?, on connection: Connection, atConnackOrDisconnect: Bool = false) -> EncodedString? {
        shard.settings.sendsReasonStrings && connection.version == .v5
            && (atConnackOrDisconnect || connection.client.requestsProblemInformation)
            ? text : nil
    }
}
