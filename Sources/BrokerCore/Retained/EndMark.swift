import BrokerModel
import MQTTCodec

/// A client's wish to be told when it has every retained message that a SUBSCRIBE asked for.
///
/// Who names the filter `$SYS/broker/subscribed/NONCE` in a SUBSCRIBE, with a nonce of its own, gets a message on that topic, alone and once:
/// QoS 0, without payload, behind all that was retained when the other filters of the packet came into force. Elsewhere it is an ordinary
/// filter on which nothing comes. It is no subscription: no session keeps it, nobody else's messages match it, and rights do not bear on it,
/// as it tells nothing but when the broker has done.
///
///     SUBSCRIBE ─► queries … mark ─► every scan before it has ended ─► other shards' messages are in ─► what waits before it is sent ─► PUBLISH
struct EndMark: Sendable {
    /// What the client has named, and gets.
    let topic: EncodedString
    /// The client's: on another connection of the session nobody has asked.
    let connection: ConnectionID
    /// The Subscription Identifier of the SUBSCRIBE, 0 for none. [MQTT-3.3.4-3 v5]
    let identifier: UInt32
    /// At most so many messages that go first still wait in the session's queue.
    var messagesBefore = 0

    private static let prefix = Array("$SYS/broker/subscribed/".utf8)

    /// The mark that a filter stands for; nil if it is an ordinary one: without a nonce, with one of several levels or wildcards, too long, or
    /// shared.
    init?(_ filter: TopicFilter, connection: ConnectionID, identifier: UInt32) {
        guard filter.bytes.first == UInt8(ascii: "$"), filter.bytes.starts(with: Self.prefix),
            (1...Limits.endMarkNonceBytesMax).contains(filter.bytes.count - Self.prefix.count)
        else { return nil }
        let isPlain = filter.bytes.dropFirst(Self.prefix.count).allSatisfy {
            $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "#")
        }
        guard isPlain, let topic = EncodedString(filter.bytes) else { return nil }
        (self.topic, self.connection, self.identifier) = (topic, connection, identifier)
    }
}

/// The end marks that a connection's client waits for.
struct EndMarks {
    /// How many there are, wherever they stand.
    var count = 0
    /// The marks that only wait for messages to leave the queue, in order.
    var behindQueue: [EndMark] = []
}

extension BrokerShard {
    /// Whether a connection's client may wait for one more mark.
    func takes(_ mark: EndMark, _ connection: Connection) -> Bool {
        let extras = connection.makeExtras()
        guard extras.endMarks.count < Limits.endMarksMax else { return false }
        extras.endMarks.count += 1
        return true
    }

    /// Every scan that a mark waited for has ended. A message that was retained meanwhile, and that the scans therefore passed over, may still
    /// be on its way from its publisher's shard: the mark goes once these have answered.
    func scansEnded(before mark: EndMark) {
        guard let connection = waitingConnection(of: mark) else { return }
        if shardCount > 1 {
            hold(.endMark(mark), connection.id)
        } else {
            queue(mark, connection)
        }
    }

    /// The mark goes behind what waits in its session's queue by now.
    func queue(_ mark: EndMark, _ connection: Connection) {
        guard let waiting = connection.session?.outbox.waiting, waiting > 0 else { return promise(.endMark(mark), to: connection) }
        var mark = mark
        mark.messagesBefore = waiting
        connection.makeExtras().endMarks.behindQueue.append(mark)
        connection.hasQueuedEndMarks = true
    }

    /// `count` messages of the queue have gone out, or have been given up; what has disappeared otherwise is no more than `left` says.
    func queueMoved(by count: Int, left: Int, _ connection: Connection) {
        guard let extras = connection.extras else { return }
        for position in extras.endMarks.behindQueue.indices {
            let before = extras.endMarks.behindQueue[position].messagesBefore
            extras.endMarks.behindQueue[position].messagesBefore = min(before - count, left)
        }
        while let mark = extras.endMarks.behindQueue.first, mark.messagesBefore <= 0 {
            extras.endMarks.behindQueue.removeFirst()
            promise(.endMark(mark), to: connection)
        }
        connection.hasQueuedEndMarks = !extras.endMarks.behindQueue.isEmpty
    }

    /// Sends a mark. One that is larger than the client takes is not sent. [MQTT-3.1.2-24 v5]
    func send(_ mark: EndMark, to connection: Connection) {
        connection.extras?.endMarks.count -= 1
        var packet = PublishPacket(topic: mark.topic)
        if mark.identifier != 0 { packet.properties.subscriptionIdentifiers = [mark.identifier] }
        send(.publish(packet), to: connection)
    }

    private func waitingConnection(of mark: EndMark) -> Connection? {
        guard let connection = connections.find(mark.connection), connection.state == .connected else { return nil }
        return connection
    }
}
