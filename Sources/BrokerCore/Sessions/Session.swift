import BrokerModel
import Bytes
import MQTTCodec

/// What the broker keeps for a Client Identifier, across connections: subscriptions, messages on their way, and the
/// will.
///
/// Owned by its shard's `SessionTable`; belongs to the shard that the identifier hashes to.
final class Session {
    let index: UInt32
    /// Tells this session from an earlier one with the same index.
    let generation: UInt32
    /// Unique among all sessions of all shards, ever: the shard in the lowest byte.
    let key: UInt64
    let clientIdentifier: EncodedString
    /// Names it where it may be gone by the time it is looked for.
    typealias Identity = (index: UInt32, generation: UInt32)
    var identity: Identity { (index, generation) }
    /// What messages from the client carry, so that No Local knows them: the hash of the Client Identifier, never 0,
    /// the same for a later session of the same client. Sessions that divide topics among them have one for all,
    /// `TopicPart.publisher`. [MQTT-3.8.3-3 v5]
    var publisherKey: UInt64

    /// The connection it is on, or nil while the client is away.
    var connection: Reference<Connection>?
    var queue = SessionQueue()
    /// QoS 2 messages received and not yet released by the client.
    var receivedIdentifiers = PacketIdentifierSet()
    /// The first record of the chain of its subscriptions in the tree.
    var firstSubscription = SubscriptionRecord.none
    var subscriptionCount: UInt32 = 0
    /// Seconds that the session outlives its connection; `UInt32.max` for ever. [MQTT-3.1.2-23 v5]
    var expiryIntervalSeconds: UInt32 = 0
    var version: ProtocolVersion = .v311
    /// Whether another client may come when it ends; not while its own client takes its place.
    var freesRoom = true
    /// How many messages may be in flight: the smaller of the client's Receive Maximum and the broker's limit.
    /// [MQTT-3.3.4-9 v5]
    var inFlightMax: Int = 20
    // The order of the values below leaves no gap between them: FootprintTests count the bytes.
    var times = SessionTimes()
    /// What the shard has counted for it.
    var memory = CountedMemory()
    var timer = TimerWheel.none
    /// Whose it is, and what that client may do.
    var owner = SessionOwner()
    var bounds = SessionBoundState()
    /// What the store has of it.
    var storage = SessionStorage()
    /// What it is to a cluster whose sessions move.
    var cluster = SessionClusterState()
    /// Whether what comes for it is to outlive a crash: not for a session that ends with its connection.
    var keepsMessages: Bool { storage.isStored && expiryIntervalSeconds > 0 }

    /// What few sessions need; `SessionExtras.swift` says what that is.
    var extras: SessionExtras?

    /// Where this session's route stands in the line that the match cache builds.
    var route = RouteScratch()

    init(index: UInt32, generation: UInt32, key: UInt64, clientIdentifier: EncodedString, publisherKey: UInt64) {
        self.index = index
        self.generation = generation
        self.key = key
        self.clientIdentifier = clientIdentifier
        self.publisherKey = publisherKey
    }
}

/// Whose a session is.
struct SessionOwner {
    /// What its client may read and write; nil for everything.
    var access: AccessPolicy?
    /// The user and listener of its client when it was here last, from which `access` follows. No listener if that one
    /// does not exist any more, or no client was here yet.
    var userName: EncodedString?
    var listener: Int? {
        get { listenerNumber == .max ? nil : Int(listenerNumber) }
        set { listenerNumber = newValue.map { Int32($0) } ?? .max }
    }
    private var listenerNumber = Int32.max
    /// Whether its client is the broker's own.
    var isBrokersOwn = false
    /// Whether it is the first user's who asks for it, because the store did not tell whose it is.
    var isUnclaimed = false
}

/// Milliseconds on the shard's clock.
struct SessionTimes {
    /// When the session of a client that is away ends.
    var endsAt: UInt64 = .max
    /// When the session began; 0 if that was before the broker's start.
    var createdAt: UInt64 = 0
    /// When its last connection ended; 0 if that was before the broker's start.
    var disconnectedAt: UInt64 = 0
}

