/// Bounds of the client library, in one place.
enum Limits {
    /// Bytes of a stub's sample in a file; a larger one is an error.
    static let sampleBytesMax = 64 << 20
    /// Output in bytes, written and unsent together, from which `publish` at QoS 0 waits for the connection.
    static let outputBytesMax = 1 << 20
    /// Milliseconds for which a backlog is full, or a message keeps others from being acknowledged, before its subscription is said to hold the
    /// client.
    static let holdingMilliseconds: UInt64 = 5000
    /// How many messages of QoS 1 and 2 are not acknowledged when the first of them may hold the client: about what servers send at most.
    static let holdingMessagesMin = 10
    /// Bytes of received messages without a subscription that wait for one; beyond it they are acknowledged, counted and gone.
    static let unmatchedBytesMax = 16 << 20
    /// How many such messages may wait; then the same.
    static let unmatchedMessagesMax = 65_535
    /// Answers that a client keeps to give them again; then those that were stored longest ago go.
    static let keptAnswersMax = 1000
    /// Bytes of these with their requests; then the same.
    static let keptAnswerBytesMax = 8 << 20
    /// Bytes of requests that wait for their answers; what is more is refused.
    static let requestBytesMax = 64 << 20
    /// Bytes that are read from a connection in a turn before others have theirs.
    static let readBytesMax = 256 << 10
    /// Iterations of SCRAM that a server may ask for; more are refused, for they cost seconds.
    static let scramIterationsMax = 1_000_000
    /// Messages of a client's only subscription that wait while the client awaits nothing from the server; then it lets the server wait too.
    static let readAheadMessagesMax = 256
    /// Bytes of these; then the same.
    static let readAheadBytesMax = 1 << 20
    /// Messages that come from the store and wait in memory for their consumer; the others wait in the store.
    static let spillWindowMax = 256
    /// Bytes of these; one message more may wait.
    static let spillWindowBytesMax = 1 << 20
    /// Bytes of changes that the store has not made durable; beyond it nothing more is read from the connection until it has.
    static let storeBytesMax = 16 << 20
    /// How many such changes there may be.
    static let storeChangesMax = 100_000
    /// Messages of the outbox that are read at once to follow them; the others are read after.
    static let deliveriesReadMax = 1000
    /// Deliveries whose places in the outbox are told while they wait; others learn theirs when they begin to be followed.
    static let toldPlacesMax = 64
    /// Messages of an inbox that wait in memory for those who follow its arrivals; what is more is read from the store.
    static let inboxWindowMax = 1000
    /// Messages of an inbox that are read from the store at a time for those who follow its arrivals.
    static let inboxReadMax = 100
    /// Bytes of these; then the same.
    static let inboxWindowBytesMax = 16 << 20
    /// Milliseconds that a connection lasts before redirections of earlier ones do not count any more.
    static let redirectionRestMilliseconds: UInt64 = 30_000
    /// Servers whose TLS is ready for the next connection; with one more it is made anew for all.
    static let tlsContextsMax = 16
    /// How many times its interval the look at the first server may take, after returns that failed.
    static let firstServerCheckGrowthMax: UInt64 = 64
    /// Milliseconds that a goodbye may take to be sent.
    static let goodbyeMillisecondsMax: UInt64 = 2000

    /// Commits of a collection that wait for one consumer; of more it gets all as one.
    static let collectionBatchesMax = 64
    /// Messages that wait for a collection; when one of QoS 0 is dropped beyond them, it asks for everything anew.
    static let collectionBacklogMax = 1_000_000
    /// Bytes of these; then the same.
    static let collectionBacklogBytesMax = 64 << 20
    /// Local writes of a collection that wait to be published; what is more is refused.
    static let collectionWritesMax = 10_000
    /// Bytes of these; then the same.
    static let collectionWriteBytesMax = 64 << 20
    /// How often a collection waits for silence before it takes what it has for all: with 250 ms ten seconds.
    static let quietTurnsMax = 40
    /// How often it does so for its own message to come back; then it goes by silence alone.
    static let fenceTurnsMax = 20
    /// Milliseconds between two looks at a store whose file the kernel cannot watch.
    static let storePollMilliseconds = 100
    /// Milliseconds that the CONNECT of a connection that was closed may still be under way: a kernel sends it again for so long.
    static let lateConnectMillisecondsMax: UInt64 = 120_000
}
