public import MQTTCodec

/// What clients are told while the broker sends them away.
public struct DrainNotice: Hashable, Sendable {
    /// Where they are to go instead, as 5.0's Server Reference: `broker-2.example:1883`, or several of them with blanks between. One client is
    /// told the first of these, the next one the second and so on, so that not all go the same way; empty for nowhere in particular.
    public var serverReferences: [EncodedString]
    /// Whether those who come are answered, because they can be told where to go; else the door is shut.
    public var answersNewcomers: Bool

    public init(serverReference: EncodedString? = nil) {
        self.init(serverReferences: serverReference.map { [$0] } ?? [], answersNewcomers: false)
    }

    public init(serverReferences: [EncodedString], answersNewcomers: Bool) {
        (self.serverReferences, self.answersNewcomers) = (serverReferences, answersNewcomers)
    }

    /// For whoever is connected.
    var reason: ReasonCode { serverReferences.isEmpty ? .serverShuttingDown : .useAnotherServer }
    /// For whoever comes.
    var connackReason: ReasonCode { serverReferences.isEmpty ? .serverUnavailable : .useAnotherServer }
}

/// Sending all clients away, some at a time, so that they do not all come to the next broker at once. Their sessions stay.
extension BrokerShard {
    /// Lets nobody in any more; nil: everybody again.
    public func drain(_ notice: DrainNotice?) {
        if drain == nil || notice == nil { drainPlace = 0 }
        drain = notice
    }

    /// Sends some clients away.
    ///
    /// - Parameter countMax: how many at most; connections that are not logged in go with them, unless they are to be answered.
    public func sendAway(_ countMax: Int) {
        guard let drain else { return }
        var (left, looks) = (countMax, min(connections.slotCount, Limits.drainConnectionsPerStep))
        while left > 0, looks > 0 {
            looks -= 1
            if drainPlace >= connections.slotCount { drainPlace = 0 }
            let connection = connections.connection(inSlot: drainPlace)
            drainPlace += 1
            guard let connection, !connection.isLocal, connection.state != .closing,
                connection.state == .connected || !drain.answersNewcomers
            else { continue }
            left -= 1
            if connection.state == .connected {
                sendDisconnect(drain.reason, to: connection, explanation: Self.drainWords, reference: nextServerReference(drain))
                let fate = willFate(ofSentAway: connection)
                tellDeparture(of: connection, drain.reason, "the broker is being drained", will: fate)
                detach(connection, will: fate)
            }
            close(connection)
        }
    }

    /// Refuses a client while others are sent away, or the cluster that it came for cannot be reached; false if neither is so.
    func turnsAwayNewcomer(_ connection: Connection) -> Bool {
        if lacksCluster(connection) { return true }
        guard let drain, !connection.isLocal else { return false }
        refuseConnect(connection, drain.connackReason, Self.drainWords, reference: nextServerReference(drain))
        return true
    }

    private func nextServerReference(_ drain: DrainNotice) -> EncodedString? {
        guard !drain.serverReferences.isEmpty else { return nil }
        drainTurn &+= 1
        return drain.serverReferences[drainTurn % drain.serverReferences.count]
    }

    private static let drainWords = "this broker is being drained."
}