/// What is known of a session's queue and its bounds.
struct SessionBoundState {
    /// Whether its queue has a bound of its own.
    var hasOwnQueueBound = false
    /// Whether publishers are refused because of its queue: from when that is full until half of it is gone.
    var isFull = false
    /// The log has said that this connection loses messages.
    var mustDrop = false
    /// Whether messages may wait that were queued when its client had other rights.
    var isQueueDoubtful = false
}

/// What the store has of a session.
struct SessionStorage {
    /// Whether the store has a row of it.
    var isStored = false
    /// Whether the store has a row for the sake of its will alone, as it ends with its connection.
    var isWillStored = false
    /// Whether messages of its queue are being read from the store.
    var isReading = false
    /// Whether a command looks through what of its queue only the store has.
    var isSifted = false
    /// Whether the shard looks after each commit what of its queue is durable.
    var isListed = false
}

/// What a session is to a cluster whose sessions move.
struct SessionClusterState {
    /// By which claim it is owned; 0 for none.
    var epoch: UInt64 = 0
    /// Whether messages of QoS 1 and 2 come to it out of a cluster's log, where there is one: it has outlived a
    /// connection, or was to.
    var readsLog = false
    /// Whether this node owns it.
    var isClaimed = false { didSet { if isClaimed { isLeft = false } } }
    /// Whether an earlier incarnation of this node has left it, and it may be another's by now.
    var isLeft = false
    /// Whether it stands in the shard's `ProgressQueue`: it was given something of the log since that has how far it
    /// has come.
    var owesProgress = false
}

/// Bytes that a shard has counted for something, and the room in its buffer at that time.
struct CountedMemory {
    var bytes = 0
    var capacity: UInt32 = 0
}

/// Where a session's route stands in the line that the match cache builds.
struct RouteScratch {
    var buildNumber: UInt32 = 0
    var position: UInt32 = 0
}

/// The part of a session that most of many sessions never need: an idle client costs the broker little.
final class SessionExtras {
    var will: Will?
    var willName: WillName?
    var willDueAt: UInt64 = .max
    var mountPoint: [UInt8] = []
    var retainedSource: RetainedSource?
    var retainedAhead = 0
    var groups = GroupMemberships()
    var owed: OwedRetained?
    var drops = DropCounts()
    var reportedDrops: UInt64 = 0
    var topicPart: TopicPart?
    var logFloor: LogPositions?
    var stepFloor = FlowStep.Place.start
    var grant: LoginGrant?
    var awaitsGrant = false
    var counted: CountedUser?
    var topicDecisions = TopicDecisions()
    var save: SessionSave?
    var underWay: SessionUnderWay?
}

/// What a session has while it moves, opens, or passes on what share groups had dispatched to it: few at a time.
final class SessionUnderWay {
    var phase = SessionPhase.whole
    var opening = SessionOpening()
    var passedOnUntil: Durability.Moment?
}

/// What stands there, as if the session had it itself. Nothing is made for what is nothing.
extension Session {
    var will: Will? {
        get { extras?.will }
        set { if newValue != nil || extras != nil { makeExtras().will = newValue } }
    }

    /// What the cluster calls the will, if its sessions move; nil for one that is this node's alone.
    var willName: WillName? {
        get { extras?.willName }
        set { if newValue != nil || extras != nil { makeExtras().willName = newValue } }
    }

    /// When the will of a client that is away is due; `UInt64.max` for none.
    var willDueAt: UInt64 {
        get { extras?.willDueAt ?? .max }
        set { if newValue != .max || extras != nil { makeExtras().willDueAt = newValue } }
    }

    /// What its client's login brought along; nil for nothing.
    var grant: LoginGrant? {
        get { extras?.grant }
        set { if newValue != nil || extras != nil { makeExtras().grant = newValue } }
    }

    /// What it has of its user's places, where there are bounds of them.
    var counted: CountedUser? {
        get { extras?.counted }
        set { if newValue != nil || extras != nil { makeExtras().counted = newValue } }
    }

    /// Whether only its client's login can tell what it may do.
    var awaitsGrant: Bool {
        get { extras?.awaitsGrant ?? false }
        set { if newValue || extras != nil { makeExtras().awaitsGrant = newValue } }
    }

