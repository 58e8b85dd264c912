package import BrokerCore
import BrokerModel
package import Cluster

/// A record of the cluster's log on its way to the shards.
package struct LogRecord: Sendable {
    package let partition: Int
    package let sequence: UInt64
    /// When the log took it, in milliseconds since 1970.
    package let storedAt: UInt64
    /// Whether it is this node's own.
    package let isOwn: Bool
    /// As it stands in the log; empty if it does not count.
    package let bytes: [UInt8]

    /// Bytes that it takes on its way.
    package var cost: Int { bytes.count + 100 }

    /// Gives a shard what stands in it.
    ///
    /// - Returns: how many messages could not be read.
    package func give(to shard: BrokerShard) -> Int {
        let illegible = forEach(of: shard) { shard.received($0, partition: partition, sequence: sequence, isOwn: isOwn) }
        if shard.hearsSteps(isOwn: isOwn) {
            forEachStep { shard.received($0, of: $1, partition: partition, sequence: sequence, isOwn: isOwn) }
        }
        shard.read(partition: partition, sequence: sequence)
        return illegible
    }

    /// Gives it once more, for sessions that lack it.
    func giveAgain(to shard: BrokerShard, for sessions: [[UInt8]]) {
        _ = forEach(of: shard) { shard.replay($0, partition: partition, sequence: sequence, for: sessions) }
        // What clients have sent to this incarnation of the node, it knows.
        forEachStep { step, session in
            guard !isOwn || step.isOfDelivery else { return }
            shard.replay(step, of: session, partition: partition, sequence: sequence, for: sessions)
        }
    }

    /// Has a shard deal again what it has for a node that is gone.
    package func dealAgain(to shard: BrokerShard, for node: NodeID) {
        _ = forEach(of: shard) { shard.dealAgain($0, partition: partition, sequence: sequence, for: node.rawValue) }
    }

    /// Has a shard know what became of messages that were dealt to a node that is gone.
    package func learnDealt(in shard: BrokerShard, by node: NodeID) {
        forEachStep { step, _ in shard.learnDealt(step, by: node.rawValue) }
        forEachPassedOn { shard.learnPassedOn($0, by: node.rawValue) }
    }

    /// Has a shard learn what earlier incarnations of this node have said of sessions in it; then what others have;
    /// then deal what it has for these incarnations.
    func learnPast(in shard: BrokerShard) {
        guard let writer else { return }
        forEachStep { shard.learnPast($0, of: $1, by: writer) }
        forEachPassedOn { shard.learnPast(passedOn: $0) }
    }

    func followPast(in shard: BrokerShard) {
        guard let writer else { return }
        forEachStep { shard.followPast($0, of: $1, by: writer) }
    }

    private var writer: UInt64? { bytes.withUnsafeBytes { Bundle($0)?.origin.node.rawValue } }

    func dealPast(to shard: BrokerShard) { _ = forEach(of: shard) { shard.dealPast($0, partition: partition, sequence: sequence) } }

    /// Calls `take` with each step of a QoS 2 flow, and its client's identifier.
    private func forEachStep(_ take: (FlowStep, UnsafeRawBufferPointer) -> Void) {
        bytes.withUnsafeBytes { bytes in
            _ = Bundle(bytes)?.forEach { entry in
                switch entry {
                case .receipt(let session, let receipt): take(FlowStep(receipt), session)
                case .delivery(let session, let delivery): take(FlowStep(delivery), session)
                case .message, .will, .dealt, .heir, .gone: return
                }
            }
        }
    }

    /// Calls `take` with the earlier name of each message that its node had passed on.
    private func forEachPassedOn(_ take: (MessageName) -> Void) {
        bytes.withUnsafeBytes { bytes in
            _ = Bundle(bytes)?.forEach { entry in
                if case .message(let message) = entry, message.nameBefore != 0 { take(MessageName(rawValue: message.nameBefore)) }
            }
        }
    }

    /// Calls `take` with each message that has not expired; it returns whether that was one.
    ///
    /// - Returns: how many messages could not be read.
    private func forEach(of shard: BrokerShard, _ take: (ClusterMessage) -> Bool) -> Int {
        var (illegible, count) = (0, 0)
        bytes.withUnsafeBytes { bytes in
            guard let bundle = Bundle(bytes) else { return }
            let wallClock = shard.now &+ shard.settings.wallClockOffsetMilliseconds
            let age = wallClock > storedAt ? wallClock - storedAt : 0
            let isWhole = bundle.forEach { entry in
                let (message, isWill): (BusMessage, Bool)
                switch entry {
                case .message(let some): (message, isWill) = (some, false)
                case .will(_, _, let some): (message, isWill) = (some, true)
                case .dealt, .heir, .gone, .receipt, .delivery: return
                }
                count += 1
                if let left = message.millisecondsLeft, left <= age { return }
                var given = ClusterMessage(
                    topic: message.topic, properties: message.properties, payload: message.payload, qos: message.qos,
                    retain: message.retain, expiresAt: message.millisecondsLeft.map { shard.now &+ ($0 - age) },
                    publisher: message.publisher, isLogged: true)
                (given.isWill, given.index) = (isWill, count - 1)
                if !message.logShares.isEmpty {
                    let shares = message.logShares.map { LoggedShare(node: $0.node.rawValue, group: $0.group, member: $0.member) }
                    var dealing = GroupDealing(shares: [], hops: message.hops, logged: shares)
                    dealing.before = MessageName(rawValue: message.nameBefore)
                    given.dealing = dealing
                }
                if !take(given) { illegible += 1 }
            }
            if !isWhole { illegible += 1 }
        }
        return illegible
    }

    package init(
        partition: Int, sequence: UInt64, storedAt: UInt64, isOwn: Bool, bytes: [UInt8]
    ) {
        self.partition = partition
        self.sequence = sequence
        self.storedAt = storedAt
        self.isOwn = isOwn
        self.bytes = bytes
    }
}
