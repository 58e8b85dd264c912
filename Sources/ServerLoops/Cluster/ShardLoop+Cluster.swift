package import BrokerCore
import Cluster
import EpollLoop

extension ShardLoop {
    /// What a shard has to tell: to the loop that speaks to the servers, here or by message.
    package func sendToCluster(_ note: ClusterNote) {
        let speaker = loops[0]
        if speaker === self {
            cluster?.received(note, from: index)
            return
        }
        if let batch = note.batch { backlog.add(batch.byteCount, from: index, to: speaker.index) }
        speaker.mailbox.post(.cluster(.note(from: index, note)))
    }

    /// Brings a message here, at once if this is the loop that sends it.
    package func post(_ message: ClusterLoopMessage, from sender: ShardLoop) {
        if sender === self { received(message) } else { mailbox.post(.cluster(message)) }
    }

    package func received(_ message: ClusterLoopMessage) {
        switch message {
        case .isAway(let isAway): shard.clusterIsAway(isAway)
        case .groups(let change, let token):
            switch change {
            case .told(let news): for group in news { shard.received(group) }
            case .isGone(let node): shard.clusterNodeIsGone(node.rawValue)
            }
            groupsTaken.append(token)
            // Who hears that this node knows forgets what messages may name that wait here.
            if !shard.hasClusterMessages { reportGroupsTaken() }
        case .logged(let serial, nil): shard.logged(through: serial)
        case .logged(let serial, let failure?):
            shard.logFailed(through: serial, isRefused: failure != .unknown, isForRoom: failure == .noRoom)
        case .logLacksRoom(let partitions): shard.logLacksRoom(partitions)
        case .logIsFull(let isFull, let isAway):
            isLogBehind = isFull && !isAway
            shard.logIsFull(isFull && isAway)
        case .logBegins(let partition, let place): shard.logBegins(partition, after: place)
        case .logIsCut(let partition, let last): shard.logIsCut(partition, at: last)
        case .logIsCurrent(let partition): shard.logIsCurrent(partition)
        case .record(let record):
            recordsTaken.illegible += record.give(to: shard)
            recordsTaken.byteCount += record.cost
        case .retainedBytes(let bytesMax): shard.clusterTakesRetained(upTo: bytesMax)
        case .retainedIsFull(let isFull): shard.clusterRetainedIsFull(isFull)
        case .retainedIsSafe(let serial): shard.retainedIsSafe(serial)
        case .lookForStaleChanges: shard.lookForStaleChanges()
        case .session(let order): received(order)
        case .dealsFor(let node, let done): shard.dealsFor(node.rawValue, after: done)
        case .hasDealt(let node): shard.hasDealt(for: node.rawValue)
        case .dealsNoMoreFor(let node): shard.dealsNoMoreFor(node.rawValue)
        case .dealAgain(let record, let node):
            record.dealAgain(to: shard, for: node)
            recordsReplayed += record.cost
        case .learnDealt(let record, let node):
            record.learnDealt(in: shard, by: node)
            recordsReplayed += record.cost
        case .past(let order): received(order)
        case .endIncarnation(let node):
            incarnationNews = .incarnationEnded(shard.endClusterIncarnation(next: node.rawValue))
        case .beginIncarnation(let stored):
            if let stored { shard.beginClusterIncarnation(after: stored) }
            incarnationNews = .incarnationBegun(from: index, past: shard.unsettledPast)
        case .forgetDealt(let node): shard.forgetDealt(by: node.rawValue)
        case .sendDealt:
            loops[0].post(.dealt(from: index, shard.logPlaces.indices.map { shard.dealt($0) }), from: self)
        case .nats, .note, .report, .access, .recordsTaken, .summary, .credentials,
            .groupsTaken, .dealt, .unsynced, .ask, .answer, .spans, .recordsReplayed, .incarnationEnded, .incarnationBegun:
            cluster?.received(message)
        }
    }

    private func received(_ order: PastOrder) {
        switch order {
        case .heir(let incarnation, let heir): shard.learnPast(heirOf: incarnation.rawValue, heir.rawValue)
        case .learn(let record):
            record.learnPast(in: shard)
            recordsReplayed += record.cost
        case .follow(let record):
            record.followPast(in: shard)
            recordsReplayed += record.cost
        case .known(let won): shard.pastIsKnown(won: won)
        case .deal(let record):
            record.dealPast(to: shard)
            recordsReplayed += record.cost
        case .settle: shard.settlePast()
        case .end: shard.endPast()
        }
    }

    /// Says that an incarnation is over here, or that the next one has begun, behind all that the shard had for others
    /// before.
    func postIncarnationNews() {
        guard let news = incarnationNews else { return }
        incarnationNews = nil
        loops[0].post(news, from: self)
    }

    /// Says that the shard knows what it was told of share groups, behind all that it had chosen before.
    func reportGroupsTaken() {
        let tokens = groupsTaken
        groupsTaken = []
        for token in tokens { loops[0].post(.groupsTaken(token: token), from: self) }
    }

    /// Lets more of the log come, if what has come is not far from the disk.
    func reportRecordsTaken() {
        if recordsReplayed > 0, shard.takesReplays {
            loops[0].post(.recordsReplayed(byteCount: recordsReplayed), from: self)
            recordsReplayed = 0
        }
        guard recordsTaken.byteCount > 0, shard.takesLog else { return }
        loops[0].post(.recordsTaken(byteCount: recordsTaken.byteCount, illegible: recordsTaken.illegible), from: self)
        recordsTaken = (0, 0)
    }
}
