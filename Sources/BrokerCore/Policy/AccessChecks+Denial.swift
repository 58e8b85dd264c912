import BrokerModel
import MQTTCodec

/// Telling the operator what a client may not do, and by which rule: the first question of everybody whose messages do
/// not arrive.
extension AccessChecks {
    /// A PUBLISH was denied.
    ///
    /// - Parameters:
    ///   - topic: as it is called inside the broker.
    ///   - session: whose it is.
    ///   - connection: that of the session.
    ///   - words: why, if that is known.
    @inline(never)
    func logDenied(
        publish topic: UnsafeRawBufferPointer, of session: Session, _ connection: Connection, because words: String? = nil
    ) {
        shard.statistics.denials.count(.publish)
        let reserved =
            words ?? (topic[0] == UInt8(ascii: "$") ? shard.bridgeStateTopics.reservedTopicObjection(topic, of: session) : nil)
        logDenied("PUBLISH", LoggedText(topic).description, connection) {
            reserved ?? session.owner.access?.reason(denying: .write, topic: topic) ?? "nobody may"
        }
    }

    /// A subscription was denied.
    @inline(never)
    func logDenied(subscription filter: TopicFilter, of session: Session, _ connection: Connection) {
        shard.statistics.denials.count(.subscribe)
        logDenied("SUBSCRIBE", "\(filter)", connection) {
            session.owner.access?.reason(denyingSubscription: filter) ?? "nobody may"
        }
    }

    /// Says it, if the client has not been told of too often, and not too many are.
    private func logDenied(_ packet: StaticString, _ topic: String, _ connection: Connection, _ reason: () -> String) {
        guard shard.settings.logTopics.contains(.notice) else { return }
        let extras = connection.makeExtras()
        var gauge = extras.denials ?? DenialGauge(now: shard.now)
        defer { extras.denials = gauge }
        guard gauge.take(now: shard.now), shard.policy.deniedLines.take(1, now: shard.now) else { return gauge.skip() }
        let why = reason()
        let user = connection.loggedUserName.map { ", user '\($0)'" } ?? ""
        let skipped = gauge.skipped > 0 ? " (\(gauge.skipped) more of this client since the last such line.)" : ""
        gauge.skipped = 0
        shard.effects.append(
            .log(
                .notice,
                "Denied \(packet) \(connection.origin), client '\(connection.name)'\(user), to '\(topic)': \(why).\(skipped)",
                shard.fields(of: connection, topic: topic, reason: why)))
    }
}

/// How often a client's denials are told of: at once for the first few, then once in a while with how many there were.
///
/// Invariant: `left` is at most `Limits.deniedLinesBurstMax`.
struct DenialGauge {
    private var left = Limits.deniedLinesBurstMax
    /// When a line was last added to those that are left; milliseconds.
    private var filledAt: UInt64
    /// Denials that no line told of since the last one that did.
    var skipped = 0

    /// A client that has none yet.
    init(now: UInt64) { filledAt = now }

    /// Whether this one may be told of.
    mutating func take(now: UInt64) -> Bool {
        let gained = (now - filledAt) / Limits.deniedLinesMilliseconds
        if gained > 0 {
            left = min(Limits.deniedLinesBurstMax, left + Int(clamping: min(gained, UInt64(Limits.deniedLinesBurstMax))))
            filledAt = now
        }
        guard left > 0 else { return false }
        left -= 1
        return true
    }

    /// Counts a denial of which no line is written.
    mutating func skip() { skipped += 1 }
}
