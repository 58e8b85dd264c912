package import BrokerCore
package import BrokerModel

/// What the loop that speaks to the servers wants of the shard of a session, which is named by its Client Identifier.
package enum SessionOrder: Sendable {
    case claimed([UInt8], SessionOrigin, epoch: UInt64)
    /// Its client is refused, and whether the log tells of it by itself.
    case failed([UInt8], String, isTold: Bool)
    case arrives([UInt8], SessionPiece)
    case leaves([UInt8], cleanStart: Bool)
    case pieceTaken([UInt8], number: Int)
    case gone([UInt8])
    case stays([UInt8])
    /// Say with `ClusterLoopMessage.spans` which records it lacks.
    case findSpans([UInt8])
    case replay(LogRecord, [[UInt8]])
    case replayed([UInt8])
    /// The cluster has stored what was given it of a session.
    case saved([UInt8], number: UInt64)
    /// Give what has changed of how far sessions have got in the log.
    case savePlaces
    /// This node looks after a session: say whether it is here.
    case adopted([UInt8], epoch: UInt64, from: UInt64)
    /// The session is another node's, or has ended; or the cluster has lost what it knew of it.
    case isElsewhere([UInt8])
    case isUnknown([UInt8])
    /// Another node looks after it, and sees to its will; the rest of it may be here alone.
    case willIsElsewhere([UInt8])
    /// This node has a lease again: say whose clients have stayed.
    case leaseBegins
    /// The will of a client, while the cluster cannot be reached.
    case publishAlone(SavedWill)
    /// Nobody keeps anything here any more: all clients are to go.
    case fence(String)
}

extension ShardLoop {
    package func received(_ order: SessionOrder) {
        switch order {
        case .claimed(let session, let origin, let epoch): shard.sessionClaimed(session, origin, epoch: epoch)
        case .failed(let session, let words, let isTold): shard.claimFailed(session, words, isTold: isTold)
        case .arrives(let session, let piece): shard.sessionArrives(session, piece)
        case .leaves(let session, let cleanStart): shard.sessionLeaves(session, cleanStart: cleanStart)
        case .pieceTaken(let session, let number): shard.pieceTaken(session, number: number)
        case .gone(let session): shard.sessionGone(session)
        case .stays(let session): shard.sessionStays(session)
        case .findSpans(let session): loops[0].post(.spans(from: index, session, shard.replayNeeded(session)), from: self)
        case .replay(let record, let sessions):
            record.giveAgain(to: shard, for: sessions)
            recordsReplayed += record.cost
        case .replayed(let session): shard.replayed(session)
        case .saved(let session, let number): shard.sessionSaved(session, number: number)
        case .savePlaces: shard.savePlaces()
        case .adopted(let session, let epoch, let oldest): shard.sessionAdopted(session, epoch: epoch, from: oldest)
        case .isElsewhere(let session): shard.sessionIsElsewhere(session)
        case .isUnknown(let session): shard.sessionIsUnknown(session)
        case .willIsElsewhere(let session): shard.sessionWillIsElsewhere(session)
        case .leaseBegins: shard.leaseBegins()
        case .publishAlone(let will): shard.publishAlone(will)
        case .fence(let words): shard.fenceClients(words)
        }
    }
}
