public import BrokerModel
import MQTTCodec

/// What a shard's store has of a cluster.
struct ClusterRows {
    /// How far the log was read before the start, and whether there is a row that says it.
    var logPositions: StoredLogPositions?
    var hasLogPositions = false
    /// What share groups had dispatched out of it, and whether there is a row that says it.
    var dispatch: StoredDispatches?
    var hasDispatch = false
    /// The steps of the log that the rows name, by the session's key and the packet identifier.
    var steps: [UInt64: [UInt16: FlowStep.Place]] = [:]
    /// The cluster whose retained messages the store has; nil for none. On shard 0.
    var membership: StoredMembership?
}

/// A shard's part in a cluster: one more that wants messages, has some, and is waited for before SUBACK.
///
///     client ── PUBLISH ──► route ──► ClusterPort ── ToCluster.messages ──► the other nodes
///     client ◄── PUBLISH ── route ◄── receivedFromCluster ◄───────────────── the other nodes
///
/// For the log see `ClusterLogReading`, for retained messages `ClusterMessaging+Retained`, for share groups
/// `ClusterDispatching`.
struct ClusterMessaging {
    let shard: BrokerShard

    /// Whether the cluster can be reached; while it cannot, and the settings want it so, nobody new is let in.
    func clusterIsAway(_ isAway: Bool) {
        shard.cluster?.isAway = isAway
        guard !isAway, let cluster = shard.cluster else { return }
        cluster.isStrange = false
        guard let start = cluster.start else { return }
        cluster.start = nil
        beginCluster(start)
    }

    /// nil if no client could have sent it.
    func publication(_ message: ClusterMessage) -> Publication? {
        guard TopicName.isLegal(message.topic), isCarried(message.topic),
            message.properties.isEmpty || Properties(publishContent: message.properties) != nil
        else { return nil }
        return Publication(
            topic: message.topic, properties: message.properties, payload: message.payload, qos: message.qos,
            retain: message.retain, expiresAt: message.expiresAt ?? Message.neverExpires, publisher: message.publisher)
    }

    /// What messages of a client carry; in a cluster the same on all nodes.
    func publisherKey(of clientIdentifier: EncodedString) -> UInt64 {
        let hashing = shard.cluster == nil ? shard.placement.hashing : TopicHash(seed: Self.clusterSeed)
        return clientIdentifier.bytes.withUnsafeBytes(hashing.hash) | 1
    }

    /// Nobody gains by names that collide: what has one partition is slower, and No Local hides one's own messages from
    /// oneself.
    fileprivate static let clusterSeed: UInt64 = 0x6d61_7274_6c65_7421

    /// Says the same on all nodes.
    static let clusterHashing = TopicHash(seed: clusterSeed)

    /// Routes a message of this node's client, or will, gives it to the cluster, and retains it if it is to be.
    ///
    /// - Parameter step: what a client's QoS 2 message says of its packet identifier.
    @inline(never)
    func publishToCluster(_ publication: inout Publication, _ port: ClusterPort, _ step: SessionStep? = nil) {
        guard isCarried(publication.topic) else {
            shard.dispatcher.route(&publication, .node)
            if publication.retain { shard.retainedMessages.retain(&publication) }
            return
        }
        let isLogged = port.log != nil && publication.qos > .atMostOnce
        if isLogged { shard.clusterLogReading.routePassing(&publication) } else { shard.dispatcher.route(&publication, .cluster) }
        let isRetained = publication.retain && port.takes(publication)
        let change = isRetained ? nextChange(publication, port) : .none
        let partitions = port.append(publication, isLogged: isLogged, change, step, now: shard.now)
        if isLogged { shard.clusterLogReading.awaitLog(port, in: partitions) }
        if isRetained {
            shard.retainedMessages.retain(&publication, as: change)
        } else if publication.retain {
            shard.drops.drop(.noRoom, DroppedMessage(publication))
        }
    }

    /// What a broker says of itself, and is asked to do, concerns its node alone.
    func isCarried(_ topic: UnsafeRawBufferPointer) -> Bool {
        guard topic.first == UInt8(ascii: "$") else { return true }
        return !Self.nodeRoots.contains {
            topic.starts(with: $0) && (topic.count == $0.count || topic[$0.count] == UInt8(ascii: "/"))
        }
    }

    private static let nodeRoots = ["$SYS", "$CONTROL"].map { Array($0.utf8) }

    func sendToCluster(_ filter: [UInt8], isWanted: Bool) {
        if shard.cluster != nil { shard.effects.append(.cluster(.interest(filter: filter, isWanted: isWanted))) }
    }

