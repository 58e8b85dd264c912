import BrokerModel
import MQTTCodec

/// From a message to those who receive it.
extension Dispatcher {
    /// How far a message is routed. On a broker that is alone, what is not the shard's is the node's.
    enum Reach {
        /// To this shard's own subscribers only: another one has sent it.
        case shard
        /// To this shard's subscribers, to the other shards that want it, and to one of this node's members of each
        /// share group: to them alone concerns what is not the cluster's, and what other nodes dispatch likewise.
        case node
        /// Like `node`, but without the share groups, which are dispatched apart.
        case nodeWithoutGroups
        /// Like `node`, but to a member of each share group on any node.
        case cluster
        /// Like `cluster`, though the log has it: who is chosen is told by the bus alone.
        case clusterByBus
    }

    /// The matches of a topic: all who receive its messages. Valid until the next call.
    ///
    /// A look-up may drive out the matches of the batch that has gathered, and what is looked up comes behind it: so
    /// that is delivered first.
    ///
    /// - Parameter isNext: whether it is for the batch's next message, which has the same matches.
    @inline(__always)
    func matches(of topic: UnsafeRawBufferPointer, isNext: Bool = false) -> Reference<Matches> {
        if !isNext { endBatch() }
        return shard.matchCache.matches(of: topic, in: &shard.tree, sessions: shard.sessions)
    }

    /// Routes a message to those who receive it.
    ///
    /// - Returns: whether anybody subscribes to its topic.
    @discardableResult
    func route(_ publication: inout Publication, _ reach: Reach) -> Bool {
        if publication.retain, shard.shardCount > 1 {
            shard.scans.arrivals.record(topic: shard.placement.hash(publication.topic), now: shard.now)
        }
        let matches = matches(
            of: publication.topic, isNext: !shard.dispatchState.batch.isEmpty && continuesBatch(publication))
        if shard.inspection.latencies.isNextFollowed() { follow(publication) }
        let isRepeated = shard.dispatchState.isRepeated(matches)
        return matches.with { matches in
            if matches.isObserved {
                shard.topicMetrics.routeObserved(&publication, to: matches, reach, isRepeated: isRepeated)
            } else {
                dispatch(&publication, to: matches, isRepeated: isRepeated)
                routeElsewhere(&publication, to: matches, reach)
            }
            return !matches.isEmpty
        }
    }

    /// To the other shards, and to share groups.
    @inline(__always)
    func routeElsewhere(_ publication: inout Publication, to matches: Matches, _ reach: Reach) {
        guard reach != .shard else { return }
        if matches.shards != 0 { shard.messaging.forward(publication, to: matches.shards) }
        if !matches.groups.isEmpty { shard.shareGroups.routeToGroups(&publication, matches.groups, reach) }
    }

    /// Measures how long the message takes to its receivers.
    @inline(never)
    func follow(_ publication: borrowing Publication) {
        shard.inspection.latencies.follow(
            publication.qos, readAt: publication.readAt == 0 ? shard.ledger.clockMicroseconds : publication.readAt)
    }

    /// The shards whose sessions subscribe to the topic, a bit each, this one included if its own do.
    func interest(in topic: UnsafeRawBufferPointer) -> UInt64 {
        matches(of: topic).with { matches in
            matches.shards | (matches.routeCount > 0 ? 1 << UInt64(shard.index) : 0)
        }
    }
}
