public import BrokerModel

/// What a shard is told of its cluster, by way of `BrokerShard.received`. What it tells the cluster is a `ToCluster`.
///
/// Sessions are named by their Client Identifier, nodes by the number in `ClusterGroup.node`.
public enum FromCluster: Sendable {
    // MARK: The other nodes

    /// Whether the cluster can be reached.
    case isAway(Bool)
    /// Another node has so many members of a share group.
    case group(ClusterGroup)
    case nodeIsGone(UInt64)

    // MARK: What became of what was to be logged

    /// All messages of the batches up to this serial are in the log.
    case logged(through: UInt64)
    /// Some of those are not, or nobody knows: whether it is known, and whether it will be different when there is
    /// room.
    case logFailed(through: UInt64, FailedBatches)
    /// Whether so much waits for the log, which is away, that no more is taken.
    case logIsFull(Bool)
    /// The partitions that have no room, a bit for each.
    case logLacksRoom(UInt64)

    // MARK: The log as it is read

    /// From where on a partition is read.
    case logBegins(Int, after: LogPositions.Place)
    /// A partition ends at this record, before some that was read of it.
    case logIsCut(Int, at: UInt64)
    /// A partition has come as far as it went when it was found.
    case logIsCurrent(Int)

    // MARK: Retained messages

    /// How many bytes one may have, with its origin.
    case retainedBytes(max: Int)
    /// Whether as many changes wait for the stream as may.
    case retainedIsFull(Bool)
    /// The changes up to this serial are in the stream.
    case retainedIsSafe(UInt64)
    /// Time has come to look for changes that do not come out of the stream.
    case lookForStaleChanges

    // MARK: Sessions

    /// This node keeps the session for which a client has come, and where it is found.
    case sessionClaimed([UInt8], SessionOrigin, epoch: UInt64)
    /// It does not: the client is refused in these words, and whether the log tells of it by itself.
    case claimFailed([UInt8], String, isTold: Bool = true)
    case sessionArrives([UInt8], SessionChunk)
    /// Another node is to have the session; `chunkTaken` asks for one chunk after the other.
    case sessionLeaves([UInt8], cleanStart: Bool = false)
    case chunkTaken([UInt8], number: Int)
    /// Another node has all of it.
    case sessionGone([UInt8])
    /// It stays here after all.
    case sessionStays([UInt8])
    /// It has been given all that `BrokerShard.replayNeeded` named.
    case replayed([UInt8])
    /// The cluster has what `ToCluster.saves` gave it with this number.
    case sessionSaved([UInt8], number: UInt64)
    /// What has changed of how far sessions have got in the log is to be given.
    case saveLogPositions
    /// This node looks after a session: `ToCluster.assumed` says whether it is here.
    case sessionAssumed([UInt8], epoch: UInt64, from: UInt64)
    /// It is another node's, or has ended; or the cluster has lost what it knew of it.
    case sessionIsElsewhere([UInt8])
    case sessionIsUnknown([UInt8])
    /// Another node looks after it, and sees to its will; the rest of it may be here alone.
    case sessionWillIsElsewhere([UInt8])
    /// This node has a lease again: the shard says whose clients have stayed.
    case leaseBegins
    /// The will of a client is due while the cluster cannot be reached.
    case publishAlone(SavedWill)
    /// Nobody keeps anything here any more: all clients are to go, in these words.
    case fenceClients(String)

    // MARK: What share groups dispatch

    /// What the log has for a node that is gone is dispatched here from now on, behind these records by partition.
    case dispatchesFor(UInt64, after: [UInt64])
    /// All that it had before stands in the log once more.
    case hasDispatched(for: UInt64)
    case dispatchesNoMoreFor(UInt64)
    /// Forget what was learned of messages that were dispatched to this node.
    case forgetDispatched(by: UInt64)
    /// The node that dispatches for an earlier incarnation of this one is known.
    case successor(of: UInt64, UInt64)
    /// All is read in which those incarnations can have said whose it is; these are the ones whose part this node
    /// dispatches again.
    case earlierDispatchesAreKnown(won: Set<UInt64>)
    /// All is read that may have some of it.
    case settleEarlierDispatches
    /// Nobody leaves those incarnations anything any more.
    case endEarlierDispatches
}

