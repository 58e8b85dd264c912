/// A step of a QoS 2 flow of a client that lasts, in either direction, or what a share group has dealt it. It stands in the cluster's log, so that
/// whoever keeps the session next takes no message twice, sends none twice, and lacks none. [MQTT-4.3.3-10 v5] [MQTT-4.3.3-1 v5]
public struct FlowStep: Equatable, Sendable {
    /// The order of a session's steps, whatever partition each stands in.
    public struct Place: Hashable, Comparable, Sendable {
        /// By which claim the node kept the session that has taken the step.
        public var epoch: UInt64
        /// Rises with a shard's steps, also over a restart, as long as its clock is not set back; the shard is the lowest byte.
        public var number: UInt64

        public init(epoch: UInt64, number: UInt64) { (self.epoch, self.number) = (epoch, number) }

        /// Before all steps.
        public static let start = Place(epoch: 0, number: 0)

        /// Just before this one.
        package var before: Place { Place(epoch: epoch, number: number - 1) }

        public static func < (left: Place, right: Place) -> Bool { (left.epoch, left.number) < (right.epoch, right.number) }
    }

    public enum Kind: Hashable, Sendable {
        /// A message came, which is told from others by its digest; 0 for unknown.
        case received(digest: UInt32)
        /// PUBREL came.
        case released
        /// The client is about to be sent a message with the packet identifier, which is free for that.
        case sent(MessageName)
        /// PUBREC came for what was sent with it.
        case acknowledged
        /// A share group has dealt the session a message, of QoS 1 or 2, which waits for its client; with packet identifier 0.
        case dealt(MessageName)
        /// Nothing, with packet identifier 0: its node takes the session up from the log, of which it has read everything when it reads this,
        /// in each partition.
        case mark
    }

    /// Whether it is of a message to the client.
    public var isOfDelivery: Bool {
        switch kind {
        case .sent, .acknowledged, .dealt: true
        case .received, .released, .mark: false
        }
    }

    /// The message that a session is sent, or was dealt; nil of other steps.
    package var name: MessageName? {
        switch kind {
        case .sent(let name), .dealt(let name): name
        case .received, .released, .acknowledged, .mark: nil
        }
    }

    public var place: Place
    public var packetIdentifier: UInt16
    public var kind: Kind
    /// Of a message to the client: identifiers whose flows have ended with PUBCOMP before this, and since the step before.
    public var finished: [UInt16] = []

    public init(_ kind: Kind, _ packetIdentifier: UInt16, at place: Place) {
        (self.kind, self.packetIdentifier, self.place) = (kind, packetIdentifier, place)
    }
}
