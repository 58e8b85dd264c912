/// The bounds of a node's part in its cluster that no option sets: each with its unit and what happens beyond it.
enum Limits {
    /// Milliseconds from a lease to the next one: behind it the servers have time to choose another leader before the
    /// lease ends.
    static let leaseRenewalMilliseconds: UInt64 = 1000

    /// Milliseconds that JetStream has for an answer.
    static let leaseAnswerMillisecondsMax: UInt64 = 1000

    /// How often it is looked whether the bucket of sessions' records is still the same, in milliseconds.
    static let sessionBucketMilliseconds: UInt64 = 10_000

    /// Questions about sessions' records that are under way at the same time; more wait in line.
    /// Bytes: 80 KiB each at most, as `sessionRecordFrameBytesMax`.
    static let sessionQuestionsMax = 256

    /// Milliseconds that JetStream has to answer such a question; then it is asked again.
    static let sessionAnswerMillisecondsMax: UInt64 = 2000

    /// Milliseconds that another node has to answer a message about a session; then it is asked again.
    static let sessionMessageMillisecondsMax: UInt64 = 1500

    /// Milliseconds without progress after which a client is told that nobody can say who keeps its session: longer
    /// than a lease and the time until that is seen to have ended.
    static let sessionClaimMillisecondsMax: UInt64 = 18_000

    /// How often what waits for others is looked at, in milliseconds.
    static let sessionTickMilliseconds: UInt64 = 250

    /// Sessions that other nodes are to forget and have not confirmed; beyond them the oldest is left as it is.
    /// Bytes: `sessionNameBytesMax`.
    static let sessionDropsMax = 10_000

    /// Bytes of the Client Identifiers in each list of sessions that are not here any more; beyond them it is as with
    /// too many entries.
    static let sessionNameBytesMax = 8 << 20

    /// Wills that are on their way into the log at the same time; more wait in line. Bytes: 128 KiB each at most, those
    /// of a will.
    static let willsUnderWayMax = 64

    /// Milliseconds that JetStream has to answer whether it has taken one.
    static let willAnswerMillisecondsMax: UInt64 = 2000

    /// How often the records of all sessions are read for those that nobody looks after, in milliseconds, beside the
    /// times at which a node goes.
    static let leftSessionsScanMilliseconds: UInt64 = 300_000

    /// How many nodes have a turn of their own; the others come with the last.
    static let leftSessionRanksMax = 6

    /// How much later a node looks after a session than the one whose turn it is, for each that is in front of it, in
    /// milliseconds.
    static let leftSessionStaggerMilliseconds: UInt64 = 5000

    /// Wills that are over and may stand in records yet that are remembered, so that nobody publishes them by these.
    /// Bytes: `sessionNameBytesMax`.
    static let endedWillsMax = 50_000

    /// Bytes of records on their way to shards that read them again; beyond them no more is read.
    static let replayGivenBytesMax = 4 << 20

    /// Milliseconds that JetStream has to answer to a record of the log; what comes later is not heard, and the record
    /// is sent again.
    static let logAnswerMillisecondsMax: UInt64 = 5000

    /// Records that are read once more when a node starts, to know those that were written twice.
    static let logRereadRecords: UInt64 = 256
}

/// What bounds the part of MartletServer in it too.
package enum ClusterLimits {
    /// How many questions of nodes wait for an answer here; more are answered 503.
    /// Bytes: 256 KiB each at most, `questionBytesMax` of Cluster.
    package static let nodeQuestionsMax = 64
}
