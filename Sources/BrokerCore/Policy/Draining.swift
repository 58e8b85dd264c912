public import MQTTCodec

/// What clients are told while the broker sends them away.
public struct DrainNotice: Hashable, Sendable {
    /// Where they are to go instead, as 5.0's Server Reference: `broker-2.example:1883`, or several of them with blanks
    /// between. One client is told the first of these, the next one the second and so on, so that not all go the same
    /// way; empty for nowhere in particular.
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

/// How far the clients of a shard are sent away.
struct Draining {
    /// What they are told; nil while nobody is sent away.
    var notice: DrainNotice?
    /// The slot of connections at which the next ones are looked for.
    var slot = 0
    /// How many clients were redirected, so that each next one gets the next server's address.
    var redirectedCount = 0
}

/// Sending all clients away, some at a time, so that they do not all come to the next broker at once. Their sessions
/// stay.
struct ClientDraining {
    let shard: BrokerShard

    /// Refuses a client while others are sent away.
    func checkDraining(_ connection: Connection) throws(ConnectRefusal) {
        guard let drain = shard.policy.draining.notice, !connection.client.isLocal else { return }
        throw ConnectRefusal(drain.connackReason, ClientDraining.drainWords, reference: nextServerReference(drain))
    }

    fileprivate func nextServerReference(_ drain: DrainNotice) -> EncodedString? {
        guard !drain.serverReferences.isEmpty else { return nil }
        shard.policy.draining.redirectedCount &+= 1
        return drain.serverReferences[shard.policy.draining.redirectedCount % drain.serverReferences.count]
    }

    fileprivate static let drainWords = "this broker is being drained."
}

extension Limits {
    /// Connections that are looked at for the next clients to be sent away, each time.
    static let drainConnectionsPerStep = 20_000
}

extension BrokerShard {
    /// Lets nobody in any more; nil: everybody again.
    public func drain(_ notice: DrainNotice?) {
        if policy.draining.notice == nil || notice == nil { policy.draining.slot = 0 }
        policy.draining.notice = notice
    }

    /// Sends some clients away.
    ///
    /// - Parameter countMax: how many at most; connections that are not logged in go with them, unless they are to be
    ///   answered.
    public func sendAway(_ countMax: Int) {
        guard let drain = policy.draining.notice else { return }
        var (left, looks) = (countMax, min(connections.slotCount, Limits.drainConnectionsPerStep))
        while left > 0, looks > 0 {
            looks -= 1
            if policy.draining.slot >= connections.slotCount { policy.draining.slot = 0 }
            let connection = connections.connection(inSlot: policy.draining.slot)
            policy.draining.slot += 1
            guard let connection, !connection.client.isLocal, connection.state != .closing,
                connection.state == .connected || !drain.answersNewcomers
            else { continue }
            left -= 1
            if connection.state == .connected {
                disconnecting.dismiss(
                    connection, drain.reason, telling: ClientDraining.drainWords, reference: draining.nextServerReference(drain),
                    "the broker is being drained", will: disconnecting.willFate(ofSentAway: connection))
            } else {
                disconnecting.close(connection)
            }
        }
    }
}
