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

    /// How often a node says how it is, in milliseconds.
    static let summaryMilliseconds: UInt64 = 2000

    /// How many places a client is told that is sent away; each client begins with another one.
    static let serverReferencePlacesMax = 8

    /// How often the monitoring of the cluster's servers is asked when they sync, in milliseconds.
    static let monitorMilliseconds: UInt64 = 30_000

    /// How often the control thread asks how the cluster is, in milliseconds.
    static let clusterReportMilliseconds: UInt64 = 1000

    /// Bans that a node has made by itself and is telling the others at the same time.
    static let banOffersMax = 256

    /// How often a change of dynamic security is made anew because another node was quicker, before it is refused.
    static let securityAttemptsMax = 20

    /// Copies of a node's own dynamic security that are kept when it joins clusters; a node that has so many does not join.
    static let securityCopiesMax = 100

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

    /// The longest file of a systemd unit that is looked at, in bytes; a longer one is taken for none.
    static let unitFileBytesMax = 1 << 20
}