extension BrokerShard {
    /// Takes what the cluster tells.
    ///
    /// The log's records and the stream's changes come by calls of their own, which lend what lies in them.
    public func received(_ message: FromCluster) {
        switch message {
        case .isAway(let isAway): clusterMessaging.clusterIsAway(isAway)
        case .group(let group): clusterDispatching.heard(of: group)
        case .nodeIsGone(let node): clusterDispatching.clusterNodeIsGone(node)
        case .logged(let serial): clusterLogReading.logged(through: serial)
        case .logFailed(let serial, let failed): clusterLogReading.logFailed(through: serial, failed)
        case .logIsFull(let isFull): clusterLogReading.logIsFull(isFull)
        case .logLacksRoom(let partitions): clusterLogReading.logLacksRoom(partitions)
        case .logBegins(let partition, let place): clusterLogReading.logBegins(partition, after: place)
        case .logIsCut(let partition, let last): clusterLogReading.logIsCut(partition, at: last)
        case .logIsCurrent(let partition): clusterLogReading.logIsCurrent(partition)
        case .retainedBytes(let bytesMax): cluster?.retainedBytesMax = bytesMax
        case .retainedIsFull(let isFull): clusterMessaging.clusterRetainedIsFull(isFull)
        case .retainedIsSafe(let serial): clusterMessaging.retainedIsSafe(serial)
        case .lookForStaleChanges: clusterMessaging.lookForStaleChanges()
        case .sessionClaimed(let session, let origin, let epoch): connecting.sessionClaimed(session, origin, epoch: epoch)
        case .claimFailed(let session, let words, let isTold): connecting.claimFailed(session, words, isTold: isTold)
        case .sessionArrives(let session, let piece): arrivals.sessionArrives(session, piece)
        case .sessionLeaves(let session, let cleanStart): departures.sessionLeaves(session, cleanStart: cleanStart)
        case .chunkTaken(let session, let number): departures.chunkTaken(session, number: number)
        case .sessionGone(let session): departures.sessionGone(session)
        case .sessionStays(let session): departures.sessionStays(session)
        case .replayed(let session): sessionReplay.replayed(session)
        case .sessionSaved(let session, let number): saves.sessionSaved(session, number: number)
        case .saveLogPositions: saves.saveLogPositions()
        case .sessionAssumed(let session, let epoch, let oldest): moves.sessionAssumed(session, epoch: epoch, from: oldest)
        case .sessionIsElsewhere(let session): moves.sessionIsElsewhere(session)
        case .sessionIsUnknown(let session): moves.sessionIsUnknown(session)
        case .sessionWillIsElsewhere(let session): moves.sessionWillIsElsewhere(session)
        case .leaseBegins: moves.leaseBegins()
        case .publishAlone(let will): moves.publishAlone(will)
        case .fenceClients(let words): departures.fenceClients(words)
        case .dispatchesFor(let node, let done): clusterDispatching.dispatchesFor(node, after: done)
        case .hasDispatched(let node): cluster?.inherited[node] = nil
        case .dispatchesNoMoreFor(let node): clusterDispatching.dispatchesNoMoreFor(node)
        case .forgetDispatched(let node): cluster?.learned[node] = nil
        case .successor(let incarnation, let successor):
            clusterDispatching.learnEarlierDispatches(successorOf: incarnation, successor)
        case .earlierDispatchesAreKnown(let won): clusterDispatching.earlierDispatchesAreKnown(won: won)
        case .settleEarlierDispatches: clusterDispatching.settleEarlierDispatches()
        case .endEarlierDispatches: clusterDispatching.endEarlierDispatches()
        }
    }
}

/// What of a shard's batches is not in the cluster's log, or is not known to be.
public struct FailedBatches: Sendable {
    /// The partitions in which it is not, a bit each: what went into others is there.
    public var partitions: UInt64
    /// Whether it is known not to be there.
    public var isRefused: Bool
    /// Whether that is because there was no room, and will be different when there is.
    public var isForRoom: Bool

    public init(partitions: UInt64, isRefused: Bool, isForRoom: Bool = false) {
        (self.partitions, self.isRefused, self.isForRoom) = (partitions, isRefused, isForRoom)
    }
}
