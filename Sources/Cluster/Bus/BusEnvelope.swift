public import BrokerModel
import Bytes
internal import MQTTCodec

/// A message on the bus, where it lies: the pointers are valid during the call that is given it.
///
///     1 │ flags │ node 8 │ sequence │ [hops │ count │ (node 8 │ number)*] │ [milliseconds left]
///       │ properties' length │ properties │ [topic's length │ topic] │ [change │ origin's length │ origin] │ payload
///
/// The first byte tells one message from several, see `BusBatch`. Numbers without a size are variable integers of seven
/// bits a byte, least significant first. Flags: bits 0–1 QoS, 2 retain, 3 it expires, 4 the topic stands inside, 5 it
/// is logged, 6 it changes what is retained, 7 it says who dispatches it to members of share groups; without that each
/// node dispatches to its own. What is left of a message's life travels, and no point in time, because the nodes'
/// clocks differ. One that changes what is retained every node gets, whatever it wants.
extension ClusterMessage {
    private static let kind: UInt8 = 1

    /// Appends the message's envelope, in front of which nothing may stand.
    func encode(from node: NodeID, sequence: UInt64, withTopic: Bool, now: UInt64, into bytes: inout [UInt8]) {
        bytes.append(Self.kind)
        bytes.append(
            qos.rawValue | (retain ? 4 : 0) | (expiresAt == nil ? 0 : 8) | (withTopic ? 16 : 0) | (isLogged ? 32 : 0)
                | (change == .none ? 0 : 64) | (dispatch == nil ? 0 : 128))
        VariableInteger.append(fixed64: node.rawValue, to: &bytes)
        VariableInteger.append(sequence, to: &bytes)
        if let dispatch {
            bytes.append(dispatch.hops)
            VariableInteger.append(UInt64(dispatch.shares.count), to: &bytes)
            for share in dispatch.shares {
                VariableInteger.append(fixed64: share.node, to: &bytes)
                VariableInteger.append(UInt64(share.number), to: &bytes)
            }
        }
        if let expiresAt { VariableInteger.append(expiresAt - min(expiresAt, now), to: &bytes) }
        VariableInteger.append(counted: properties, to: &bytes)
        if withTopic { VariableInteger.append(counted: topic, to: &bytes) }
        if change != .none {
            VariableInteger.append(change.number, to: &bytes)
            VariableInteger.append(counted: origin, to: &bytes)
        }
        bytes.append(contentsOf: payload)
    }

    /// An envelope's message, and whose it is. The topic is empty unless it stands inside.
    struct Decoded {
        var message: ClusterMessage
        let node: NodeID
        let sequence: UInt64
        let hasTopic: Bool
    }

    /// Reads an envelope; nil if it is none.
    static func decode(_ envelope: UnsafeRawBufferPointer, now: UInt64) -> Decoded? {
        var reader = EnvelopeReader(envelope)
        guard reader.byte() == kind, let flags = reader.byte(), let qos = QoS(rawValue: flags & 3), let node = reader.fixed64(),
            let sequence = reader.integer()
        else { return nil }
        var dispatch: GroupDispatch?
        if flags & 128 != 0 {
            guard let hops = reader.byte(), let shares = readShares(&reader) else { return nil }
            dispatch = GroupDispatch(shares: shares, hops: hops)
        }
        var expiresAt: UInt64?
        if flags & 8 != 0 {
            guard let left = reader.integer() else { return nil }
            expiresAt = now &+ left
        }
        guard let properties = reader.counted() else { return nil }
        var topic = UnsafeRawBufferPointer(start: nil, count: 0)
        if flags & 16 != 0 {
            guard let inside = reader.counted() else { return nil }
            topic = inside
        }
        var (change, origin) = (RetainedChange.none, UnsafeRawBufferPointer(start: nil, count: 0))
        if flags & 64 != 0 {
            guard let number = reader.integer(), number > 0, let bytes = reader.counted() else { return nil }
            (change, origin) = (RetainedChange(node: node, number: number), bytes)
        }
        var message = ClusterMessage(
            topic: topic, properties: properties, payload: reader.rest, qos: qos, retain: flags & 4 != 0, expiresAt: expiresAt,
            isLogged: flags & 32 != 0)
        (message.change, message.origin, message.dispatch) = (change, origin, dispatch)
        return Decoded(message: message, node: NodeID(node), sequence: sequence, hasTopic: flags & 16 != 0)
    }

    private static func readShares(_ reader: inout EnvelopeReader) -> [GroupShare]? {
        guard let count = reader.integer() else { return nil }
        var shares: [GroupShare] = []
        // Each takes bytes, so that a large count ends where these do.
        for _ in 0..<count {
            guard let node = reader.fixed64(), let number = reader.integer().flatMap({ UInt32(exactly: $0) }) else { return nil }
            shares.append(GroupShare(node: node, number: number))
        }
        return shares
    }
}

/// Carries out what a `ClusterBus` decides, in the order of the calls. It does not call the bus from them.
///
/// What is for the servers goes to one connection, which keeps the order and does not send a node's own messages back
/// to it.
public protocol BusSink: AnyObject {
    /// Asks the servers for what is published to a subject.
    ///
    /// - Returns: the subscription's number, which no other one has on this connection.
    func subscribe(_ subject: [UInt8]) -> UInt64

    func unsubscribe(_ subscription: UInt64)

    /// Publishes; the bytes are valid during the call.
    ///
    /// - Parameters:
    ///   - reply: the subject for the answer, or for the servers' word that nobody is there; empty for none.
    ///   - payload: what it holds, without headers.
    ///   - count: how many messages of clients that are; 0 for a message.
    ///   - subject: where to.
    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, count: Int)

    /// Delivers a message of another node to the subscribers here. It is valid during the call.
    func deliver(_ message: ClusterMessage)

    /// Tells the shards how many members of share groups another node has.
    ///
    /// - Parameters:
    ///   - news: each all that the node has of its group.
    ///   - node: which one.
    ///   - receipt: `ClusterBus.learned` is to be called with it when the whole node knows this, and what came before.
    func learn(_ news: [GroupNews], of node: NodeID, _ receipt: GroupReceipt)

    /// Tells the shards that another node is gone, and its members of share groups with it.
    func forget(_ node: NodeID)

    /// Confirms all interest with a ticket up to this one: it is in force everywhere, and its SUBACKs may leave.
    func confirm(through ticket: UInt64)
}
