/// The bounds of the cluster's pure half that no option sets.
enum Limits {
    /// Bytes of a subject: the engine's control line has 4,096 for the command, the subject, the subject of the answer and two numbers.
    /// Topics whose subject would be longer travel on the overflow subject.
    static let subjectBytesMax = 3500

    /// How many filters a node asks the engine for; beyond them they are cut to prefixes, and more comes than is wanted.
    /// Bytes: `subjectBytesMax` each at most.
    static let interestFiltersMax = 10_000

    /// How often a node asks again who has not answered a fence, in milliseconds.
    static let fenceRepeatMilliseconds: UInt64 = 1000

    /// How long the engine has to say of a node that nobody is there, in milliseconds, until fences go on without it: longer than two of its
    /// servers need to find each other again, so that a server that has just started does not vouch for nodes that it has not heard of.
    static let absenceMilliseconds: UInt64 = 3000

    /// Bytes of a message that tells of share groups; what is beyond them goes with the next one.
    static let groupNewsBytesMax = 64 << 10

    /// How often a node says again how far it is done with what share groups have dispatched to it, while some of that
    /// is open, in milliseconds.
    static let dispatchedRepeatMilliseconds: UInt64 = 10_000

    /// How long it is remembered up to where a node was done that is gone, so that this node can dispatch for it when
    /// the one that does is gone as well, in seconds: longer than what nobody is there for waits.
    static let inheritanceSeconds = 660

    /// How long a node is watched that was there before this one, in milliseconds, until it would have said what it is not done with.
    static let dispatchedWatchMilliseconds: UInt64 = 15_000

    /// Bytes of messages that wait while a node joins the bus; what comes beyond them is dropped and counted.
    static let heldBytesMax = 16 << 20

    /// Bytes of messages of one topic that leave together.
    static let batchBytesMax = 32 << 10

    /// Bytes of a record of the log into which entries are packed; a larger entry has a record of its own. With synced records the engine's
    /// rate hardly depends on their size up to here.
    static let recordBytesMax = 32 << 10

    /// How many records of one node are under way to one partition.
    static let logQueues = 4

    /// Bytes that wait for the log; beyond them publishers are not read from.
    static let logWaitingBytesMax = 16 << 20

    /// How long an answer of the engine is waited for until the record is sent again, in milliseconds.
    static let logAnswerMilliseconds: UInt64 = 2000

    /// After how long a record is sent again that the engine could not take, in milliseconds.
    static let logRetryMilliseconds: UInt64 = 250

    /// How often it is looked whether a log has room again that had none, in milliseconds.
    static let logRoomMilliseconds: UInt64 = 1000

    /// How long a record is tried, in milliseconds: half of the duplicate window that the streams are made with.
    static let outageMilliseconds: UInt64 = 60_000

    /// How many changes of retained messages of one node are under way to the stream. Bytes: `retainedWaitingBytesMax`.
    static let retainedUnderWayMax = 256

    /// Bytes of changes of retained messages that wait for the stream, or are under way; beyond them nothing more is retained.
    static let retainedWaitingBytesMax = 16 << 20

    /// How long a node may be away and still read on where it was in the stream of retained messages, in milliseconds: half of what marks
    /// of deleted messages stay there. Beyond it all is read.
    static let retainedAbsenceMillisecondsMax: UInt64 = 43_200_000

    /// How often a node looks for what others have told it of and the stream has not, in milliseconds.
    static let staleLookMilliseconds: UInt64 = 1_000

    /// After how long a renewal of a lease is asked for again, in milliseconds.
    static let leaseAnswerMilliseconds: UInt64 = 1000

    /// How many nodes a session's record names that may not know that they keep it no more; a record with more is refused.
    /// Bytes: 24 each.
    static let ownersMax = 64

    /// How many partitions the log has; a record with more is refused. Bytes: 8 each.
    static let partitionsMax = 64

    /// After how long a question about a session's record is asked again, in milliseconds.
    static let claimAnswerMilliseconds: UInt64 = 1000

    /// Of how many sessions the last will is remembered, so that it does not count twice; the oldest is forgotten for the next.
    /// Bytes: `willsRememberedBytesMax`.
    static let willsRememberedMax = 100_000

    /// Bytes of their Client Identifiers; the oldest are forgotten for the next.
    static let willsRememberedBytesMax = 16 << 20

    /// Sessions of nodes that are gone that one node looks after; more are found when these are done with. Bytes: `leftSessionBytesMax`.
    static let leftSessionsMax = 200_000

    /// Bytes of their Client Identifiers; beyond them the same.
    static let leftSessionBytesMax = 16 << 20

    /// How far ahead what is due is kept, in seconds: twice the time after which all records are read again.
    static let leftSessionsHorizonSeconds: UInt64 = 600

    /// Of how many of them the record is being written, or a will published, at the same time.
    /// Bytes: 80 KiB each at most, those of a record.
    static let leftSessionsHandledMax = 64

    /// Bytes of a document that stands in its entry; a larger one stands in parts beside it.
    static let documentInlineBytesMax = 256 << 10

    /// Bytes of a part of a document. Parts are of half of that, mostly.
    static let documentPartBytesMax = 256 << 10

    /// Bytes of a part before it may end.
    static let documentPartBytesMin = 32 << 10

    /// Parts of a document: a larger one is not shared. Bytes: `documentPartBytesMax` each.
    static let documentPartsMax = 4096

    /// Changes that a document's entry tells of beside its own: of a change that was lost sight of for longer it is not known whether it was made.
    static let documentEarlierChanges = 16

    /// Parts of a document that are under way to the engine at the same time.
    static let documentQueues = 8

    /// Milliseconds without progress that a change of a document has; then whoever wants it is told that it is not known whether it was made.
    static let documentChangeMillisecondsMax: UInt64 = 8000

    // Who is there.

    /// Bytes of what a node says of itself; more are no summary.
    static let summaryBytesMax = 16 << 10

    /// Bytes of one text in it; the rest is cut off.
    static let summaryTextBytesMax = 1024

    /// How long after its last summary a node counts as silent, in milliseconds: three are missing by then.
    static let summarySilenceMilliseconds: UInt64 = 7000

    /// By how many milliseconds a node's clock may differ from this one's until that is told: what messages that expire and bans that end bear.
    static let clockOffsetMillisecondsMax: UInt64 = 1000

    /// Of so many summaries the fastest one counts, as to what a node's clock shows: 16 s of them.
    static let clockSamples = 8

    /// How long two nodes have one name until that is told, in milliseconds: longer than a node is up without a word.
    static let namesakeMilliseconds: UInt64 = 10_000

    /// How long a node is told of that is gone, in milliseconds.
    static let memberKeptMilliseconds: UInt64 = 60_000

    /// How many nodes are told of; a node beyond them is not seen, and works all the same. Bytes: `summaryBytesMax` each at most.
    static let membersMax = 1000

    /// Bytes of what a node asks another for an administrator, a cursor of 90 KB included; more are no question.
    static let questionBytesMax = 256 << 10
}
