import MQTTCodec

/// The bounds of the broker's core that no option sets and several files share: each with its unit and what happens
/// beyond it.
enum Limits {
    // Turns: how long one may take before others get theirs.

    /// Steps that the scans of retained messages take in a turn; the rest goes on in the next.
    static let scanStepsPerTurn = 4096

    /// Such steps that one SUBSCRIBE may take as it is answered; the rest of it waits for the end of the turn.
    static let scanStepsAtOnce = 256

    /// Places that all questions together look at in a turn; the rest goes on in the next. A share group's members are
    /// looked at together.
    static let queryStepsPerTurn = 400

    /// What judging a session counts among them: 200 sessions a turn, some 15 µs.
    static let stepsPerSession = 2

    /// What finding a session's place among the best counts beside that.
    static let stepsPerListedSession = 6

    /// Sessions in a sorted list that is kept for the pages behind the one that was asked for: all are looked at once
    /// for so many.
    static let clientsListedMax = 1000

    /// Such lists that are kept, some 32 bytes a session; the oldest goes for a new one. Bytes: 32,000 each.
    static let clientListsMax = 16

    /// Bytes of content in a page of a queue, and of one message in it; the page ends there, and what is longer is cut.
    static let queryPayloadBytesMax = 1 << 20

    /// Bytes of topics and filters in a page of an answer, and of the clients' names with these; the page ends there.
    static let queryTextBytesMax = 256 << 10

    /// Subscriptions or clients written to the log in a turn; the rest goes on in the next.
    static let rowsLoggedPerTurn = 1000

    /// Steps of SUBSCRIBE and UNSUBSCRIBE packets in a turn, for those that come in it, and once more for those that
    /// are open from earlier turns; the rest goes on in the next. A step is a level of a Topic Filter: some 0.5 µs, 2
    /// ms in all.
    static let packetStepsPerTurn = 4096

    /// Such steps that one client's open packet makes before others have their turn.
    static let packetStepsPerSlice = 1024

    /// Steps in a turn of taking the subscriptions of ended sessions out of the tree, for sessions that end in it, and
    /// once more for those that have ended before; the rest is taken out in the next. A step is a level of a Topic
    /// Filter: some 0.2 µs, 2 ms in all.
    static let endedStepsPerTurn = 8192

    /// Queued messages of ended sessions given up in a turn; the rest goes on in the next.
    static let entriesEndedPerTurn = 4096

    // What is told of clients.

    /// Events of clients that are published in a second, by all shards together; beyond them their number is told.
    static let presenceEventsPerSecondMax = 10_000

    /// Bytes of the names, filters and words in them, by all shards together; beyond them the same.
    static let presenceBytesPerSecondMax = 8 << 20

    /// Bytes of a Client Identifier, a user name or a Topic Filter in such an event; the rest is cut, and `truncated`
    /// says so.
    static let presenceNameBytesMax = 1024

    /// Bytes of an event besides those.
    static let presenceFrameBytes = 256

    // Queues and output.

    /// Bytes that may stand in a connection's output before waiting messages stay in the queue.
    static let outputBytesForQueueMax = 256 * 1024

    /// Messages at the front of a restored queue that are read from the store at once; the rest is read when those have
    /// gone out. Bytes: `readBytesMax`.
    static let readMessagesMax = 128

    /// Bytes of those.
    static let readBytesMax = 1 << 20

    /// Bytes for a connection that takes no more below which all of them are copied, so that they pin no block that
    /// receivers share.
    static let copiedOutputBytesMax = 64 * 1024

    // Store.

    /// Bytes of changes that wait for the store's interval; beyond them the store gets them at once.
    static let storeBatchBytesMax = 4 << 20

    // Routing.

    /// Bytes of a message that fits into a packet of any version and QoS, with all that may stand beside it but
    /// Subscription Identifiers: the lengths of topic and properties, the packet identifier and Message Expiry
    /// Interval. A larger one is measured for each receiver.
    static let fittingBytesMax = VariableByteInteger.max - 16

    /// Bytes of a topic whose matches are remembered; a longer one is looked up each time.
    static let cachedTopicBytesMax = 512

    /// Messages that are gathered to be handed to their matches together; the next one begins a new batch. Bytes:
    /// `frameBatchBytesMax`.
    static let frameBatchMessagesMax = 64

    /// Bytes of those; a batch that has more takes no other message.
    static let frameBatchBytesMax = 16 * 1024

    /// Bytes of a message, with topic and properties, that is gathered with others with the same matches; a larger one
    /// goes alone.
    static let rowBytesMax = 4096

    // Memory kept for what comes next; what is more is given back to the heap.

    /// Bytes of a block that receivers share; a frame of more than half of it gets a block of its own.
    static let arenaChunkBytes = 256 * 1024

    /// Bytes of the smallest block that a connection borrows; the others are twice as large each.
    static let bufferBytesMin = 1024

    /// Places kept for the sessions that end in a turn. Bytes: 8 each.
    static let endedSessionsCapacityMax = 1024

    /// Nodes of the tree of retained messages that a sweep for expired ones looks at in a turn; the others wait for the
    /// next tick.
    static let sweptNodesPerTurn = 4096

    /// Places for answers that wait for the store, kept when none waits. Bytes: 32 each.
    static let heldCapacityMax = 16_384

    /// Bytes made ready for a turn's shard messages to one shard; a batch that outgrows them grows.
    static let expectedShardMessageBytesMax = 1 << 20

    // A cluster.

    /// How often a message of a share group is passed on to another node, because a node has no member any more; then
    /// it is gone.
    static let clusterHopsMax: UInt8 = 8

    /// How long that waits, in milliseconds.
    static let unclaimedMilliseconds: UInt64 = 600_000

    /// How many earlier states of reading the log's partitions are remembered while something that was dispatched is
    /// not done with; beyond them every second one is forgotten. Bytes: 8 for each partition.
    static let dispatchedSnapshotsMax = 64

    /// How many runs of a node are remembered that were killed before what share groups had dispatched to them was
    /// settled.
    static let unsettledIncarnationsMax = 64

    /// Bytes of messages that share groups dispatch once more and the log has not taken; beyond them no more is read
    /// for that.
    static let reloggedBytesMax = 4 << 20

    /// Bytes of a piece of a session that moves, or those of one message.
    static let sessionChunkBytesMax = 256 << 10

    /// After how many milliseconds it is asked again whose a session is of which something is due.
    static let wakeMilliseconds: UInt64 = 5000

    /// Messages that are kept aside for a session which lacks what came before them; beyond them all of these are read
    /// once more. Bytes: `asideBytesMax`.
    static let asideMessagesMax = 10_000

    // Log.

    /// Lines about what one client may not do that are written one after the other.
    static let deniedLinesBurstMax = 5

    /// Milliseconds after which such a client may be told of once more.
    static let deniedLinesMilliseconds: UInt64 = 10_000

    /// Such lines in a second, about all clients of a shard; the others are counted.
    static let deniedLinesPerSecondMax = 100

    /// Relations that the code leans on.
    static func check() {
        precondition(cachedTopicSets & (cachedTopicSets - 1) == 0, "a set is found by the low bits of a hash")
        precondition(scanCreditMax <= scanCreditSum, "one query is among all queries")
        precondition(frameBatchBytesMax <= arenaChunkBytes / 2, "a run of small messages shares one block")
        precondition(idleMessageBytesEachMax <= idleMessageBytesMax && bufferBytesMin <= idleBufferBytesMax, "one is among all")
        precondition(arrivalsKeptMilliseconds < arrivalsActiveMilliseconds, "a query outlasts what is remembered for it")
    }
}
