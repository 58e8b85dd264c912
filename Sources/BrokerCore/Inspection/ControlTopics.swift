public import BrokerModel
public import MQTTCodec

/// PUBLISH to a topic below `$CONTROL/`, which is a request to the broker.
///
///     known endpoint ─► Effect.control ─► the shell answers with a message to <topic>/response, for all who may read it
///     another one    ─► the answer goes to who has asked, and to nobody else
///
/// What the shell has been given it says to have answered (`answered`): only so many bytes of requests wait for that.
struct ControlTopics {
    let shard: BrokerShard

    @inline(__always)
    static func isControl(_ topic: UnsafeRawBufferPointer) -> Bool { topic.starts(with: "$CONTROL/".utf8) }

    @inline(__always)
    static func isSecurity(_ topic: UnsafeRawBufferPointer) -> Bool {
        topic.first == UInt8(ascii: "$") && topic.starts(with: "$CONTROL/dynamic-security/".utf8)
    }

    /// Takes a request that the client may publish, and acknowledges it: with success, whatever becomes of it.
    @inline(never)
    func receivedControl(_ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session, _ connection: Connection) {
        // What came before it is answered before it.
        shard.dispatcher.endBatch()
        guard let name = TopicName(Array(topic)) else { return }
        // Who goes by no rules has no dynamic security, whatever other listeners have.
        guard shard.settings.controlEndpoints.contains(name), session.owner.access != nil || !Self.isSecurity(topic) else {
            shard.publishing.answer(view, session, connection, .success)
            return answerUnavailable(name, session)
        }
        guard shard.inspection.controlRequests.take(view.payload.count) else {
            shard.log(.warning) {
                "Warning: \(name): a request of \(connection.name) is not carried out: with its \(view.payload.count) bytes the "
                    + "\(shard.inspection.controlRequests.unansweredBytes) bytes of waiting requests would be too many."
            }
            shard.drops.drop(.noRoom, DroppedMessage(view, topic), for: session)
            return shard.receiving.answerRefused(
                view, session, connection, .quotaExceeded, because: "quota exceeded: too many requests wait for their answers")
        }
        shard.publishing.answer(view, session, connection, .success)
        shard.effects.append(
            .control(
                ControlMessage(
                    topic: name, payload: Array(view.payload), clientIdentifier: session.clientIdentifier,
                    userName: connection.client.userName, info: connection.info, shard: shard.index)))
    }

    private func answerUnavailable(_ topic: TopicName, _ session: Session) {
        guard let response = TopicName(topic.bytes + "/response".utf8), !shard.publishing.isTooLong(response.bytes) else { return }
        response.bytes.withUnsafeBytes { response in
            guard session.mayReceive(response) else { return }
            Array(#"{"error": "endpoint not available"}"#.utf8).withUnsafeBytes { payload in
                var publication = Publication(
                    topic: response, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: payload, qos: .atMostOnce,
                    retain: false, expiresAt: Message.neverExpires, publisher: 0)
                shard.dispatcher.sendOrQueue(&publication, to: session, qos: .atMostOnce, retain: false, identifiers: nil, group: 0)
                shard.dispatcher.finish(&publication)
            }
        }
    }
}

/// The requests below `$CONTROL/` that the shell has not answered.
///
/// Invariant: their payloads have `unansweredBytes`, at most `Limits.unansweredBytesMax`.
struct ControlRequests {
    private(set) var unansweredBytes = 0

    /// Counts a request in; false if it is too much beside those that wait.
    mutating func take(_ byteCount: Int) -> Bool {
        guard unansweredBytes + byteCount <= Limits.unansweredBytesMax else { return false }
        unansweredBytes += byteCount
        return true
    }

    mutating func answered(_ byteCount: Int) { unansweredBytes = max(0, unansweredBytes - byteCount) }
}

/// What a client has published below `$CONTROL/`: a request to the broker itself, which nobody else gets. It may
/// publish there.
public struct ControlMessage: Sendable {
    /// Where it was published; the answer goes to this topic with `/response` behind it.
    public let topic: TopicName
    public let payload: [UInt8]
    /// The client that asks.
    public let clientIdentifier: EncodedString
    public let userName: EncodedString?
    public let info: ConnectionInfo
    /// The shard that is told when it has been answered.
    public let shard: Int
}

extension Limits {
    /// Bytes of requests below `$CONTROL/` that a shard's clients have made and nobody has answered; beyond them a
    /// request is refused with Quota exceeded (0x97), and logged.
    static let unansweredBytesMax = 16 << 20
}

extension BrokerShard {
    /// The shell has done with a request of `byteCount` bytes of payload.
    public func answered(_ byteCount: Int) { inspection.controlRequests.answered(byteCount) }
}
