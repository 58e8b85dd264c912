import BrokerModel
import MQTTCodec

/// QoS 2 messages whose receivers live on several shards: taken once by each, whatever crashes in between.
extension Storing {
    /// Names a QoS 2 message of a client whose session lasts, for the other shards that take it; 0 if they need not
    /// remember it.
    @inline(__always)
    func receipt(of view: PublishView, _ session: Session) -> UInt64 {
        guard shard.shardCount > 1, shard.journal != nil, view.qos == .exactlyOnce, session.keepsMessages else { return 0 }
        return StoredReceipt(session: session.key, packetIdentifier: view.packetIdentifier).key
    }

    /// Does a shard's part of another shard's message, unless it was done before. Another message than the one that
    /// was, which its sender has given the same packet identifier without releasing the first, takes its place.
    func take(
        _ receipt: UInt64, _ part: RelayedReceipt.Part, group: UInt64 = 0, of publication: inout Publication,
        _ body: (inout Publication) -> Void
    ) {
        guard receipt != 0, let journal = shard.journal else {
            body(&publication)
            return
        }
        let name = RelayedReceipt(receipt, part, group: group)
        let digest = digest(of: publication)
        guard !shard.receipts.hasTaken(name, digest: digest) else {
            shard.receipts.markCertain(receipt)
            return
        }
        let before = journal.sequence
        body(&publication)
        shard.receipts.take(name, digest: digest)
        if journal.sequence != before || shard.receipts.isStored(name) { keepRelayed(name, digest: digest) }
    }

    /// Remembers that a part was done, for good.
    func keepRelayed(_ name: RelayedReceipt, digest: UInt64?) {
        guard let journal = shard.journal else { return }
        let known = shard.receipts.row(of: name)
        let number = known != 0 ? known : journal.nextNumber()
        journal.put(.relayed, key: number, name.encoded(digest: digest), isThere: known != 0)
        shard.receipts.take(name, row: number, digest: digest)
    }

    /// A client has sent a QoS 2 message again that was received before a crash, in which other shards may have lost
    /// their part of it. What is not the same message, whatever its packet identifier says, goes nowhere.
    func forwardAgain(_ publication: inout Publication, _ packetIdentifier: UInt16, of session: Session) {
        // A single shard gives its messages none.
        let receipt = StoredReceipt(session: session.key, packetIdentifier: packetIdentifier).key
        guard shard.receipts.takesAgain(receipt, digest: digest(of: publication)) else { return }
        if shard.receipts.hasMoved {
            // Its receivers are on other shards than they were, and so is what these have noted: twice is better than
            // never.
            publication.receipt = 0
            shard.publishing.publish(&publication)
            return
        }
        let shards = shard.dispatcher.interest(in: publication.topic) & ~(1 << UInt64(shard.index))
        if shards != 0 { shard.messaging.forward(publication, to: shards) }
        let owner = shard.placement.shard(of: publication.topic)
        if publication.retain, owner != shard.index {
            shard.retainedMessages.forwardRetained(
                publication, as: shard.cluster.map { shard.clusterMessaging.nextChange(publication, $0) } ?? .none, to: owner)
        }
        if let chosen = shard.receipts.choices(for: receipt) {
            shard.shareGroups.sendToChosen(&publication, chosen, receipt: receipt)
        }
        shard.dispatcher.finish(&publication)
    }

    /// Tells messages apart that come with the same packet identifier: 64 bits of a hash of topic, RETAIN and payload,
    /// of a long payload its length and both ends. Its seed is the store's, so that it says the same after a crash;
    /// where sessions move, the cluster's. Never 0.
    func digest(of publication: borrowing Publication) -> UInt64 {
        digest(publication.topic, retain: publication.retain, publication.payload)
    }

    /// - Parameter topic: as it is called inside the broker.
    @inline(never)
    func digest(of view: PublishView, _ topic: UnsafeRawBufferPointer) -> UInt64 {
        digest(topic, retain: view.retain, view.payload)
    }

    @inline(__always)
    private func digest(_ topic: UnsafeRawBufferPointer, retain: Bool, _ payload: UnsafeRawBufferPointer) -> UInt64 {
        let hashing = shard.cluster?.moves == nil ? shard.placement.hashing : ClusterMessaging.clusterHashing
        let content: UInt64
        if payload.count <= Limits.digestedBytesMax {
            content = hashing.hash(payload)
        } else {
            let half = Limits.digestedBytesMax / 2
            content = TopicHash.mix(
                hashing.hash(UnsafeRawBufferPointer(rebasing: payload.prefix(half))) ^ UInt64(payload.count),
                hashing.hash(UnsafeRawBufferPointer(rebasing: payload.suffix(half))) | 1)
        }
        return max(1, TopicHash.mix(hashing.hash(topic) ^ (retain ? 1 : 0), content | 1))
    }

    /// What of a digest stands beside a packet identifier; 0 if there is none.
    static func shortDigest(_ digest: UInt64?) -> UInt32 {
        guard let digest, digest != 0 else { return 0 }
        return max(1, UInt32(truncatingIfNeeded: digest))
    }

    /// What share groups have chosen for a message is durable: their members' shards get it.
    func dispatchHeld(_ dispatch: HeldDispatch) {
        var publication = Publication(dispatch.message)
        publication.mustArrive = true
        shard.shareGroups.sendToChosen(
            &publication, dispatch.choices, receipt: shard.receipts.choices(for: dispatch.receipt) == nil ? 0 : dispatch.receipt)
        shard.dispatcher.finish(&publication)
    }

    /// The client has released a message, or its session has ended: the other shards may forget it.
    func sendReleased(_ packetIdentifier: UInt16, of session: Session) {
        guard shard.journal != nil, session.storage.isStored else { return }
        let receipt = StoredReceipt(session: session.key, packetIdentifier: packetIdentifier).key
        guard shard.shardCount > 1 || shard.receipts.hasTaken else { return shard.receipts.markCertain(receipt) }
        // With fewer shards than before, what another one had taken may have come here.
        let groups = shard.receipts.takeChoices(for: receipt).map(\.group)
        receivedRelease(receipt, groups)
        for target in 0..<shard.shardCount where target != shard.index {
            shard.messaging.send(.released(receipt: receipt, groups: groups), target)
            shard.messaging.requireConfirmation(of: target)
        }
    }

    func receivedRelease(_ receipt: UInt64, _ groups: [UInt64]) {
        for number in shard.receipts.release(receipt, groups) { shard.journal?.delete(.relayed, key: number) }
    }
}

extension Limits {
    /// Bytes of a QoS 2 message's payload that are looked at to tell it from another one; of a longer payload the first
    /// half and the last.
    static let digestedBytesMax = 1024
}
