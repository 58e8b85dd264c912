import MQTTCodec

/// Knows the messages that a broker sends back which it got from us, where the protocol does not: MQTT 3 has no No
/// Local, and not every broker knows the bridges' bit.
///
/// Counts, per digest of topic and payload, what was sent and has not come back. A stranger's equal message within that
/// time is taken for ours, and ours for the stranger's: one of each gets through either way.
struct EchoFilter {
    private var awaited: [UInt64: (count: Int, lastNumber: UInt64)] = [:]
    private var order: [(digest: UInt64, number: UInt64, sentAt: UInt64)] = []
    private var head = 0
    private var number: UInt64 = 0
    /// What has come back, by its packet identifier, until another message has that: it may be repeated.
    private var returned: [UInt16: UInt64] = [:]

    /// A message was sent that the other broker will send back, once; for one that is sent again it is awaited already,
    /// unless that was forgotten.
    mutating func sent(_ view: PublishView, _ topic: UnsafeRawBufferPointer, now: UInt64) {
        let digest = Self.digest(topic, view.payload)
        if view.duplicate, awaited[digest] != nil { return }
        number += 1
        awaited[digest] = ((awaited[digest]?.count ?? 0) + 1, number)
        order.append((digest, number, now))
        forget(now: now)
    }

    /// Whether a message that came is one of ours; said once for each that was sent, and again for what is repeated.
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

    /// There is a connection again: what was sent before it has its time from now on.
    mutating func goOn(now: UInt64) {
        for index in order.indices[head...] { order[index].sentAt = now }
    }

    /// What has not come back in time will not: all of one digest go with the last that was sent.
    private mutating func forget(now: UInt64) {
        while head < order.count, order.count - head > Limits.echoesMax || order[head].sentAt + Limits.echoMillisecondsMax < now {
            if awaited[order[head].digest]?.lastNumber == order[head].number { awaited[order[head].digest] = nil }
            head += 1
        }
        guard head > Limits.echoesMax else { return }
        order.removeFirst(head)
        head = 0
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
