import BrokerModel
import MQTTCodec

/// DISCONNECT from a client.
extension BrokerShard {
    func handleDisconnect(_ packet: DisconnectPacket, _ connection: Connection) {
        guard let session = connection.session else { return }
        log(.debug) { "Received DISCONNECT from \(connection.name)" }
        if let asked = packet.properties.sessionExpiryInterval {
            // A session that was to end with its connection cannot be prolonged now (section 3.14.2.2.2).
            if session.expiryIntervalSeconds == 0, asked != 0 {
                refuse(
                    connection, .protocolError, because: "DISCONNECT sets a Session Expiry Interval, and CONNECT had set none.")
                return
            }
            session.expiryIntervalSeconds = min(asked, settings.sessionExpirySecondsMax)
        }
        if !connection.isLocal {
            logConnection(.notice, of: connection) { "Client \(connection.name) \(connection.logPlace) disconnected." }
        }
        let fate: WillFate = packet.reasonCode == .normalDisconnection ? .discarded : .due
        reportDeparture(of: connection, packet.reasonCode, "the client disconnected", will: fate, isByClient: true)
        detach(connection, will: fate)
        connection.output.reset(arena: &arena, pool: &pool)
        close(connection)
    }
}
