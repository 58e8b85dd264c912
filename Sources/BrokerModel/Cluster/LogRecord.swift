public import MQTTCodec

/// A record of the cluster's log on its way to the shards: it was read once, and all of them share what was found in
/// it.
///
///     JetStream ──► a bundle, read ──► LogRecord ──► BrokerShard.received, or reread, on each loop
public struct LogRecord: Sendable {
    /// A message, which lies in the record's bytes.
    public struct Message: Sendable {
        /// Where its topic stands, its properties, as in PUBLISH of MQTT 5.0 without their length, and its payload.
        public var topic: Range<Int>
        public var properties: Range<Int>
        public var payload: Range<Int>
        /// Milliseconds that were left of its life when it was written; nil if it does not expire.
        public var millisecondsLeft: UInt64?
        public var qos: QoS
        public var retain: Bool
        /// Whether it is a will, which went nowhere else.
        public var isWill = false
        /// How often nodes have passed it on to others. If it is not 0, it is for the shares alone.
        public var hops: UInt8 = 0
        /// Stands for its publisher's Client Identifier, on all nodes alike; 0 for none.
        public var publisher: UInt64 = 0
        /// The share groups' members whose turn it is.
        public var shares: [LoggedShare] = []
        /// Of one that was passed on: the name that it had in the log before; else none.
        public var nameBefore = MessageName.none

        /// A message that lies there.
        public init(topic: Range<Int>, properties: Range<Int>, payload: Range<Int>, qos: QoS, retain: Bool = false) {
            (self.topic, self.properties, self.payload) = (topic, properties, payload)
            (self.qos, self.retain) = (qos, retain)
        }
    }

    /// A step of a session.
    public struct Step: Sendable {
        /// Where the session's Client Identifier stands in the record's bytes.
        public var session: Range<Int>
        public var step: FlowStep

        /// A step of the session whose identifier lies there.
        public init(_ step: FlowStep, of session: Range<Int>) { (self.step, self.session) = (step, session) }
    }

    /// From 0.
    public var partition: Int
    /// The record's number, from 1.
    public var sequence: UInt64
    /// When the log took it, in milliseconds since 1970.
    public var storedAt: UInt64 = 0
    /// The incarnation of a node that has written it; 0 if that cannot be read.
    public var writer: UInt64 = 0
    /// Whether this node has written it, in any of its process's incarnations.
    public var isOwn = false
    /// The record as it stands in the log; empty if it does not count.
    public var bytes: [UInt8] = []
    /// Its messages and steps, which lie in the bytes.
    public var entries = LogEntries()

    /// A record that says nothing, or does not count.
    public init(partition: Int, sequence: UInt64) { (self.partition, self.sequence) = (partition, sequence) }

    /// Bytes of memory that it takes on its way.
    public var cost: Int {
        bytes.count + entries.messages.count * MemoryLayout<Message>.stride + entries.steps.count * MemoryLayout<Step>.stride + 100
    }
}

/// A node's share group whose turn it is with a message of the log.
public struct LoggedShare: Equatable, Sendable {
    /// The incarnation of the node.
    public var node: UInt64
    /// Stands for the group's name on all nodes.
    public var group: UInt64
    /// The member that the node itself has chosen among its own, by its session's key; 0 for any.
    public var member: UInt64

    /// A share of the group with this number.
    public init(node: UInt64, group: UInt64, member: UInt64 = 0) { (self.node, self.group, self.member) = (node, group, member) }
}

/// The purpose for which a record of the log is read once more.
public enum RereadPurpose: Hashable, Sendable {
    /// The record is read for these sessions of the shard, by their Client Identifiers, which lack it.
    case sessions([[UInt8]])
    /// The record may say what became of messages that were dispatched to a node that is gone.
    case learnDispatched(by: UInt64)
    /// The record may have messages that were dispatched to a node that is gone, for which this one dispatches.
    case dispatchAgain(for: UInt64)
    /// The record is read three times for earlier incarnations of this node: for what they said became of the messages
    /// that were dispatched to them; then for what others have said since; then for the messages themselves.
    case learnEarlierDispatches
    case followEarlierDispatches
    case dispatchEarlier
}
