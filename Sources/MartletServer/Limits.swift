/// The bounds of the shell around the core that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // What is said of a configuration.

    /// Names in a directory that a missing file's is compared with; in a larger one no other is proposed.
    /// Bytes: 256 each at most, until one is found.
    static let neighboursMax = 1000

    // Dynamic security.

    /// Messages of commands that wait for the one that is performed; one more is not taken.
    /// Bytes: 16 MiB a loop, `unansweredBytesMax` of BrokerCore.
    static let controlMessagesMax = 1000

    /// Commands of one message on `$CONTROL/broker/v1`; those beyond them are refused. Bytes: `requestBodyBytesMax` each at most.
    static let brokerCommandsMax = 100

    /// Clients whose addresses are read at a time.
    static let connectionRowsPerPage = 1000

    /// Bytes of the file with the first password; a larger one is none.
    static let firstPasswordFileBytesMax = 1024

    /// Bytes that the first password from the environment has at least.
    static let firstPasswordBytesMin = 12

    /// Characters of a first password that is made up: 119 bits of chance.
    static let firstPasswordCharacters = 20

    // Administration.

    /// Passwords for files that are hashed at the same time; one more is refused. Bytes: 46 MiB each, what Argon2 takes.
    static let entriesHashedMax = 4

    /// Bytes that a page of the dashboard has sent over its WebSocket and that no loop has taken, and bytes of a frame: then the connection ends.
    static let pageBytesMax = 1 << 20

    /// Bytes of one read for a page.
    static let pageReadBytesMax = 16 << 10

    // A cluster.

    /// Bytes of `martlet_cluster_nkey_file`; a larger one is no seed.
    static let clusterKeyFileBytesMax = 4096

    /// Bytes of `martlet_cluster_cafile` and the like that are compared when the configuration is read again; whether a larger one is another is
    /// not seen.
    static let clusterCertificateBytesMax = 4 << 20

    /// How long after the start a client waits until its node has found the cluster, in milliseconds; then it is refused. Less than the 10 s
    /// after which many clients take a broker that does not answer for one that is not there.
    static let clusterStartMilliseconds: UInt64 = 8_000

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

    /// Milliseconds that another node has to answer a letter about a session; then it is asked again.
    static let sessionLetterMillisecondsMax: UInt64 = 1500

    /// Milliseconds without progress after which a client is told that nobody can say who keeps its session: longer than a lease and the time
    /// until that is seen to have ended.
    static let sessionClaimMillisecondsMax: UInt64 = 18_000

    /// Milliseconds after which a session that another node has asked for, and does not fetch, is this node's again.
    static let sessionDepartureMillisecondsMax: UInt64 = 30_000

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

    /// How often a node says how it is, in milliseconds.
    static let summaryMilliseconds: UInt64 = 2000

    /// How long nodes have to answer what they are asked for an administrator, in milliseconds.
    static let nodeAnswerMillisecondsMax: UInt64 = 2000

    /// How many questions of nodes wait for an answer here; more are answered 503.
    /// Bytes: 256 KiB each at most, `questionBytesMax` of Cluster.
    static let nodeQuestionsMax = 64

    /// How many places a client is told that is sent away; each client begins with another one.
    static let serverReferencePlacesMax = 8

    /// How often the monitoring of the cluster's servers is asked when they sync, in milliseconds.
    static let monitorMilliseconds: UInt64 = 30_000

    /// How long a server may take for its answer, in milliseconds.
    static let monitorAnswerMillisecondsMax: UInt64 = 3000

    /// Bytes of its answer, which has two kilobytes or so.
    static let monitorAnswerBytesMax = 1 << 20

    /// How often the control thread asks how the cluster is, in milliseconds.
    static let clusterReportMilliseconds: UInt64 = 1000

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

    /// Bans that a node has made by itself and is telling the others at the same time.
    static let banOffersMax = 256

    /// Seconds that servers keep a ban at most; one that is to last longer they keep for ever, and nodes end it by themselves.
    static let banSecondsMax: UInt64 = 100 * 365 * 86_400

    /// Seconds that a ban is kept longer than it lasts, for nodes whose clocks are behind.
    static let banGraceSeconds: UInt64 = 5

    /// How often a change of dynamic security is made anew because another node was quicker, before it is refused.
    static let securityAttemptsMax = 20

    /// Copies of a node's own dynamic security that are kept when it joins clusters; a node that has so many does not join.
    static let securityCopiesMax = 100

    /// Milliseconds that JetStream has to answer a change of a retained message; then it is sent again.
    static let retainedAnswerMillisecondsMax: UInt64 = 2000

    /// Records of retained messages that may be on their way; a loop takes in no more between two turns.
    static let retainedBatchMax = 64

    /// Bytes of a record besides the retained message and its origin, with the headers that it travels under; more do not occur.
    static let retainedFrameBytesMax = 512

    // The process.

    /// Event loops; more that are asked for are not made.
    static let loopsMax = 64

    /// Bytes that are read of a file that tells of control groups; what stands behind them is not looked at.
    static let controlGroupFileBytesMax = 256 << 10

    /// Bytes of the file of tokens; a larger one is refused.
    static let tokenFileBytesMax = 1 << 20

    // Logins.

    /// Passwords checked at the same time: the check of a good hash takes some 50 MiB.
    static let workersMax = 4

    /// Logins that wait for a check; a further one is told that the broker is busy.
    static let pendingLoginsMax = 1000

    // Log.

    /// Bytes gathered before they are written to a log.
    static let logLineBytesMax = 64 << 10

    // Bridges.

    /// The connections of a bridge that are looked for in the store: the largest `martlet_bridge_connections`.
    static let bridgeConnectionsMax = 64

    /// Bytes of the file with the bridges that administrators have added; a larger one is not read.
    static let bridgeFileBytesMax = 64 << 20

    /// Bridges that administrators may add; further ones are refused. Bytes: `bridgeFileBytesMax`.
    static let addedBridgesMax = 256

    // HTTP.

    /// Bytes of a request's body; a longer one is answered with 413.
    static let requestBodyBytesMax = 1 << 20

    /// Lines of a second about those who come by HTTP and are refused, and the same of logins that fail: more are counted, and told in one.
    static let strangerLinesPerSecondMax = 100

    /// Bytes of a file that is served; a larger one is answered with 404.
    static let fileBytesMax = 16 << 20

    /// Bytes of a file that stays in memory for who asks next; a larger one is read from the disk as its peer reads it.
    static let keptFileBytesEachMax = 2 << 20

    /// Bytes of files that stay in memory, with what compression made of them; beyond them all are forgotten and read again.
    static let keptFileBytesMax = 32 << 20

    /// Bytes of a file in memory that is sent piece by piece; less is copied for who asks.
    static let sharedFileBytesMin = 64 << 10

    /// Bytes of a file that is compressed: less gains nothing, and more would hold up others that ask.
    static let compressedFileBytes = 512...(2 << 20)

    // Stopping.

    /// A second signal so soon after the first waits: `timeout`, and a terminal together with a program that passes signals on, send
    /// each one twice.
    static let graceMilliseconds: UInt64 = 500

    /// How long a graceful end may take in all; then it ends without what still holds it up, which is a disk that does not answer. What was
    /// acknowledged is on the disk all the same.
    static let stopMillisecondsMax: UInt64 = 60_000

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

    /// The longest file of a systemd unit that is looked at, in bytes; a longer one is taken for none.
    static let unitFileBytesMax = 1 << 20
}
