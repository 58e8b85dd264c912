public import BrokerModel
public import Bytes
import MQTTCodec

/// The part of a connection that most connections never need.
final class ConnectionExtras {
    /// The CONNECT that is not answered yet.
    var pendingConnect: PendingConnect?
    /// The bytes of memory that it takes, with the topics of the client's aliases.
    var heldBytes: Int { (pendingConnect?.heldBytes ?? 0) + receivedAliases.byteCount + (openPacket?.heldBytes ?? 0) }
    /// The packet that is still being worked off.
    var openPacket: WaitingPacket?
    /// The topics that the client gave aliases to.
    var receivedAliases = ReceivedAliases()
    /// The topics that the broker gave aliases to.
    var sentAliases = SentAliases(maximum: 0)
    /// The far end of a connection inside the process.
    var local: LocalClient?
    /// The far end of a connection inside the process whose party speaks MQTT itself.
    var relay: LocalRelay?
    /// What the client may still send this second; nil without a limit.
    var messageRate: RateGauge?
    var byteRate: RateGauge?
    /// How often the log has told of what the client may not do; nil when it never has.
    var denials: DenialGauge?
    /// What stands before the client's topics inside the broker; empty for nothing.
    var mountPoint: [UInt8] = []
    /// The end marks that the client waits for.
    var endsOfRetained = EndsOfRetained()
    /// The Authentication Method of CONNECT, for AUTH packets.
    var authenticationMethod: EncodedString?
    /// Whether the client is connected and needs none of this any more.
    var isIdle: Bool {
        authenticationMethod == nil && sentAliases.maximum == 0 && mountPoint.isEmpty && messageRate == nil && byteRate == nil
            && local == nil && relay == nil && denials == nil && !hasLoginEnd
    }
    /// Whether a packet of the client waits for what is decided about its topic.
    var awaitsDecision = false
    /// Whether an enhanced authentication is going on.
    var isReauthenticating = false
    /// When its login ends, and with it the connection; `UInt64.max` for never.
    var loginEndsAt: UInt64 = .max
    var hasLoginEnd: Bool { loginEndsAt != .max }
    /// Since when its output waits.
    var outputLag = OutputLag()
}

/// The Topic Aliases that a client has set on its connection. [MQTT-3.3.2-12 v5]
struct ReceivedAliases {
    /// The topic of alias 1, 2, …; empty where none is set.
    private var topics: [[UInt8]] = []
    /// Of all topics.
    private(set) var byteCount = 0

    /// Sets the alias (1 or more, within the limit that CONNACK gave) to `topic`.
    mutating func set(_ alias: UInt16, to topic: UnsafeRawBufferPointer) {
        while topics.count < Int(alias) { topics.append([]) }
        byteCount += topic.count - topics[Int(alias) - 1].count
        topics[Int(alias) - 1] = Array(topic)
    }

    /// The topic of an alias, or nil if the client has not set it.
    func topic(of alias: UInt16) -> [UInt8]? {
        guard alias > 0, Int(alias) <= topics.count, !topics[Int(alias) - 1].isEmpty else { return nil }
        return topics[Int(alias) - 1]
    }
}

/// Since when the oldest byte of a connection's output has waited, while its transport takes less than it is given.
///
///     sent ──── here ─── last ───────── end of the output
///                 t1       t2                                    what stands before `here` was there at t1
///
/// Two marks in the stream of bytes, each with the time when it was its end: the lag is too short by no more than the
/// time between them, and never too long. Belongs to a connection.
struct OutputLag {
    private struct Mark {
        let end: UInt64
        let at: UInt64
    }

    private var here: Mark?
    private var last: Mark?

    /// The transport has not taken all.
    ///
    /// - Parameters:
    ///   - sent: how many bytes it has taken so far.
    ///   - pending: how many it has not.
    ///   - now: in milliseconds.
    mutating func record(sent: UInt64, pending: Int, now: UInt64) {
        let end = Mark(end: sent &+ UInt64(pending), at: now)
        if let mark = here, sent < mark.end {
            // The later mark stays until the first is passed.
            if last.map({ sent >= $0.end }) ?? true { last = end }
        } else if let mark = last, sent < mark.end {
            (here, last) = (mark, end)
        } else {
            (here, last) = (end, nil)
        }
    }

