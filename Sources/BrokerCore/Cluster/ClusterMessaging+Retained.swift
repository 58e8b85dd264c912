public import BrokerModel
import MQTTCodec

/// Retained messages of a cluster: its stream has the newest of each topic, and its order decides which that is.
///
///     PUBLISH ──► keep ──► ToCluster.retained ──► the stream ──► settleRetained ──► settle    on every node
///                   └────► ToCluster.messages ──► the other nodes' subscribers ──► keep       what they hear of before that
///
/// A change counts on its own node at once, and on the others when they hear of it, as a live message does: so whoever
/// subscribes gets a message live or as the retained one, on any node. `UnsettledChanges` says what becomes of it when
/// it comes out of the stream.
extension ClusterMessaging {
    // MARK: Changes

    func nextChange(_ publication: borrowing Publication, _ port: ClusterPort) -> RetainedChange {
        isCarried(publication.topic) ? RetainedChange(node: 0, number: port.nextNumber(of: shard.index)) : .none
    }

    func isNews(_ change: RetainedChange) -> Bool { shard.cluster?.unsettled.isNews(change) ?? true }

    /// A message of a topic of this shard is retained, or removed, and the stream has not said so yet.
    func recordChange(_ publication: borrowing Publication, _ change: RetainedChange) {
        guard let port = shard.cluster else { return }
        port.mark(shard.retained.index(of: publication.topic))
        port.unsettled.record(Array(publication.topic), change, now: shard.now)
        guard change.node == 0 else { return }
        let mustBeSafe = shard.journal != nil && publication.qos > .atMostOnce
        port.change(publication, change, serial: mustBeSafe ? requireRetainedConfirmation() : 0)
    }

    /// An administrator has deleted a retained message.
    func recordDeletion(of message: Message, _ port: ClusterPort) {
        let deletion = Publication(
            topic: message.topic, properties: UnsafeRawBufferPointer(start: nil, count: 0),
            payload: UnsafeRawBufferPointer(start: nil, count: 0), qos: .atMostOnce, retain: true, expiresAt: Message.neverExpires,
            publisher: 0)
        let change = nextChange(deletion, port)
        if change != .none { recordChange(deletion, change) }
    }

    /// Why a message that is to be retained is not taken; nil if it is.
    func retainObjection(
        _ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session, by port: ClusterPort
    ) -> (reason: ReasonCode, drop: DropReason)? {
        let origin = shard.retainedMessages.retainedSource(of: session).row.count
        guard isCarried(topic), let drop = port.takes(byteCount: topic.count + view.properties.count + view.payload.count + origin)
        else { return nil }
        return (drop == .noRoom ? .quotaExceeded : .implementationSpecificError, drop)
    }

    func clusterRetainedIsFull(_ isFull: Bool) {
        shard.cluster?.isRetainedFull = isFull
        if !isFull { shard.room.hasNew = true }
    }

    func retainedIsSafe(_ serial: UInt64) {
        if let receiver = shard.durability?.retainedReceiver { shard.durability?.confirmed(serial, by: receiver) }
        shard.clusterLog?.hasNews = true
    }

    /// - Returns: the serial under which the changes of this turn go; 0 without a store.
    private func requireRetainedConfirmation() -> UInt64 {
        guard let receiver = shard.durability?.retainedReceiver else { return 0 }
        return shard.durability?.requireConfirmation(of: receiver) ?? 0
    }

    // MARK: The stream

    func settle(_ publication: inout Publication, _ change: RetainedChange) {
        guard let port = shard.cluster else { return }
        if port.unsettled.settle(Array(publication.topic), change, passedOver(&publication)) { take(&publication) }
        port.mark(shard.retained.index(of: publication.topic))
    }

    private func passedOver(_ publication: inout Publication) -> Message {
        let message = publication.makeMessage(shard.ledger)
        message.source = publication.source
        return message
    }

    /// Keeps what the stream has.
    private func take(_ publication: inout Publication) {
        guard !isRetained(publication) else { return }
        if publication.expiresAt <= shard.now {
            shard.sessionRows.forgetRetained(shard.journal == nil ? 0 : shard.retained.storeNumber(publication.topic))
            _ = shard.retained.remove(publication.topic)
        } else {
            shard.retainedMessages.keep(&publication, isLive: false)
        }
    }

    /// Whether a topic's retained message is this one already.
    private func isRetained(_ publication: borrowing Publication) -> Bool {
        guard let message = shard.retained.find(publication.topic) else { return publication.payload.isEmpty }
        return message.qos == publication.qos && message.expiresAt == publication.expiresAt
            && message.source?.row == publication.source?.row && message.payload.elementsEqual(publication.payload)
            && message.properties.elementsEqual(publication.properties)
    }

    /// Reads whose message it is; false if that cannot be read.
    func takeOrigin(_ row: UnsafeRawBufferPointer, _ publication: inout Publication) -> Bool {
        guard !row.isEmpty else { return true }
        publication.source = shard.cluster?.source(Array(row)) {
            var reader = RecordReader(row)
            guard let origin = StoredOrigin(&reader), reader.isAtEnd, case .name(let name) = origin.listener else { return nil }
            return RetainedSource(
                clientIdentifier: origin.clientIdentifier, userName: origin.userName,
                listener: origin.listener.index(among: shard.settings), listenerName: name)
        }
        guard let source = publication.source else { return false }
        publication.publisher = publisherKey(of: source.clientIdentifier)
        return true
    }

