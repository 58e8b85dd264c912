public import BrokerModel
import MQTTCodec

/// What a shard has to tell the cluster, in order.
public enum ToCluster: Sendable {
    /// The shard's sessions want the messages of a filter from now on, or no more. As it is matched, without
    /// `$share/NAME/`; each share group membership counts for itself.
    case interest(filter: [UInt8], isWanted: Bool)
    /// The shard has so many members of a share group that may read something: connected ones, and others whose
    /// sessions last. The next fence is for it if it is new that somebody subscribes.
    case group(shareName: [UInt8], filter: [UInt8], connected: Int, away: Int, isSubscribed: Bool)
    /// Say with `passedFence` when every node routes to what was wanted before, and dispatches to who has subscribed.
    case fence(token: UInt64)
    /// Messages that clients of this node have published, for the other nodes, and some of them for the log: then
    /// `BrokerShard.logged` or `logFailed` has to follow, in the order of the batches.
    /// `ShardMessageBatch.forEachMessage` reads those for the nodes, and `logged` is for the log.
    case messages(ShardMessageBatch)
    /// Changes of retained messages that were made on this node, for the cluster's stream, in the order in which they
    /// were made of each topic. `retainedIsSafe` is to be called with the serial when all are in it; 0 for no need.
    case retained(ShardMessageBatch, serial: UInt64)
    /// What `sweepRetained` has come to: retained messages that the cluster may not have, and where it is to go on; nil
    /// behind the end.
    case swept(ShardMessageBatch, next: Int?, round: UInt64)
    /// Changes that other nodes have told of have not come out of the stream for long.
    case staleChanges
    /// A client has come for its session, and waits: `sessionClaimed` or `claimFailed` is to follow.
    case claim(SessionClaim)
    /// One piece of a session that was told to leave. The next one follows `chunkTaken`.
    case leaving(identifier: [UInt8], SessionChunk)
    /// A piece of a session that arrives would survive a power cut here.
    case arrived(identifier: [UInt8], number: Int)
    /// A piece was not what a node sends, or came out of turn: nothing of the session is here now, and whoever waits
    /// for it still does.
    case illegible(identifier: [UInt8])
    /// A session lacks some of the log, and its client waits: `replayNeeded` says which, `replayed` ends it.
    case lacksLog(identifier: [UInt8])
    /// The session that was awaited is up, with all that it was given; CONNACK goes out, if its client is still there.
    case restored(identifier: [UInt8])
    /// A session that this node keeps has ended.
    case sessionEnded(identifier: [UInt8])
    /// Store this of a session that this node keeps: `sessionSaved` is to follow when the cluster has it.
    case saves(SavedSession)
    /// The will of a session's connection is due. It goes into the log, once, whoever else finds it there to be done.
    case will(identifier: [UInt8], SavedWill)
    /// The will that `saves` has given by this name is not to be published any more: its client has said DISCONNECT, or
    /// is back in time.
    case willEnds(identifier: [UInt8], WillName)
    /// The answer to `sessionAssumed`: whether the session is here, and which will it has, so that this shard sees to
    /// it.
    case assumed(identifier: [UInt8], isHere: Bool, will: WillName?)
    /// Something of a session is due that this node had before it was started again, or before its lease ended: it may
    /// be another's since. By which claim it had it, the epoch says. Of one whose client has stayed all the while, it
    /// asks as soon as there is a lease again.
    case wakes(identifier: [UInt8], epoch: UInt64, isConnected: Bool)

    /// The messages that it brings.
    public var batch: ShardMessageBatch? {
        switch self {
        case .messages(let batch), .retained(let batch, _), .swept(let batch, _, _): batch
        case .interest, .group, .fence, .staleChanges, .claim, .leaving, .arrived, .illegible, .lacksLog, .restored, .sessionEnded,
            .saves, .will, .willEnds, .assumed, .wakes:
            nil
        }
    }
}

extension RetainedChange {
    init(_ detail: ShardMessageDetail) { self.init(node: detail.sessionKey, number: detail.stamp) }
}

extension ShardMessageBatch {
    /// The serial with which `BrokerShard.logged` confirms a batch for the cluster; 0 if nothing in it is to be logged.
    public var logSerial: UInt64 { serial }

    /// Calls `body` with each message of a batch for the bus, in order.
    public func forEachMessage(_ body: (ClusterMessage) -> Void) {
        var shardMessages = shardMessages.makeIterator()
        var origin: [UInt8] = []
        var dispatch: GroupDispatch?
        forEach { header, detail, bytes in
            guard header.kind != .shardMessage else {
                switch shardMessages.next() {
                case .retainedSource(let source)?: origin = source.row
                case .dispatch(let some)?: dispatch = some
                default: break
                }
                return
            }
            let topic = UnsafeRawBufferPointer(start: bytes, count: Int(header.topicLength))
            let properties = UnsafeRawBufferPointer(start: bytes + topic.count, count: Int(header.propertiesLength))
            let payload = UnsafeRawBufferPointer(start: bytes + topic.count + properties.count, count: Int(header.payloadLength))
            var message = ClusterMessage(
                topic: topic, properties: properties, payload: payload, qos: QoS(rawValue: header.qos) ?? .atMostOnce,
                retain: header.retain, expiresAt: header.expiresAt == Message.neverExpires ? nil : header.expiresAt,
                publisher: header.publisher, isLogged: header.kind == .passing)
            message.dispatch = dispatch
            dispatch = nil
            guard header.hasDetail else { return body(message) }
            message.change = RetainedChange(detail)
            origin.withUnsafeBytes {
                message.origin = $0
                body(message)
            }
            origin = []
        }
    }
}
