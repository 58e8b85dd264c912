public import MQTTCodec

/// What clients are told while the broker sends them away.
public struct DrainNotice: Hashable, Sendable {
    /// Where they are to go instead, as 5.0's Server Reference: `broker-2.example:1883`; nil for nowhere in particular.
    public var serverReference: EncodedString?

    public init(serverReference: EncodedString? = nil) { self.serverReference = serverReference }

    /// For whoever is connected.
    var reason: ReasonCode { serverReference == nil ? .serverShuttingDown : .useAnotherServer }
    /// For whoever comes.
    var connackReason: ReasonCode { serverReference == nil ? .serverUnavailable : .useAnotherServer }
}

/// Sending all clients away, some at a time, so that they do not all come to the next broker at once. Their sessions stay.
extension BrokerShard {
    /// Lets nobody in any more; nil: everybody again.
    public func drain(_ notice: DrainNotice?) {
        drain = notice
        drainPlace = 0
    }

    /// Sends some clients away.
    ///
    /// - Parameter countMax: how many at most; connections that are not logged in go with them.
    public func sendAway(_ countMax: Int) {
        guard let drain else { return }
        var (left, looks) = (countMax, min(connections.slotCount, Limits.drainConnectionsPerStep))
        while left > 0, looks > 0 {
            looks -= 1
            if drainPlace >= connections.slotCount { drainPlace = 0 }
            let connection = connections.connection(inSlot: drainPlace)
            drainPlace += 1
            guard let connection, !connection.isLocal, connection.state != .closing else { continue }
            left -= 1
            if connection.state == .connected {
                sendDisconnect(drain.reason, to: connection, explanation: Self.drainWords, reference: drain.serverReference)
                tellDeparture(of: connection, drain.reason, "the broker sends its clients away", will: .due)
                detach(connection, will: .due)
            }
            close(connection)
        }
    }

    /// Refuses a client while others are sent away; false if they are not.
    func turnsAwayNewcomer(_ connection: Connection) -> Bool {
        guard let drain, !connection.isLocal else { return false }
        refuseConnect(connection, drain.connackReason, Self.drainWords, reference: drain.serverReference)
        return true
    }

    private static let drainWords = "this broker sends its clients away."
}
