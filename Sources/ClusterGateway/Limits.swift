/// The bounds of a node's part in its cluster that no option sets: each with its unit and what happens beyond it.
enum Limits {
    /// How often it is told how many clients were refused because the node that has their sessions is away, in milliseconds.
    static let awaitedToldMilliseconds: UInt64 = 10_000

    /// How long a node counts as one that does not renew its lease, in seconds. Its clients are to stay when the servers choose another leader,
    /// for which nats-server 2.14 waits 4 to 9 s, mostly 6: it is that, the allowance, a renewal that was due, and 1.5 s to be asked again.
    static let leaseSeconds: UInt64 = 13

    /// How much earlier than the servers a node counts its own lease as ended, in milliseconds: for clocks that differ, and for the time that
    /// it takes to stop.
    static let leaseAllowanceMilliseconds: UInt64 = 1500

    /// Milliseconds from a lease to the next one: behind it the servers have time to choose another leader before the lease ends.
    static let leaseRenewalMilliseconds: UInt64 = 1000

    /// Lists of leases that are passed over because an earlier one went further; the next one counts.
    static let olderListsMax = 10

    /// Milliseconds after which is tried again what did not work.
    static let leaseRetryMilliseconds: UInt64 = 500

    /// Milliseconds that JetStream has for an answer.
    static let leaseAnswerMillisecondsMax: UInt64 = 1000

    /// Questions about sessions' records that are under way at the same time; more wait in line.
    /// Bytes: 80 KiB each at most, as `sessionRecordFrameBytesMax`.
    static let sessionQuestionsMax = 256

    /// Milliseconds that JetStream has to answer such a question; then it is asked again.
    static let sessionAnswerMillisecondsMax: UInt64 = 2000

    /// Seconds for which the mark of a session's end is kept.
    static let sessionMarkSeconds: UInt64 = 60

    /// Bytes of a session's record, and of the message with it, beside what is saved of the session.
    static let sessionRecordFrameBytesMax = 80 << 10

    /// Room for the headers of a session's record, and for the names of nodes that join it, in bytes.
    static let sessionRecordHeadersBytesMax = 4 << 10

    /// The longest Message Expiry Interval there is, in milliseconds.
    static let messageExpiryMillisecondsMax = UInt64(UInt32.max) * 1000

    /// Milliseconds that another node has to answer a message about a session; then it is asked again.
    static let sessionMessageMillisecondsMax: UInt64 = 1500

    /// Milliseconds without progress after which a client is told that nobody can say who keeps its session: longer than a lease and the time
    /// until that is seen to have ended.
    static let sessionClaimMillisecondsMax: UInt64 = 18_000

    /// Milliseconds after which a session that another node has asked for, and does not fetch, is this node's again.
    static let sessionExportMillisecondsMax: UInt64 = 30_000

    /// How often what waits for others is looked at, in milliseconds.
    static let sessionTickMilliseconds: UInt64 = 250

    /// Sessions that other nodes are to forget and have not confirmed; beyond them the oldest is left as it is.
    /// Bytes: `sessionNameBytesMax`.
    static let sessionDropsMax = 10_000

    /// Bytes of the Client Identifiers in each list of sessions that are not here any more; beyond them it is as with too many entries.
    static let sessionNameBytesMax = 8 << 20

    /// Wills that are on their way into the log at the same time; more wait in line. Bytes: 128 KiB each at most, those of a will.
    static let willsUnderWayMax = 64

    /// Milliseconds that JetStream has to answer whether it has taken one.
    static let willAnswerMillisecondsMax: UInt64 = 2000

    /// How often the records of all sessions are read for those that nobody looks after, in milliseconds, beside the times at which a node goes.
    static let leftSessionsScanMilliseconds: UInt64 = 300_000

    /// How many records are read for that in a tick.
    static let scannedRecordsPerTick = 5000

    /// How many are on their way at a time.
    static let scannedRecordsBatch = 500

    /// How many nodes have a turn of their own; the others come with the last.
    static let leftSessionRanksMax = 6

