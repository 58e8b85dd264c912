import Bytes
import MQTTCodec

/// Recognizes messages that the other broker sends back to us, where the protocol does not prevent it: MQTT 3 has no No
/// Local, and not every broker knows the bridges' bit.
///
/// Counts, per digest of topic and payload, what was sent and has not come back. A stranger's equal message within that
/// time is taken for ours, and ours for the stranger's: one of each gets through either way.
struct EchoFilter {
    private var awaited: [UInt64: (count: Int, lastNumber: UInt64)] = [:]
    private var order = Deque<(digest: UInt64, number: UInt64, sentAt: UInt64)>()
    private var number: UInt64 = 0
    /// The digests of messages that have come back, by packet identifier, until another message has the identifier: the
    /// other broker may repeat them.
    private var returned: [UInt16: UInt64] = [:]

    /// Expects a message back, once. One that is sent again is expected already, unless it was forgotten.
    mutating func sent(_ view: PublishView, _ topic: UnsafeRawBufferPointer, now: UInt64) {
        let digest = Self.digest(topic, view.payload)
        if view.duplicate, awaited[digest] != nil { return }
        number += 1
        awaited[digest] = ((awaited[digest]?.count ?? 0) + 1, number)
        order.append((digest, number, now))
        forget(now: now)
    }

    /// Whether a message that has come is one that the bridge has sent: true once for each message that was sent, and
    /// again when the other broker repeats it.
    mutating func isEcho(_ view: PublishView, _ topic: UnsafeRawBufferPointer, now: UInt64) -> Bool {
        forget(now: now)
        let digest = Self.digest(topic, view.payload)
        if view.duplicate, returned[view.packetIdentifier] == digest { return true }
        returned[view.packetIdentifier] = nil
        guard let known = awaited[digest] else { return false }
        awaited[digest] = known.count > 1 ? (known.count - 1, known.lastNumber) : nil
        if view.qos != .atMostOnce { returned[view.packetIdentifier] = digest }
        return true
    }

    /// Restarts the time of all messages that are expected, because there is a connection again.
    mutating func goOn(now: UInt64) {
        for index in order.indices { order[index].sentAt = now }
    }

    /// Forgets what has not come back in time: all of one digest with the last that was sent.
    private mutating func forget(now: UInt64) {
        while let oldest = order.first, order.count > Limits.echoesMax || oldest.sentAt + Limits.echoMillisecondsMax < now {
            if awaited[oldest.digest]?.lastNumber == oldest.number { awaited[oldest.digest] = nil }
            order.popFirst()
        }
    }

    /// FNV-1a over the two, with their lengths: no adversary gains by a collision more than by the message itself.
    private static func digest(_ topic: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(topic.count) &* 31
        for byte in topic { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        for byte in payload { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return hash
    }
}

extension Limits {
    /// Messages whose return is awaited from a broker that knows no bridges; the oldest is forgotten for the next.
    /// Bytes: 48 each, messages are hashed.
    static let echoesMax = 16_384
}