    /// What has been decided about its client's topics, where its login says that somebody does.
    var topicDecisions: TopicDecisions {
        get { extras?.topicDecisions ?? TopicDecisions() }
        _modify { yield &makeExtras().topicDecisions }
    }

    /// What its client's topics begin with inside the broker. Together with the user name it is whose the session is.
    var mountPoint: [UInt8] {
        get { extras?.mountPoint ?? [] }
        set { if !newValue.isEmpty || extras != nil { makeExtras().mountPoint = newValue } }
    }

    /// The publisher of its client's retained messages, as they name it; made when the first one comes.
    var retainedSource: RetainedSource? {
        get { extras?.retainedSource }
        set { if newValue != nil || extras != nil { makeExtras().retainedSource = newValue } }
    }

    /// How many retained messages other shards may send ahead of what it has taken, all scans together.
    var retainedAhead: Int {
        get { extras?.retainedAhead ?? 0 }
        set { if newValue != 0 || extras != nil { makeExtras().retainedAhead = newValue } }
    }

    /// The share groups that it is in. To be changed where it is in one, or comes to be.
    var groups: GroupMemberships {
        get { extras?.groups ?? GroupMemberships() }
        _modify { yield &makeExtras().groups }
    }

    /// The retained messages that its client has not had; nil for none.
    var owed: OwedRetained? {
        get { extras?.owed }
        set { if newValue != nil || extras != nil { makeExtras().owed = newValue } }
    }

    /// What the client has lost, in both directions, since its session is here.
    var drops: DropCounts {
        get { extras?.drops ?? DropCounts() }
        // In place: a client that reads too slowly may lose every message.
        _modify { yield &makeExtras().drops }
    }

    /// How many of them the log has told of.
    var reportedDrops: UInt64 {
        get { extras?.reportedDrops ?? 0 }
        set { if newValue != 0 || extras != nil { makeExtras().reportedDrops = newValue } }
    }

    /// The topics that it is for; nil for all.
    var topicPart: TopicPart? {
        get { extras?.topicPart }
        set { if newValue != nil || extras != nil { makeExtras().topicPart = newValue } }
    }

    /// What it was given of the log before the broker's start, where its shard reads from an earlier position; nil for
    /// no more than that.
    var logFloor: LogPositions? {
        get { extras?.logFloor }
        set { if newValue != nil || extras != nil { makeExtras().logFloor = newValue } }
    }

    /// Steps of the cluster's log up to this one say nothing of it: they are in what it came with, or of an earlier
    /// session.
    var stepFloor: FlowStep.Place {
        get { extras?.stepFloor ?? .start }
        set { if newValue != .start || extras != nil { makeExtras().stepFloor = newValue } }
    }

    /// How much of it is here. To be changed by `SessionMoves` where there is one.
    var phase: SessionPhase {
        get { extras?.underWay?.phase ?? .whole }
        set { if !newValue.isWhole || extras?.underWay != nil { makeUnderWay().phase = newValue } }
    }

    /// What the log may have of it that is unknown here. To be changed by `SessionMoves` but for the steps.
    var opening: SessionOpening {
        get { extras?.underWay?.opening ?? SessionOpening() }
        // In place: each step of the log that is learned changes it.
        _modify { yield &makeUnderWay().opening }
    }

    /// What the cluster has stored of it, if it is kept here; nil for a session that is no other node's to restore.
    var save: SessionSave? {
        get { extras?.save }
        set { if newValue != nil || extras != nil { makeExtras().save = newValue } }
    }

    /// Until when it has passed on to others what share groups had dispatched to it, or has got that from others; nil
    /// if it never has.
    var passedOnUntil: Durability.Moment? {
        get { extras?.underWay?.passedOnUntil }
        set { if newValue != nil || extras?.underWay != nil { makeUnderWay().passedOnUntil = newValue } }
    }

    private func makeUnderWay() -> SessionUnderWay {
        let extras = makeExtras()
        if let underWay = extras.underWay { return underWay }
        let made = SessionUnderWay()
        extras.underWay = made
        return made
    }

    /// Forgets what is under way of it.
    func endUnderWay() { extras?.underWay = nil }

    private func makeExtras() -> SessionExtras {
        if let extras { return extras }
        let made = SessionExtras()
        extras = made
        return made
    }
}

