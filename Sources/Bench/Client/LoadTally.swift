/// What the connections of one thread have counted together.
final class LoadTally {
    var published: UInt64 = 0
    var delivered: UInt64 = 0
    var acknowledged: UInt64 = 0
    var rejected: UInt64 = 0
    var duplicates: UInt64 = 0
    var skipped: UInt64 = 0
    var ready = 0

    init() {}

    /// PUBLISH packets put into connections' output.
    var publishedCount: UInt64 { published }
    /// PUBLISH packets received whole, duplicates included.
    var deliveredCount: UInt64 { delivered }
    /// QoS 1 and 2 messages whose handshake is complete, rejected ones included.
    var acknowledgedCount: UInt64 { acknowledged }
    /// Messages that the broker acknowledged with a failure.
    var rejectedCount: UInt64 { rejected }
    /// Messages whose number was not above that of the one before, from the same publisher on the same connection.
    var duplicateCount: UInt64 { duplicates }
    /// Numbers that were passed over: messages that did not arrive.
    var skippedCount: UInt64 { skipped }
    /// Connections that are connected, and subscribed if they subscribe.
    var readyCount: Int { ready }
}
