package import BrokerCore
import BrokerModel
import Cluster
import Platform

/// What a loop keeps of the cluster, beside what its shard does.
package struct LoopCluster {
    /// Speaks to the cluster's servers; on the first loop of a node, else nil.
    package var participant: (any ClusterParticipant)?
    /// Whether so much waits for the cluster's log that nothing more is read.
    var isLogBehind = false
    /// What of the log the shard has worked off since it has told of it.
    var recordsTaken = (byteCount: 0, illegible: 0)
    /// How many bytes of records it has worked off that it was given again.
    var recordsReplayed = 0
    /// What the shard knows of other nodes' share groups, and has not said yet.
    var groupsTaken: [UInt64] = []
    /// What the end of the turn tells the loop that speaks to the servers of this node's incarnations.
    var incarnationNews: ToGateway?
}

extension ShardLoop {
    /// Brings the gateway a message, at once if it is on this loop.
    package func postToGateway(_ message: ToGateway) {
        let speaker = loops[0]
        guard speaker !== self else {
            cluster.participant?.received(message)
            return
        }
        if case .shard(_, let message) = message, let batch = message.batch {
            backlog.add(batch.cost, from: index, to: speaker.index)
        }
        speaker.mailbox.post(.gateway(message))
    }

    /// Brings a message of the gateway here, at once if this is the gateway's own loop.
    package func post(_ message: FromGateway, from sender: ShardLoop) {
        if sender === self { received(message) } else { mailbox.post(.cluster(message)) }
    }

    package func post(_ message: FromCluster, from sender: ShardLoop) { post(.shard(message), from: sender) }

    /// Brings a message of the gateway, which is on this loop, to all loops.
    package func postToAll(_ message: FromGateway) { for other in loops { other.post(message, from: self) } }

    package func postToAll(_ message: FromCluster) { postToAll(.shard(message)) }

    func received(_ message: FromGateway) {
        switch message {
        case .shard(let message): shard.received(message)
        case .groups(let news, let token):
            for group in news { shard.received(group) }
            cluster.groupsTaken.append(token)
            // Who hears that this node knows forgets what messages may name that wait here.
            if !shard.hasClusterMessages { reportGroupsTaken() }
        case .logRoom(let isFull, let isAway):
            cluster.isLogBehind = isFull && !isAway
            shard.received(.logIsFull(isFull && isAway))
        case .record(let record):
            cluster.recordsTaken.illegible += shard.received(record)
            cluster.recordsTaken.byteCount += record.cost
        case .recordAgain(let record, let purpose):
            shard.reread(record, for: purpose)
            cluster.recordsReplayed += record.cost
        case .sessionLacksLog(let session): postToGateway(.spans(from: index, session, shard.replayNeeded(session)))
        case .dispatchedIsWanted: postToGateway(.dispatched(from: index, shard.logPositions.indices.map { shard.dispatched($0) }))
        case .incarnationEnds(let node):
            cluster.incarnationNews = .incarnationEnded(shard.endClusterIncarnation(next: node.rawValue))
        case .incarnationBegins(let stored):
            if let stored { shard.beginClusterIncarnation(after: stored) }
            cluster.incarnationNews = .incarnationBegun(from: index, earlierDispatches: shard.unsettledEarlierDispatches)
        }
    }

    /// Says that an incarnation is over here, or that the next one has begun, behind all that the shard had for others
    /// before.
    func postIncarnationNews() {
        guard let news = cluster.incarnationNews else { return }
        cluster.incarnationNews = nil
        postToGateway(news)
    }

    /// Says that the shard knows what it was told of share groups, behind all that it had chosen before.
    func reportGroupsTaken() {
        let tokens = cluster.groupsTaken
        cluster.groupsTaken = []
        for token in tokens { postToGateway(.groupsTaken(token: token)) }
    }

    /// Lets more of the log come, if what has come is not far from the disk.
    func reportRecordsTaken() {
        if cluster.recordsReplayed > 0, shard.takesReplays {
            postToGateway(.recordsReplayed(byteCount: cluster.recordsReplayed))
            cluster.recordsReplayed = 0
        }
        guard cluster.recordsTaken.byteCount > 0, shard.takesLog else { return }
        postToGateway(.recordsTaken(byteCount: cluster.recordsTaken.byteCount, illegible: cluster.recordsTaken.illegible))
        cluster.recordsTaken = (0, 0)
    }
}