/// The rest of a session's end, over as many turns as it takes, so that nobody waits for one client's subscriptions.
///
/// ```
///     endSession ─► as far as the turn's steps go ─► out of the table of sessions: its identifier is free, what names its
///                                                    index finds nobody, and all matches found before are old
///                        endTurn, again and again ─► its records go from the tree, its groups are told of ─► its index is free
/// ```
/// The row of the session goes in the batch of the turn in which it ends. Rows of its subscriptions may go later:
/// without a session they are nothing, and a start that finds some deletes them.
///
/// Other shards and nodes lose their interest later than the session goes: they send messages that nobody wants here. A
/// share group's message that they dispatch to it meanwhile goes to another member, as one that was on its way does.
extension SessionLifecycle {
    /// The turn's steps are used up: the rest of an ended session is taken out of the tree in the next ones.
    func keepRemains(of session: Session, _ memberships: [GroupMembership]) {
        shard.statistics.subscriptions -= Int(session.subscriptionCount)
        shard.sessions.remove(session, keepsIndex: true)
        shard.tree.forgetMatches()
        shard.sessions.ended.add(session, memberships)
    }

    /// Goes on with that, as far as a turn's steps go.
    func stepEndedSessions() {
        shard.sessions.ended.stepsLeft = Limits.endedStepsPerTurn
        while shard.sessions.ended.stepsLeft > 0, let session = shard.sessions.ended.first {
            if session.firstSubscription != SubscriptionRecord.none {
                shard.sessions.ended.count(shard.subscribing.takeOut(session.firstSubscription, of: session))
            } else if let membership = shard.sessions.ended.takeMembership() {
                sendLeft(membership, by: session.key)
                shard.sessions.ended.count(removeGroupIfEmpty(membership))
            } else {
                shard.sessions.giveBack(session.index)
                shard.sessions.ended.removeFirst()
            }
        }
    }

    /// A session has left a share group: tells whoever does not know.
    func sendLeft(_ membership: GroupMembership, by sessionKey: UInt64) {
        shard.sessionRows.forgetSubscription(membership.storeNumber)
        shard.messaging.sendToOthers(.group(membership.name, .left(sessionKey: sessionKey)))
        shard.clusterMessaging.sendToCluster(membership.name.filter, isWanted: false)
        shard.clusterDispatching.sendGroup(membership.name)
    }

    /// - Returns: how many steps that took, of which there is one for each level.
    func removeGroupIfEmpty(_ membership: GroupMembership) -> Int {
        // Its index may be another group's by now.
        if let group = shard.groups.find(membership.name) { shard.shareGroups.removeIfEmpty(group) }
        return OpenPackets.steps(of: membership.name.filter)
    }
}

/// The subscriptions of sessions that have ended which still stand in the tree of topics, and what there is left to
/// tell of their share groups; and how much of the turn is left for the like.
///
/// Invariant: a session stands here as long as its index is kept for it. Owned by a shard, used on its thread only.
struct EndedSessions {
    /// The remains of a session that has ended, which are removed step by step.
    struct Remains {
        /// Its chain of records is what is still in the tree.
        let session: Session
        /// Groups that have lost it as a member, which others do not know yet.
        var memberships: [GroupMembership]
    }

    private var remains = Deque<Remains>()
    /// The steps that are left for whichever session's end is being worked off.
    var stepsLeft = Limits.endedStepsPerTurn
    /// How many steps were made so far: tests see by it how much a turn does.
    private(set) var stepCount = 0

    var isEmpty: Bool { remains.isEmpty }

    mutating func add(_ session: Session, _ memberships: [GroupMembership]) {
        remains.append(Remains(session: session, memberships: memberships))
    }

    /// The session whose remains are removed next.
    var first: Session? { remains.first?.session }

    /// One of the share groups of that session; nil if there is none left.
    mutating func takeMembership() -> GroupMembership? { remains[0].memberships.popLast() }

    /// Nothing is left of the first one.
    mutating func removeFirst() { remains.popFirst() }

    mutating func count(_ steps: Int) {
        stepsLeft -= steps
        stepCount += steps
    }
}

extension EndedSessions: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.sessions.ended.isEmpty }
    static func step(_ shard: BrokerShard) { shard.lifecycle.stepEndedSessions() }
}