    // MARK: All of the stream

    // These go to other shards as shard messages, behind what was settled before.

    func readRetained() {
        shard.cluster?.unsettled.forgetOthers()
        shard.cluster?.beginReading()
    }

    func sweepRetained(from place: Int, offers: Bool, round: UInt64) {
        guard let port = shard.cluster else { return }
        let batch = ShardMessageBatch()
        var place = place
        let end = place < shard.retained.nodes.end ? min(place + Limits.sweptNodesPerTurn, shard.retained.nodes.end) : 0
        while place < end, batch.byteCount < Limits.sweptBytesPerTurn {
            defer { place += 1 }
            guard !port.isMarked(place), let message = shard.retained.message(of: UInt32(place)), isCarried(message.topic),
                !message.hasExpired(at: shard.now), !port.unsettled.isAwaited(Array(message.topic))
            else { continue }
            if offers {
                var offer = Publication(message)
                offer.source = message.source
                ClusterPort.append(offer, nextChange(offer, port), to: batch)
            } else {
                shard.sessionRows.forgetRetained(shard.retained.storeNumber(message.topic))
                _ = shard.retained.remove(message.topic)
            }
        }
        let isAtEnd = place >= shard.retained.nodes.end
        if isAtEnd, place != .max { port.endReading() }
        shard.effects.append(.cluster(.swept(batch, next: isAtEnd ? nil : place, round: round)))
    }

    /// Takes what was passed over for changes that do not come out of the stream. If other nodes have told of some that
    /// do not for long, `ToCluster.staleChanges` says so.
    func lookForStaleChanges() {
        guard let port = shard.cluster else { return }
        for message in port.unsettled.takeOverdue(now: shard.now) {
            var publication = Publication(message)
            publication.source = message.source
            take(&publication)
            shard.dispatcher.finish(&publication)
            port.mark(shard.retained.index(of: message.topic))
        }
        guard port.unsettled.hasStale(now: shard.now) else { return }
        shard.effects.append(.cluster(.staleChanges))
    }
}

extension Limits {
    /// Bytes of retained messages that a turn tells the cluster when a broker joins it with its own; the others wait
    /// for the next.
    static let sweptBytesPerTurn = 1 << 20
}

extension BrokerShard {
    /// Takes the retained message of a topic as the stream has it; without a payload there is none. For one shard of
    /// the node, always the same, in the stream's order.
    ///
    /// - Returns: false if it is none: a topic, properties or an origin that no client could have.
    public func settleRetained(_ message: ClusterMessage) -> Bool {
        guard var publication = clusterMessaging.publication(message) else { return false }
        storing.beginPacket()
        let change = message.change
        guard clusterMessaging.takeOrigin(message.origin, &publication) else { return false }
        let keeper = placement.shard(of: message.topic)
        if keeper == index {
            clusterMessaging.settle(&publication, change)
        } else {
            if let source = publication.source { messaging.send(.retainedSource(source), keeper) }
            shardMessages.append(
                publication, as: .settled, ShardMessageDetail(sessionKey: change.node, stamp: change.number), to: keeper)
        }
        dispatcher.finish(&publication)
        return true
    }

    /// All of the stream is about to be read: what it does not have by `sweepRetained` is not the cluster's. Tells all
    /// shards.
    public func beginReadingRetained() {
        clusterMessaging.readRetained()
        messaging.sendToOthers(.retainedReading)
    }

    /// All of the stream was read: a shard removes what it does not have, or tells it for the cluster; some nodes of
    /// the tree, and its `ToCluster.swept` says where to go on.
    ///
    /// - Parameters:
    ///   - shard: which.
    ///   - place: 0, or what `ToCluster.swept` has said; from behind the end it does nothing but answer.
    ///   - offers: whether the messages are new to the cluster, and not deleted there.
    ///   - round: comes back.
    public func sweepRetained(of shard: Int, from place: Int, offers: Bool, round: UInt64) {
        if shard == index {
            clusterMessaging.sweepRetained(from: place, offers: offers, round: round)
        } else {
            messaging.send(.retainedSweep(place: place, offers: offers, round: round), shard)
        }
    }

    /// Every node routes to what was wanted before a fence of this token of a shard, and this node has what is
    /// retained.
    public func passedFence(_ token: UInt64, of shard: Int) {
        if shard == index { messaging.barrierPassed(token) } else { messaging.send(.barrierPassed(token: token), shard) }
    }

    /// Whether the store's retained messages have been this cluster's before. On shard 0.
    public func isMember(of cluster: String) -> Bool { clusterRows.membership?.cluster == cluster }

    /// They are from now on. On shard 0.
    public func becameMember(of cluster: String) {
        guard !isMember(of: cluster) else { return }
        let row = StoredMembership(cluster: cluster)
        journal?.put(.broker, key: StoredMembership.key, row.encoded(), isThere: clusterRows.membership != nil)
        clusterRows.membership = row
    }
}
