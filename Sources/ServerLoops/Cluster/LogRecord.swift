package import BrokerCore
import BrokerModel
package import Cluster
import MQTTCodec

/// The purpose for which a record of the log is read once more.
package enum ReplayPurpose: Sendable {
    /// The record is read for these sessions of the shard, which lack it.
    case sessions([[UInt8]])
    /// The record may say what became of messages that were dispatched to a node that is gone.
    case learnDispatched(by: NodeID)
    /// The record may have messages that were dispatched to a node that is gone, for which this one dispatches.
    case dispatchAgain(for: NodeID)
    /// The record is read three times for earlier incarnations of this node: for what they said became of the messages
    /// that were dispatched to them; then for what others have said since; then for the messages themselves.
    case learnEarlierDispatches
    case followEarlierDispatches
    case dispatchEarlier
}

/// A record of the cluster's log on its way to the shards.
package struct LogRecord: Sendable {
    package let partition: Int
    package let sequence: UInt64
    /// When the log took it, in milliseconds since 1970.
    package let storedAt: UInt64
    /// Whether this node has written it.
    package let isOwn: Bool
    /// The record as it stands in the log; empty if it does not count.
    package let bytes: [UInt8]

    /// Bytes that it takes on its way.
    package var cost: Int { bytes.count + 100 }

    /// Gives a shard the entries of the record.
    ///
    /// - Returns: how many messages could not be read.
    func give(to shard: BrokerShard) -> Int {
        let illegible = forEach(of: shard) { shard.received($0, partition: partition, sequence: sequence, isOwn: isOwn) }
        if shard.hearsSteps(isOwn: isOwn) {
            forEachStep { shard.received($0, of: $1, partition: partition, sequence: sequence, isOwn: isOwn) }
        }
        shard.read(partition: partition, sequence: sequence)
        return illegible
    }

    /// Gives a shard the entries of the record once more.
    func giveAgain(to shard: BrokerShard, for purpose: ReplayPurpose) {
        switch purpose {
        case .sessions(let sessions):
            _ = forEach(of: shard) { shard.replay($0, partition: partition, sequence: sequence, for: sessions) }
            // What clients have sent to this incarnation of the node, it knows.
            forEachStep { step, session in
                guard !isOwn || step.isOfDelivery else { return }
                shard.replay(step, of: session, partition: partition, sequence: sequence, for: sessions)
            }
        case .learnDispatched(let node):
            forEachStep { step, _ in shard.learnDispatched(step, by: node.rawValue) }
            forEachPassedOn { shard.learnPassedOn($0, by: node.rawValue) }
        case .dispatchAgain(let node):
            _ = forEach(of: shard) { shard.dispatchAgain($0, partition: partition, sequence: sequence, for: node.rawValue) }
        case .learnEarlierDispatches:
            guard let writer else { return }
            forEachStep { shard.learnEarlierDispatches($0, of: $1, by: writer) }
            forEachPassedOn { shard.learnEarlierDispatches(passedOn: $0) }
        case .followEarlierDispatches:
            guard let writer else { return }
            forEachStep { shard.followEarlierDispatches($0, of: $1, by: writer) }
        case .dispatchEarlier: _ = forEach(of: shard) { shard.dispatchEarlier($0, partition: partition, sequence: sequence) }
        }
    }

    private var writer: UInt64? { bytes.withUnsafeBytes { Bundle($0)?.origin.node.rawValue } }

    /// Calls `take` with each step of a QoS 2 flow, and its client's identifier.
    private func forEachStep(_ take: (FlowStep, UnsafeRawBufferPointer) -> Void) {
        bytes.withUnsafeBytes { bytes in
            _ = Bundle(bytes)?.forEach { entry in
                if case .step(let session, let step) = entry { take(step, session) }
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
                case .dispatched, .successor, .gone, .step: return
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
                    var dispatch = GroupDispatch(shares: [], hops: message.hops, logged: shares)
                    dispatch.before = MessageName(rawValue: message.nameBefore)
                    given.dispatch = dispatch
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

extension SessionStep {
    /// Calls `body` with the entry of the log, which is valid during the call.
    package func withEntry(_ body: (Bundle.Entry) -> Void) {
        clientIdentifier.bytes.withUnsafeBytes { body(.step(session: $0, step)) }
    }
}
