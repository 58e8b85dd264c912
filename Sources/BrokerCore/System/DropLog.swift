public import MQTTCodec

/// A message that did not get where it was going.
public struct DropRow: Hashable, Sendable {
    /// Milliseconds on the shard's clock.
    public internal(set) var at: UInt64
    /// The first 256 bytes of it.
    public internal(set) var topic: [UInt8]
    /// Whom it concerns: its receiver, or its publisher where nobody else was to get it; nil for nobody.
    public internal(set) var clientIdentifier: EncodedString?
    public internal(set) var reason: DropReason
    public internal(set) var qos: QoS
    /// Of topic, properties and payload.
    public internal(set) var byteCount: Int
}

/// What is told of a message that is being dropped; valid as long as the message.
struct DroppedMessage {
    let topic: UnsafeRawBufferPointer
    let qos: QoS
    let byteCount: Int
}

extension DroppedMessage {
    init(_ publication: borrowing Publication) {
        (topic, qos, byteCount) = (publication.topic, publication.qos, publication.byteCount)
    }

    init(_ message: Message) { (topic, qos, byteCount) = (message.topic, message.qos, message.byteCount) }

    /// - Parameter topic: as it is called inside the broker.
    init(_ view: PublishView, _ topic: UnsafeRawBufferPointer) {
        (self.topic, qos) = (topic, view.qos)
        byteCount = topic.count + view.properties.count + view.payload.count
    }
}

/// What was dropped on a shard.
public struct DropReport: Sendable {
    /// The last ones, last first: at most 100.
    public let last: [DropRow]
    /// By the first two levels of their topics, most first: at most 256 prefixes.
    public let byPrefix: [(prefix: [UInt8], drops: DropCounts)]
    /// Of other prefixes, which came when so many were known.
    public let ofOtherPrefixes: DropCounts
    /// By listener of the client that they concern, an index into `BrokerSettings.listeners`.
    public let byListener: [DropCounts]
}

/// Remembers what was dropped: the last messages, and counts by the beginning of their topics and by listener.
///
/// Whoever does not read loses thousands of messages a second, and to note one must cost less than to send it: no memory is allocated for it
/// but for the first ones. Invariants: at most `Limits.dropsRememberedMax` rows and `Limits.dropPrefixesMax` prefixes. Belongs to a shard.
struct DropLog {
    private struct Prefix {
        let hash: UInt64
        let text: [UInt8]
        var drops = DropCounts()
    }

    private var rows: [DropRow] = []
    private var next = 0
    private var prefixes: [Prefix] = []
    /// Places in `prefixes` by hash, -1 for none; twice as many as there can be prefixes.
    private var slots: [Int16] = []
    private var others = DropCounts()
    private var byListener: [DropCounts] = []
    private let hashing: TopicHash

    init(hashing: TopicHash) { self.hashing = hashing }

    mutating func add(
        _ reason: DropReason, _ message: DroppedMessage, client: EncodedString?, listener: Int?, at now: UInt64
    ) {
        let topic = message.topic
        remember(reason, message, client, now)
        if let place = place(of: Self.prefix(of: topic)) {
            prefixes[place].drops[reason] &+= 1
        } else {
            others[reason] &+= 1
        }
        guard let listener else { return }
        while byListener.count <= listener { byListener.append(DropCounts()) }
        byListener[listener][reason] &+= 1
    }

    private mutating func remember(
        _ reason: DropReason, _ message: DroppedMessage, _ client: EncodedString?, _ now: UInt64
    ) {
        let topic = message.topic.prefix(Limits.dropTopicBytesMax)
        guard rows.count == Limits.dropsRememberedMax else {
            rows.append(
                DropRow(
                    at: now, topic: Array(topic), clientIdentifier: client, reason: reason, qos: message.qos,
                    byteCount: message.byteCount))
            return
        }
        rows[next].at = now
        rows[next].reason = reason
        rows[next].qos = message.qos
        rows[next].byteCount = message.byteCount
        rows[next].clientIdentifier = client
        // Into the memory that the row has.
        rows[next].topic.removeAll(keepingCapacity: true)
        rows[next].topic.append(contentsOf: topic)
        next = next + 1 == rows.count ? 0 : next + 1
    }

    /// The first two levels, or less if they are long.
    private static func prefix(of topic: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var levels = 0
        let end = topic.prefix(Limits.dropPrefixBytesMax).firstIndex { byte in
            if byte == UInt8(ascii: "/") { levels += 1 }
            return levels == 2
        }
        return UnsafeRawBufferPointer(rebasing: topic[..<(end ?? min(topic.count, Limits.dropPrefixBytesMax))])
    }

    /// Where a prefix stands; nil if there is no room for another one.
    private mutating func place(of text: UnsafeRawBufferPointer) -> Int? {
        if slots.isEmpty { slots = Array(repeating: -1, count: Limits.dropPrefixesMax * 2) }
        let hash = hashing.hash(text)
        var slot = Int(hash >> 32) % slots.count
        while slots[slot] >= 0 {
            let place = Int(slots[slot])
            if prefixes[place].hash == hash, prefixes[place].text.elementsEqual(text) { return place }
            slot = slot + 1 == slots.count ? 0 : slot + 1
        }
        guard prefixes.count < Limits.dropPrefixesMax else { return nil }
        slots[slot] = Int16(prefixes.count)
        prefixes.append(Prefix(hash: hash, text: Array(text)))
        return prefixes.count - 1
    }

    func report() -> DropReport {
        DropReport(
            last: (Array(rows[next...]) + rows[..<next]).reversed(),
            byPrefix: prefixes.sorted { $0.drops.total > $1.drops.total }.map { ($0.text, $0.drops) },
            ofOtherPrefixes: others, byListener: byListener)
    }
}