    /// At the end of the turn.
    func sendClusterMessages(_ port: ClusterPort) {
        shard.clusterDispatching.returnMarks()
        let changes = port.takeChanges()
        guard !port.isEmpty || changes != nil else { return }
        if !port.isEmpty { shard.effects.append(.cluster(.messages(port.takeBatch()))) }
        if let changes { shard.effects.append(.cluster(.retained(changes.batch, serial: changes.serial))) }
        // What is published from now on goes in other batches.
        shard.durability?.shardMessagesPosted()
    }
}

extension BrokerShard {
    /// Lets the shard be part of a cluster, from before its first turn on. What it wants by then is told first.
    ///
    /// - Parameters:
    ///   - logPartitions: how many the cluster's log has; 0 if nothing is logged, as without a store.
    ///   - claimsSessions: whether sessions are the cluster's, so that a client gets its own on any node. Only with a
    ///     log.
    ///   - node: the number by which the others know this one: the upper half is its store's, the lower one its
    ///     incarnation's. Only with a log.
    ///   - startMilliseconds: how long clients that come wait until the cluster is reached for the first time, instead
    ///     of being refused.
    public func joinCluster(
        logPartitions: Int = 0, claimsSessions: Bool = false, node: UInt64 = 0, startMilliseconds: UInt64 = 0
    ) {
        guard cluster == nil else { return }
        precondition(logPartitions > 0 || !claimsSessions, "sessions move with the log that they have read")
        precondition(logPartitions == 0 || journal != nil, "what is logged needs a store")
        precondition(
            shardCount + 2 <= UInt64.bitWidth, "the log and the stream of retained messages have a bit each, behind the shards")
        let port = ClusterPort(node: node)
        cluster = port
        if startMilliseconds > 0 { port.start = ClusterStart(endsAt: now + startMilliseconds) }
        if logPartitions > 0 {
            let log = ShardLog(
                places: clusterRows.logPositions.map { LogPositions($0.places, partitions: logPartitions) }
                    ?? LogPositions(partitions: logPartitions))
            log.isStored = clusterRows.hasLogPositions
            log.writtenAt = now
            port.log = log
        }
        for session in sessions.all { session.publisherKey = clusterMessaging.publisherKey(of: session.clientIdentifier) }
        if claimsSessions, let log = port.log {
            clusterLogReading.beginSteps(log)
            connecting.joinMoves(port)
            clusterDispatching.beginDispatch(port, log)
        } else {
            for session in sessions.all { session.phase = .whole }
        }
        var told: Set<[UInt8]> = []
        for session in sessions.all {
            for membership in session.groups {
                clusterMessaging.sendToCluster(membership.name.filter, isWanted: true)
                clusterDispatching.sendGroup(membership.name)
            }
            var record = session.firstSubscription
            while record != SubscriptionRecord.none {
                let filter = tree.filter(of: record)
                if told.insert(filter).inserted { clusterMessaging.sendToCluster(filter, isWanted: true) }
                record = tree.records[record].nextOfSession
            }
        }
    }

    /// Routes a message of another node to this node's subscribers, on all its shards. For one shard of the node,
    /// always the same, so that the messages of a publisher keep their order.
    ///
    /// - Returns: false if it is no message: a topic or properties that no client could have sent.
    public func received(_ message: ClusterMessage) -> Bool {
        guard var publication = clusterMessaging.publication(message) else { return false }
        storing.beginPacket()
        if message.isLogged, clusterLog != nil { publication.path = .passing }
        if message.dispatched.map({ $0.hops == 0 }) ?? true {
            let reach: Dispatcher.Reach = message.dispatched == nil && message.undispatched == nil ? .node : .nodeWithoutGroups
            if publication.path == .passing {
                clusterLogReading.routeByPath(&publication, reach)
            } else {
                dispatcher.route(&publication, reach)
            }
        }
        if let dispatched = message.dispatched {
            clusterDispatching.dispatchNamed(&publication, dispatched)
        } else if let undispatched = message.undispatched {
            clusterDispatching.dispatchAsFirst(&publication, undispatched.here, besides: undispatched.by)
        }
        if message.change != .none, message.retain, clusterMessaging.takeOrigin(message.origin, &publication) {
            retainedMessages.retain(&publication, as: message.change)
        }
        dispatcher.finish(&publication)
        return true
    }

    /// Which partition of the log a topic belongs to, on every node.
    public static func logPartition(of topic: UnsafeRawBufferPointer, among count: Int) -> Int {
        count == 1 ? 0 : Int(TopicHash(seed: ClusterMessaging.clusterSeed).hash(topic) >> 33) % count
    }

    /// Whether the end of the turn brings something for the other nodes. What it says of share groups was chosen by
    /// what the shard knew then.
    public var hasClusterMessages: Bool { !effects.isEmpty || cluster.map { !$0.isEmpty } ?? false }
}
