import BrokerModel
import MQTTCodec

/// The parts of a dropped message that are reported; valid as long as the message.
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

/// Remembers what was dropped: the last messages, and counts by the beginning of their topics and by listener.
///
/// Whoever does not read loses thousands of messages a second, and to note one must cost less than to send it: no
/// memory is allocated for it but for the first ones. Invariants: at most `Limits.dropsRememberedMax` rows and
/// `Limits.dropPrefixesMax` prefixes. Belongs to a shard.
struct DropLog {
    private struct Prefix {
        let hash: UInt64
        let text: [UInt8]
    }

    private var rows: [DropRow] = []
    private var next = 0
    /// Where the last row stands, and the place of its prefix: one message is dropped for many receivers, one after the
    /// other.
    private var last = 0
    private var lastPrefix: Int?
    /// When the last drop came, and how many did at that time.
    private var rowsAt: UInt64 = 0
    private var rowsOfNow = 0
    private var prefixes: [Prefix] = []
    /// Of each prefix, and behind them of all others: a count for each reason.
    private var prefixCounts: [UInt64] = []
    /// Places in `prefixes` by hash, -1 for none; twice as many as there can be prefixes.
    private var slots: [Int16] = []
    /// By listener, a count for each reason.
    private var listenerCounts: [UInt64] = []
    private let hashing: TopicHash
    private static let reasons = DropReason.allCases.count

    init(hashing: TopicHash) { self.hashing = hashing }

    mutating func add(
        _ reason: DropReason, _ message: DroppedMessage, client: EncodedString?, listener: Int?, at now: UInt64
    ) {
        let topic = UnsafeRawBufferPointer(rebasing: message.topic.prefix(Limits.dropTopicBytesMax))
        if prefixCounts.isEmpty {
            prefixCounts = Array(repeating: 0, count: (Limits.dropPrefixesMax + 1) * Self.reasons)
            slots = Array(repeating: -1, count: Limits.dropPrefixesMax * 2)
        }
        let isSame = !rows.isEmpty && rows[last].topic.withUnsafeBytes { MemoryComparison.equal($0, topic) }
        let position = isSame ? lastPrefix : prefixIndex(of: Self.prefix(of: topic))
        prefixCounts[(position ?? Limits.dropPrefixesMax) &* Self.reasons &+ Int(reason.rawValue)] &+= 1
        if isWorthARow(now) {
            remember(reason, message, topic, client, now)
            lastPrefix = position
        }
        guard let listener, listener >= 0 else { return }
        let count = listener &* Self.reasons &+ Int(reason.rawValue)
        while listenerCounts.count <= count { listenerCounts += Array(repeating: 0, count: Self.reasons) }
        listenerCounts[count] &+= 1
    }

    /// Of one millisecond as many drops are remembered as there are rows: in a storm nobody could tell its first
    /// hundred from its last.
    @inline(__always)
    private mutating func isWorthARow(_ now: UInt64) -> Bool {
        if now != rowsAt { (rowsAt, rowsOfNow) = (now, 0) }
        rowsOfNow &+= 1
        return rowsOfNow <= Limits.dropsRememberedMax
    }

    private mutating func remember(
        _ reason: DropReason, _ message: DroppedMessage, _ topic: UnsafeRawBufferPointer, _ client: EncodedString?, _ now: UInt64
    ) {
        let client = client?.cut
        guard rows.count == Limits.dropsRememberedMax else {
            last = rows.count
            rows.append(
                DropRow(
                    at: now, topic: Array(topic), clientIdentifier: client, reason: reason, qos: message.qos,
                    byteCount: message.byteCount))
            return
        }
        last = next
        next = next &+ 1 == rows.count ? 0 : next &+ 1
        rows[last].remember(reason, message, topic, client, now)
    }

    /// The first two levels, or less if they are long.
    private static func prefix(of topic: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let end = min(topic.count, Limits.dropPrefixBytesMax)
        var (levels, count) = (0, 0)
        while count < end {
            if topic[count] == UInt8(ascii: "/") { levels &+= 1 }
            if levels == 2 { break }
            count &+= 1
        }
        return UnsafeRawBufferPointer(rebasing: topic[..<count])
    }

    /// Where a prefix stands; nil if there is no room for another one.
    private mutating func prefixIndex(of text: UnsafeRawBufferPointer) -> Int? {
        let hash = hashing.hash(text)
        var slot = Int(hash >> 32) % slots.count
        while slots[slot] >= 0 {
            let position = Int(slots[slot])
            if prefixes[position].hash == hash, prefixes[position].text.withUnsafeBytes({ MemoryComparison.equal($0, text) }) {
                return position
            }
            slot = slot + 1 == slots.count ? 0 : slot + 1
        }
        guard prefixes.count < Limits.dropPrefixesMax else { return nil }
        slots[slot] = Int16(prefixes.count)
        prefixes.append(Prefix(hash: hash, text: Array(text)))
        return prefixes.count - 1
    }

    private static func drops(_ counts: [UInt64], at position: Int) -> DropCounts {
        var drops = DropCounts()
        for reason in DropReason.allCases where counts.count > position * reasons {
            let count = counts[position * reasons + Int(reason.rawValue)]
            if count > 0 { drops[reason] = count }
        }
        return drops
    }

    func report() -> DropReport {
        let byPrefix = prefixes.indices.map { (prefix: prefixes[$0].text, drops: Self.drops(prefixCounts, at: $0)) }
        return DropReport(
            last: (Array(rows[next...]) + rows[..<next]).reversed(), byPrefix: byPrefix.sorted { $0.drops.total > $1.drops.total },
            ofOtherPrefixes: Self.drops(prefixCounts, at: Limits.dropPrefixesMax),
            byListener: (0..<listenerCounts.count / Self.reasons).map { Self.drops(listenerCounts, at: $0) })
    }
}

extension DropRow {
    /// Another message, in the memory that this one has.
    @inline(__always)
    fileprivate mutating func remember(
        _ reason: DropReason, _ message: DroppedMessage, _ topic: UnsafeRawBufferPointer, _ client: EncodedString?, _ now: UInt64
    ) {
        (at, self.reason, qos, byteCount) = (now, reason, message.qos, message.byteCount)
        if clientIdentifier != client { clientIdentifier = client }
        if self.topic.count == topic.count {
            self.topic.withUnsafeMutableBytes { $0.copyMemory(from: topic) }
        } else {
            self.topic = Array(topic)
        }
    }
}

extension Limits {
    /// Dropped messages of a shard; the oldest goes for the next one. Bytes: 1,000 each, with `dropTopicBytesMax` and
    /// `keptTextBytesMax`.
    static let dropsRememberedMax = 100

    /// Bytes of their topics; the rest is cut.
    static let dropTopicBytesMax = 256

    /// Beginnings of topics of which drops are counted; those of others are counted together. Bytes:
    /// `dropPrefixBytesMax` each.
    static let dropPrefixesMax = 256

    /// Bytes of such a beginning; a longer one is cut.
    static let dropPrefixBytesMax = 128
}