    /// The transport has taken all.
    mutating func clear() { (here, last) = (nil, nil) }

    /// How long the oldest byte has waited at least.
    func milliseconds(now: UInt64) -> UInt64 { here.map { now &- min(now, $0.at) } ?? 0 }
}

extension Connecting {
    /// A connection's transport has taken less than it was given.
    @inline(never)
    func recordLag(of connection: Connection) {
        connection.pace.isLagging = true
        connection.makeExtras().outputLag.record(
            sent: connection.traffic.sentBytes, pending: connection.output.pendingBytes, now: shard.now)
        shard.slowClients.suspect(connection)
    }

    /// It has taken all.
    @inline(never)
    func endLag(of connection: Connection) {
        connection.pace.isLagging = false
        connection.extras?.outputLag.clear()
    }
}

/// Takes a connection's output to its transport. Called once per connection and turn.
public protocol OutputSink: AnyObject {
    /// Sends as much as the transport takes without waiting.
    ///
    /// - Returns: the bytes taken. When they are fewer than given, the shell calls `BrokerShard.writable` once there is
    ///   room.
    func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int
}

/// Counts what a client sends against a limit a second: a bucket that holds a second's worth and fills evenly.
struct RateGauge {
    private let perSecond: Int
    /// Thousandths of what may still be sent.
    private var left: Int
    private var lastAt: UInt64

    init(perSecond: Int, now: UInt64) {
        self.perSecond = perSecond
        left = perSecond * 1000
        lastAt = now
    }

    /// Takes `count` from the bucket; false when it does not hold that much.
    mutating func take(_ count: Int, now: UInt64) -> Bool {
        let elapsed = Int(clamping: min(now - lastAt, 1000))
        lastAt = now
        left = min(perSecond * 1000, left + elapsed * perSecond)
        // A single packet larger than a second's worth must be possible from a full bucket.
        guard left >= count * 1000 || left == perSecond * 1000 else { return false }
        left -= count * 1000
        return true
    }
}

/// The Topic Aliases that the broker uses towards one client.
///
/// An alias costs three bytes each time and spares the topic, so only topics longer than that get one, and only when
/// they come a second time; the aliases go to the topics that came first, and the one unused for longest gives way.
/// [MQTT-3.3.2-11 v5]
struct SentAliases {
    /// How a message names its topic.
    enum Naming: Equatable {
        /// By the topic alone.
        case topic
        /// By the topic, which sets the alias.
        case topicAndAlias(UInt16)
        /// By the alias alone.
        case alias(UInt16)
    }

    private struct Entry {
        var topic: [UInt8]
        var lastUse: UInt64
    }

    static let shortestTopicWorthAnAlias = 4

    /// The client's Topic Alias Maximum, bounded by the broker's own limit.
    let maximum: UInt16
    private var entries: [Entry] = []
    private var candidate: [UInt8] = []
    private var uses: UInt64 = 0

    init(maximum: UInt16) { self.maximum = maximum }

    /// How to name `topic` in the next PUBLISH. With `.topicAndAlias` the alias counts as set: the packet must be sent.
    mutating func name(_ topic: UnsafeRawBufferPointer) -> Naming {
        guard maximum > 0, topic.count >= Self.shortestTopicWorthAnAlias else { return .topic }
        uses += 1
        for position in entries.indices where Self.equal(entries[position].topic, topic) {
            entries[position].lastUse = uses
            return .alias(UInt16(position + 1))
        }
        guard Self.equal(candidate, topic) || entries.count < Int(maximum) else {
            candidate = Array(topic)
            return .topic
        }
        if entries.count < Int(maximum) {
            entries.append(Entry(topic: Array(topic), lastUse: uses))
            return .topicAndAlias(UInt16(entries.count))
        }
        guard let oldest = entries.indices.min(by: { entries[$0].lastUse < entries[$1].lastUse }) else { return .topic }
        entries[oldest] = Entry(topic: Array(topic), lastUse: uses)
        return .topicAndAlias(UInt16(oldest + 1))
    }

    private static func equal(_ left: [UInt8], _ right: UnsafeRawBufferPointer) -> Bool {
        left.withUnsafeBytes { MemoryComparison.equal($0, right) }
    }
}
