import MQTTCodec

/// The bounds of the broker's core that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // Memory.

    /// Milliseconds after which a shard whose clients wait for memory looks again whether other shards have let go of some.
    static let memoryLookMilliseconds: UInt64 = 1000

    // What bridges of other brokers tell of themselves.

    /// How many of their topics are retained, on all shards together; more are not kept.
    static let bridgeStatesMax = 1000

    /// How many topic levels there may be below theirs, of all that are retained; with more nothing new is kept.
    static let bridgeStateLevelsMax = 16_000

    /// The most bytes of such a message with its topic and properties; a larger one is refused.
    static let bridgeStateBytesMax = 1024

    // Reasons in words.

    /// How many of the filters that one packet asks for in vain are told of one by one; the others are counted.
    static let refusedFiltersToldMax = 5

    // Turns: how long one may take before others get theirs.

    /// Steps that the scans of retained messages take in a turn; the rest goes on in the next.
    static let scanStepsPerTurn = 4096

    /// Such steps that one SUBSCRIBE may take as it is answered; the rest of it waits for the end of the turn.
    static let scanStepsAtOnce = 256

    /// Places that all questions together look at in a turn; the rest goes on in the next. A share group's members are looked at together.
    static let queryStepsPerTurn = 400

    /// What judging a session counts among them: 200 sessions a turn, some 15 µs.
    static let stepsPerSession = 2

    /// What finding a session's place among the best counts beside that.
    static let stepsPerListedSession = 6

    /// Sessions in a sorted list that is kept for the pages behind the one that was asked for: all are looked at once for so many.
    static let clientsListedMax = 1000

    /// Such lists that are kept, some 32 bytes a session; the oldest goes for a new one. Bytes: 32,000 each.
    static let clientListsMax = 16

    /// How long one is kept, in milliseconds: so much older than its answer a page may be.
    static let clientListMilliseconds: UInt64 = 2000

    /// Bytes of content that are copied for one of them.
    static let payloadBytesPerStep = 256

    /// Bytes of content in a page of a queue, and of one message in it; the page ends there, and what is longer is cut.
    static let queryPayloadBytesMax = 1 << 20

    /// Bytes of topics and filters in a page of an answer, and of the clients' names with these; the page ends there.
    static let queryTextBytesMax = 256 << 10

    /// Levels of topics below one that are remembered while they are looked for: beyond it the later half by name is forgotten, and left to the
    /// pages that follow; nothing is counted then. Bytes: `topicLevelBytesMax`.
    static let topicLevelsMax = 10_000

    /// Bytes of their names; the same beyond it.
    static let topicLevelBytesMax = 4 << 20

    /// Places in a long queue whose messages were taken out; beyond them, when they are half of it, the queue is written anew.
    /// Bytes: 32 each.
    static let vacantPlacesMax = 1024

    /// Questions that wait for their turn; beyond it, more are not taken. Bytes: 131,070 each at most, of two names.
    static let queriesMax = 64

    /// Orders that wait for their turn; beyond it, more are not taken. Bytes: 65,535 each at most, those of a name.
    static let ordersMax = 64

    /// Messages of a queue that an order reads from the store at once to see their topics, however many memory may hold of a queue: some
    /// 0.3 ms of a turn. Of their bytes, `readBytesMax`.
    static let purgedRowsReadMax = 1024

    /// Messages that an order cannot read; beyond them it looks at no more of the queue: each one is a line in the log.
    /// Bytes: 8 each.
    static let purgedRowsUnreadableMax = 100

    /// Messages that all orders together look at in a turn; the rest is looked at in the next.
    static let orderStepsPerTurn = 4096

    /// Steps in a turn of bringing changed rights to sessions, each session that is looked at being one; the next turn goes on. A
    /// millisecond or two.
    static let rightsStepsPerTurn = 2500

    /// Such steps that it takes to give a session its rights anew.
    static let rightsStepsOfRenewal = 10

    /// Such steps that it takes to look at a subscription, and to end it if it is not granted any more.
    static let rightsStepsOfSubscription = 10

    /// Such steps that it takes to send a client away: it costs its socket's end.
    static let rightsStepsOfDismissal = 100

    /// Bytes of requests below `$CONTROL/` that a shard's clients have made and nobody has answered; beyond them a request is refused with
    /// Quota exceeded (0x97), and logged.
    static let unansweredBytesMax = 16 << 20

    /// Bytes of a PUBLISH packet besides topic, properties and content, at most.
    static let packetHeadBytesMax = 16

    /// Subscriptions or clients written to the log in a turn; the rest goes on in the next.
    static let rowsLoggedPerTurn = 1000

    /// Steps of SUBSCRIBE and UNSUBSCRIBE packets in a turn, for those that come in it, and once more for those that are open from earlier turns;
    /// the rest goes on in the next. A step is a level of a Topic Filter: some 0.5 µs, 2 ms in all.
    static let packetStepsPerTurn = 4096

    /// Such steps that one client's open packet makes before others have their turn.
    static let packetStepsPerSlice = 1024

    /// Connections that have had their turn and are still kept in front of those that wait for it.
    static let openPacketsSkippedMax = 1024

    /// Steps in a turn of taking the subscriptions of ended sessions out of the tree, for sessions that end in it, and once more for those that
    /// have ended before; the rest is taken out in the next. A step is a level of a Topic Filter: some 0.2 µs, 2 ms in all.
    static let endedStepsPerTurn = 8192

    /// Queued messages of ended sessions given up in a turn; the rest goes on in the next.
    static let entriesEndedPerTurn = 4096

    /// Steps of timers in a turn, each that fires being one; the others fire in the next.
    static let timerStepsPerTurn = 4096

    /// Milliseconds that a timer may be late because of other work. A client whose Keep Alive ends later than that gets as long again to be
    /// heard.
    static let lateTimerMilliseconds: UInt64 = 1000

    /// Steps of timers that it takes to end a connection or a session, or to publish a will: 128 of them a turn, some 2
    /// ms.
    static let timerStepsOfEnd = 32

    // What is told of clients.

    /// Events of clients that are published in a second, by all shards together; beyond them their number is told.
    static let presenceEventsPerSecondMax = 10_000

    /// Bytes of the names, filters and words in them, by all shards together; beyond them the same.
    static let presenceBytesPerSecondMax = 8 << 20

    /// Bytes of a Client Identifier, a user name or a Topic Filter in such an event; the rest is cut, and `truncated` says so.
    static let presenceNameBytesMax = 1024

    /// Bytes of an event besides those.
    static let presenceFrameBytes = 256

    /// Bytes of events, as they are counted for a second, that are published in a turn; the others are in the next ones, in order. Of short names
    /// some 200 events, a millisecond beside the work of their receivers.
    static let presenceBytesPerTurn = 64 << 10

    /// Clients of a shard that lose messages of which a second is told; others are told of when they lose another one. Bytes: 12 each.
    static let droppingClientsMax = 1000

    /// Clients for which something waits that are looked at in one go, for whether they are slow; the others are a second later.
    static let suspectsPerSweep = 2000

    // What is remembered for whoever asks why.

    /// Closed connections, of all shards together; the oldest goes for the next one. Bytes: `closedConnectionsBytesMax`.
    static let closedConnectionsMax = 10_000

    /// Bytes of memory that they take, of all shards together; the oldest go for the next one.
    static let closedConnectionsBytesMax = 8 << 20

    /// Where there is a `memory_limit`, they take at most one byte in so many of it.
    static let closedConnectionsMemoryShare = 16

    /// Dropped messages of a shard; the oldest goes for the next one. Bytes: 1,000 each, with `dropTopicBytesMax` and `keptTextBytesMax`.
    static let dropsRememberedMax = 100

    /// Bytes of their topics; the rest is cut.
    static let dropTopicBytesMax = 256

    /// Beginnings of topics of which drops are counted; those of others are counted together. Bytes: `dropPrefixBytesMax` each.
    static let dropPrefixesMax = 256

    /// Bytes of such a beginning; a longer one is cut.
    static let dropPrefixBytesMax = 128

    // Retained messages.

    /// Messages that one scan of another shard may be ahead of the session that asked; beyond it, the scan waits until some were taken.
    static let scanCreditMax = 2048

    /// Messages that all queries of a shard to others may bring ahead together; beyond it, each gets less.
    static let scanCreditSum = 16_384

    /// Scans that a shard has under way for one session; what the session asks for beyond waits its turn.
    /// Bytes: 65,535 each at most, those of a filter that its client has subscribed to.
    static let scansPerSessionMax = 64

    /// Topics of which it is remembered that their retained message has just changed; beyond it the older half is forgotten. 4 MiB with both.
    /// Bytes: 32 each, topics are hashed.
    static let arrivalsNotedMax = 65_536

    /// How long it is remembered that a retained message changed, in milliseconds: longer than any message between
    /// shards takes.
    static let arrivalsKeptMilliseconds: UInt64 = 5_000

    /// How long after the last query of another shard changes are remembered at all, in milliseconds.
    static let arrivalsActiveMilliseconds: UInt64 = 60_000

    /// Bytes of the nonce of an end mark; a filter with a longer one is an ordinary filter.
    static let endOfRetainedNonceBytesMax = 64

    /// End marks that a client may wait for; one more is refused with Quota exceeded. Bytes:
    /// `endOfRetainedNonceBytesMax` each.
    static let endsOfRetainedMax = 64

    // Logins.

    /// Bytes of a will's payload: it has a length of two bytes. So many may come on top of the bound for the rest of a CONNECT.
    static let willPayloadBytesMax = 65_535

    // Queues and output.

    /// Bytes that may stand in a connection's output before waiting messages stay in the queue.
    static let outputBytesForQueueMax = 256 * 1024

    /// Messages at the front of a restored queue that are read from the store at once; the rest is read when those have gone out.
    /// Bytes: `readBytesMax`.
    static let readMessagesMax = 128

    /// Bytes of those.
    static let readBytesMax = 1 << 20

    /// Bytes for a connection that takes no more below which all of them are copied, so that they pin no block that receivers share.
    static let copiedOutputBytesMax = 64 * 1024

    /// A connection that takes no more copies its part of a shared block if that is smaller than one in this many.
    static let keptChunkShare = 4

    /// Bytes of each piece of such a part, on average, below which it is copied too: a piece takes 24 bytes to be listed.
    static let keptSessionChunkBytesMin = 64

    /// Bytes of a packet that has come in part while memory is short; beyond them the connection ends.
    static let cutPacketBytesWhenFullMax = 64 * 1024

    // Store.

    /// Bytes of changes that wait for the store's interval; beyond them the store gets them at once.
    static let storeBatchBytesMax = 4 << 20

    /// How long changes wait for what their receivers acknowledge meanwhile, which then need not be stored, in milliseconds.
    static let storePatienceMilliseconds: UInt64 = 2

    /// How long changes wait for their receivers' acknowledgements while these keep coming.
    static let storePatienceWhileShrinkingMilliseconds: UInt64 = 20

    /// How far the number of an entry may be from that of the one before for both to stand in the batch's list; one beyond it is found by a
    /// look-up. Bytes: 16 each.
    static let entryGapMax: UInt64 = 4096

    // Routing.

    /// Bytes of a message that fits into a packet of any version and QoS, with all that may stand beside it but Subscription Identifiers: the
    /// lengths of topic and properties, the packet identifier and Message Expiry Interval. A larger one is measured for each receiver.
    static let fittingBytesMax = VariableByteInteger.max - 16

    /// Bytes of a topic whose matches are remembered; a longer one is looked up each time.
    static let cachedTopicBytesMax = 512

    /// Receivers, their Subscription Identifiers and share groups in all matches that are remembered; beyond them all
    /// but the last matches are forgotten.
    static let cachedRoutesMax = 1 << 20

    /// Places for share groups that matches keep for its next topic.
    static let groupsCapacityMax = 64

    /// Records found for a topic whose list is kept for the next one. Bytes: 4 each.
    static let foundKeptMax = 16_384

    /// Matches are remembered in sets by the topic's hash, a power of two.
    static let cachedTopicSets = 4096

    /// Matches of that many topics are in a set; those of one more take the place of another.
    static let cachedTopicsPerSet = 4

    /// Receivers for which matches keep room when they are made anew; room for more is given back.
    static let idleRoutesPerTopicMax = 64

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

    /// Blocks that wait for their next use. Bytes: `arenaChunkBytes` each.
    static let idleChunksMax = 16

    /// Bytes of the smallest block that a connection borrows; the others are twice as large each.
    static let bufferBytesMin = 1024

    /// How many sizes there are; a larger block is not kept.
    static let bufferSizes = 8

    /// Bytes of blocks of one size that wait for their next use: each of a thousand receivers needs one in a turn, and gives it back.
    static let idleBufferBytesMax = 2 << 20

    /// Bytes of a message that waits for its next use; a larger one is not kept.
    static let idleMessageBytesEachMax = 512

    /// Bytes of messages that wait for their next use.
    static let idleMessageBytesMax = 2 << 20

    /// Places kept for the sessions that end in a turn. Bytes: 8 each.
    static let endedSessionsCapacityMax = 1024

    /// Nodes of the tree of retained messages that a sweep for expired ones looks at in a turn; the others wait for the next tick.
    static let sweptNodesPerTurn = 4096

    /// Bytes of a QoS 2 message's payload that are looked at to tell it from another one; of a longer payload the first half and the last.
    static let digestedBytesMax = 1024

    /// Places for packet identifiers that a session keeps when none is in use.
    static let packetIdentifiersCapacityMax = 64

    /// Places for answers that wait for the store, kept when none waits. Bytes: 32 each.
    static let heldCapacityMax = 16_384

    /// Bytes made ready for a turn's shard messages to one shard; a batch that outgrows them grows.
    static let expectedShardMessageBytesMax = 1 << 20

    /// Connections that are looked at for the next clients to be sent away, each time.
    static let drainConnectionsPerStep = 20_000

    // A cluster.
    /// Members of a share group that are counted of another node: beyond them it gets no larger part.
    static let clusterMembersMax = 1000
    /// How often a message of a share group is passed on to another node, because a node has no member any more; then it is gone.
    static let clusterHopsMax: UInt8 = 8
    /// Bytes of what waits for members of share groups whose node is gone, a shard; beyond them it is dropped.
    static let unclaimedBytesMax = 16 << 20
    /// How long that waits, in milliseconds.
    static let unclaimedMilliseconds: UInt64 = 600_000
    /// How often it is looked at when nobody new has come, in milliseconds.
    static let unclaimedLookMilliseconds: UInt64 = 1000

    /// After how long a session's mark is put into the log again that nobody has read, in milliseconds.
    static let doubtMarkMilliseconds: UInt64 = 10_000

    /// How many earlier states of reading the log's partitions are remembered while something that was dispatched is
    /// not done with; beyond them every second one is forgotten. Bytes: 8 for each partition.
    static let dispatchedSnapshotsMax = 64

    /// How many runs of a node are remembered that were killed before what share groups had dispatched to them was
    /// settled.
    static let unsettledIncarnationsMax = 64

    /// Records of the log that are read, without a change of the store, until the place is written down.
    static let logRecordsUnwrittenMax = 64

    /// Milliseconds after which it is written down with the next record.
    static let logPositionMilliseconds: UInt64 = 10_000

    /// Bytes of the journal that are not on the disk; beyond them no more of the log is read.
    static let logPendingBytesMax = 16 << 20

    /// Bytes of messages that share groups dispatch once more and the log has not taken; beyond them no more is read
    /// for that.
    static let reloggedBytesMax = 4 << 20

    /// Bytes of a piece of a session that moves, or those of one message.
    static let sessionChunkBytesMax = 256 << 10

    /// Subscriptions or messages of it that are made ready at a time.
    static let chunkItemsPerStep = 256

    /// Milliseconds for which a session that is to move waits for what is on its way to it. QoS 2 messages of its client that the log has not
    /// confirmed by then count as not received; retained messages that were not found are not sent.
    static let departureMilliseconds: UInt64 = 10_000

    /// How many sessions' places in the log are looked at in one turn, each second. With more sessions it takes longer until each has had its
    /// turn, and more comes twice from the log when its node is gone.
    static let savesLookedAtMax = 2000

    /// How many of them are stored in the cluster then; with more the same. Bytes: `sessionChunkBytesMax` each at most.
    static let savesPerTurnMax = 50

    /// With more messages of QoS 2 that a client has not released, the cluster is not told how far its session has got. Bytes: 2 each.
    static let savedReceiptsMax = 1000

    /// After how many milliseconds it is asked again whose a session is of which something is due.
    static let wakeMilliseconds: UInt64 = 5000

    /// Messages that are kept aside for a session which lacks what came before them; beyond them all of these are read once more.
    /// Bytes: `asideBytesMax`.
    static let asideMessagesMax = 10_000

    /// Their bytes; beyond them the same.
    static let asideBytesMax = 4 << 20

    /// Connections that are looked at in a turn for clients that are banned; the others wait for the next turn.
    static let banSweepConnectionsPerTurn = 2000

    /// Banned clients' connections that are ended in a turn; the others wait for the next. Each is some 15 µs of work.
    static let banSweepEndsPerTurn = 128

    /// Clients that waited until their node had found the cluster, and go on in a turn; the others wait for the next. Each is some 15 µs.
    static let newcomersPerTurn = 128

    /// Bytes of retained messages that a turn tells the cluster when a broker joins it with its own; the others wait for the next.
    static let sweptBytesPerTurn = 1 << 20

    /// Logins whose retained messages other nodes have; all are forgotten for the next, and made again when they are needed.
    /// Bytes: `clusterSourceBytesMax`.
    static let clusterSourcesMax = 10_000

    /// Bytes of their names: all are forgotten for the next.
    static let clusterSourceBytesMax = 4 << 20

    /// Shards of other nodes of whose changes the highest number is known; all are forgotten for the next. Bytes: 24 each.
    static let clusterOriginsMax = 10_000

    /// How long what comes out of the stream is passed over for a change that was made or heard of and has not come, in milliseconds.
    static let clusterChangeMilliseconds: UInt64 = 2_000

    /// How long a change that another node has told of may stay out of the stream, in milliseconds, until all of that is read again: the
    /// node has died before the change was stored.
    static let clusterChangeMillisecondsMax: UInt64 = 30_000

    // Observation.

    /// Topic filters whose messages are counted: no more are taken. Bytes: `topicMeterBytesMax`.
    static let topicMetersMax = 512

    /// Bytes of these filters: no more are taken.
    static let topicMeterBytesMax = 1 << 20

    /// Bytes of a packet besides its payload in a trace: the rest is left out.
    static let traceHeadBytesMax = 2048

    /// Bytes of a topic in a trace's line about a message: the rest is left out.
    static let traceTopicBytesMax = 1024

    /// Records of traces that wait to be taken: more are counted as lost. Bytes: `traceBytesMax`.
    static let traceRecordsMax = 4096

    /// Bytes of packets and topics in these records: more are counted as lost.
    static let traceBytesMax = 1 << 20

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