    /// How long the mark of a retained message that was deleted stays, in seconds, as all of them.
    static let retainedMarkSeconds: UInt64 = 86_400

    /// How much later a node looks after a session than the one whose turn it is, for each that is in front of it, in milliseconds.
    static let leftSessionStaggerMilliseconds: UInt64 = 5000

    /// Wills that are over and may stand in records yet that are remembered, so that nobody publishes them by these.
    /// Bytes: `sessionNameBytesMax`.
    static let endedWillsMax = 50_000

    /// Bytes of records on their way to shards that read them again; beyond them no more is read.
    static let replayGivenBytesMax = 4 << 20

    /// How long nodes have to answer what they are asked for an administrator, in milliseconds.
    static let nodeAnswerMillisecondsMax: UInt64 = 2000

    /// How long a server may take for its answer, in milliseconds.
    static let monitorAnswerMillisecondsMax: UInt64 = 3000

    /// Bytes of its answer, which has two kilobytes or so.
    static let monitorAnswerBytesMax = 1 << 20

    /// Milliseconds that JetStream has to answer to a record of the log; what comes later is not heard, and the record is sent again.
    static let logAnswerMillisecondsMax: UInt64 = 5000

    /// Records that are read once more when a node starts, to know those that were written twice.
    static let logRereadRecords: UInt64 = 256

    /// Bytes of records that the shards have not worked off; beyond them no more is read.
    static let logGivenBytesMax = 16 << 20

    /// How long the log keeps a record, in days.
    static let logDays = 7

    /// Milliseconds that JetStream has to take what nodes share.
    static let accessAnswerMillisecondsMax: UInt64 = 3000

    /// Seconds for which the mark of a lifted ban is kept: whoever does not follow reads everything anew.
    static let liftedBanSeconds: UInt64 = 600

    /// Seconds that servers keep a ban at most; one that is to last longer they keep for ever, and nodes end it by themselves.
    static let banSecondsMax: UInt64 = 100 * 365 * 86_400

    /// Seconds that a ban is kept longer than it lasts, for nodes whose clocks are behind.
    static let banGraceSeconds: UInt64 = 5

    /// Milliseconds that JetStream has to answer a change of a retained message; then it is sent again.
    static let retainedAnswerMillisecondsMax: UInt64 = 2000

    /// Records of retained messages that may be on their way; a loop takes in no more between two turns.
    static let retainedBatchMax = 64

    /// Bytes of a record besides the retained message and its origin, with the headers that it travels under; more do not occur.
    static let retainedFrameBytesMax = 512

    // Stopping.

    /// How long a refusal of the servers for want of room counts, in milliseconds, unless it comes again: longer than what is refused waits until
    /// it is tried again.
    static let clusterRefusalLastsMilliseconds: UInt64 = 5000

    /// How often at most it is logged that a stream has no room, in milliseconds.
    static let clusterRefusalToldMilliseconds: UInt64 = 60_000

    /// How long a node of a cluster carries nothing until it is logged what it waits for, in milliseconds.
    static let clusterAwaitedMilliseconds: UInt64 = 5000

    /// How many different reasons why a cluster carries nothing are logged until it carries messages again. Bytes: 1,000 each at most.
    static let clusterReasonsMax = 100

    /// How many of the nodes that have not answered are named. Bytes: 255 each at most.
    static let namedNodesMax = 3

    /// How long a node shows what its servers have not understood, in milliseconds.
    static let clusterComplaintMilliseconds: UInt64 = 30_000

    /// How long a node is not ready after its servers have refused it something for want of a permission, in milliseconds: longer than it takes
    /// to ask again for what is asked for in any case, such as a subscription.
    static let clusterRefusalMilliseconds: UInt64 = 60_000
}

/// What bounds the part of MartletServer in it too.
package enum ClusterLimits {
    /// How many questions of nodes wait for an answer here; more are answered 503.
    /// Bytes: 256 KiB each at most, `questionBytesMax` of Cluster.
    package static let nodeQuestionsMax = 64
}
