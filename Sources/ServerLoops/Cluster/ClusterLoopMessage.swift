package import BrokerCore
package import BrokerModel
package import Cluster
import MQTTCodec
package import NATSClient
package import Transports

/// What reaches a loop on account of the cluster.
package enum ClusterLoopMessage: Sendable {
    /// To the loop that speaks to the servers: addresses that it has asked for.
    case nats(NATSConnectionMessage)
    /// To that loop: what a shard has to tell.
    case note(from: Int, ClusterNote)
    /// To that loop: tell how it is.
    case report
    /// To that loop: what the control thread wants of what nodes share.
    case access(AccessOrder)
    /// To that loop: this node is like this.
    case summary(NodeFigures)
    /// To that loop: why the servers do not do what the configuration asks of them; nil if they do, or nobody knows.
    case unsynced(String?)
    /// To that loop: connect anew, with these.
    case credentials(ClusterCredentials)
    /// To that loop: ask all other nodes.
    case ask(token: UInt64, NodeQuestion)
    /// To that loop: what another node is to be answered.
    case answer(number: UInt64, NodeAnswer)
    /// To a shard's loop: whether the cluster can be reached.
    case isAway(Bool)
    /// To a shard's loop: other nodes' members of share groups. `groupsTaken` is to follow.
    case groups(GroupsChange, token: UInt64)
    /// To the loop that speaks to the servers: a loop knows.
    case groupsTaken(token: UInt64)
    /// To a shard's loop: the shard's batches up to this serial are in the log, or one of them is not.
    case logged(serial: UInt64, failure: LogFailure?)
    /// To a shard's loop: whether so much waits for the log that nothing more may come, and whether it is away.
    case logIsFull(Bool, isAway: Bool)
    /// To a shard's loop: the partitions of the log that have no room, a bit for each.
    case logLacksRoom(UInt64)
    /// To a shard's loop: from where on a partition of the log is read.
    case logBegins(Int, LogPlaces.Place)
    /// To a shard's loop: a partition ends at this record, before some that was read of it.
    case logIsCut(Int, at: UInt64)
    /// To a shard's loop: a partition has come as far as it went when it was found.
    case logIsCurrent(Int)
    /// To a shard's loop: what stands in the log.
    case record(LogRecord)
    /// To the loop that speaks to the servers: a shard has worked off so many bytes of records, of which so many messages were illegible.
    case recordsTaken(byteCount: Int, illegible: Int)
    /// To a shard's loop: what is to become of a session.
    case session(SessionOrder)
    /// To the loop that speaks to the servers: a shard's session lacks these records.
    case spans(from: Int, [UInt8], [LogSpan])
    /// To that loop: a shard has worked off so many bytes of records that it was given again.
    case recordsReplayed(byteCount: Int)
    /// To a shard's loop: deal from now on what the log has for a node that is gone, which was done up to these records; all that it had before stands in
    /// the log once more; deal it no more.
    case dealsFor(NodeID, after: [UInt64])
    case hasDealt(for: NodeID)
    case dealsNoMoreFor(NodeID)
    /// To a shard's loop: a record that says what became of messages that were dealt to a node that is gone, until `forgetDealt`; and one that may have
    /// some for it.
    case learnDealt(LogRecord, by: NodeID)
    case dealAgain(LogRecord, for: NodeID)
    case forgetDealt(by: NodeID)
    /// To a shard's loop: what earlier incarnations of this node were dealt.
    case past(PastOrder)
    /// To a shard's loop: this node goes on as another one, in two steps, so that no loop has anything on its way to another when that begins.
    case endIncarnation(next: NodeID)
    case beginIncarnation(after: StoredDealing?)
    /// To the loop that speaks to the servers: this loop has.
    case incarnationEnded(StoredDealing?)
    case incarnationBegun(from: Int, past: StoredDealing?)
    /// To a shard's loop: say with `dealt` how far what was dealt is done, by partition.
    case sendDealt
    /// To the loop that speaks to the servers.
    case dealt(from: Int, [(through: UInt64, last: UInt64)])
    /// To a shard's loop, of retained messages: how many bytes one may have, whether too many changes wait, which ones are in the stream,
    /// and that it look for what is not.
    case retainedBytes(max: Int)
    case retainedIsFull(Bool)
    case retainedIsSafe(UInt64)
    case lookForStaleChanges
}

/// What a shard is to do about what earlier incarnations of its node were dealt, in this order.
package enum PastOrder: Sendable {
    /// The node that deals for one of those incarnations is known.
    case heir(of: NodeID, NodeID)
    /// A record in which those incarnations may have said whose it is.
    case learn(LogRecord)
    /// There is no other; and one in which others may have said so since.
    case follow(LogRecord)
    /// There is no other; and these are the incarnations whose part this node deals again.
    case known(won: Set<UInt64>)
    /// A record that may have some of it.
    case deal(LogRecord)
    /// There is no other.
    case settle
    /// Nobody leaves those incarnations anything any more.
    case end
}

/// What has become of other nodes' members of share groups.
package enum GroupsChange: Sendable {
    case told([ClusterGroup])
    case isGone(NodeID)
}

/// By what a node is let in by its cluster's servers, and by what it knows them: what may be another while the broker runs.
package struct ClusterCredentials: Sendable {
    package let login: NATSLogin?
    package let requiresTLS: Bool
    package let tls: TLSClientSettings
    /// What stood in the files of certificates and their key, which may be renewed under the same name.
    private let contents: [[UInt8]]

    package init(login: NATSLogin?, requiresTLS: Bool, tls: TLSClientSettings, contents: [[UInt8]]) {
        (self.login, self.requiresTLS, self.tls, self.contents) = (login, requiresTLS, tls, contents)
    }

    package func isSame(as other: ClusterCredentials) -> Bool {
        login == other.login && requiresTLS == other.requiresTLS && tls.authoritiesFile == other.tls.authoritiesFile
            && tls.certificateFile == other.tls.certificateFile && tls.keyFile == other.tls.keyFile && contents == other.contents
    }
}

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

/// A record of the cluster's log on its way to the shards.
package struct LogRecord: Sendable {
    package let partition: Int
    package let sequence: UInt64
    /// When the log took it, in milliseconds since 1970.
    package let storedAt: UInt64
    /// Whether it is this node's own.
    package let isOwn: Bool
    /// As it stands in the log; empty if it does not count.
    package let bytes: [UInt8]

    /// Bytes that it takes on its way.
    package var cost: Int { bytes.count + 100 }

    /// Gives a shard what stands in it.
    ///
    /// - Returns: how many messages could not be read.
    package func give(to shard: BrokerShard) -> Int {
        let illegible = forEach(of: shard) { shard.received($0, partition: partition, sequence: sequence, isOwn: isOwn) }
        if shard.hearsSteps(isOwn: isOwn) {
            forEachStep { shard.received($0, of: $1, partition: partition, sequence: sequence, isOwn: isOwn) }
        }
        shard.read(partition: partition, sequence: sequence)
        return illegible
    }

    /// Gives it once more, for sessions that lack it.
    func giveAgain(to shard: BrokerShard, for sessions: [[UInt8]]) {
        _ = forEach(of: shard) { shard.replay($0, partition: partition, sequence: sequence, for: sessions) }
        // What clients have sent to this incarnation of the node, it knows.
        forEachStep { step, session in
            guard !isOwn || step.isOfDelivery else { return }
            shard.replay(step, of: session, partition: partition, sequence: sequence, for: sessions)
        }
    }

    /// Has a shard deal again what it has for a node that is gone.
    package func dealAgain(to shard: BrokerShard, for node: NodeID) {
        _ = forEach(of: shard) { shard.dealAgain($0, partition: partition, sequence: sequence, for: node.rawValue) }
    }

    /// Has a shard know what became of messages that were dealt to a node that is gone.
    package func learnDealt(in shard: BrokerShard, by node: NodeID) {
        forEachStep { step, _ in shard.learnDealt(step, by: node.rawValue) }
        forEachPassedOn { shard.learnPassedOn($0, by: node.rawValue) }
    }

    /// Has a shard learn what earlier incarnations of this node have said of sessions in it; then what others have;
    /// then deal what it has for these incarnations.
    func learnPast(in shard: BrokerShard) {
        guard let writer else { return }
        forEachStep { shard.learnPast($0, of: $1, by: writer) }
        forEachPassedOn { shard.learnPast(passedOn: $0) }
    }

    func followPast(in shard: BrokerShard) {
        guard let writer else { return }
        forEachStep { shard.followPast($0, of: $1, by: writer) }
    }

    private var writer: UInt64? { bytes.withUnsafeBytes { Bundle($0)?.origin.node.rawValue } }

    func dealPast(to shard: BrokerShard) { _ = forEach(of: shard) { shard.dealPast($0, partition: partition, sequence: sequence) } }

    /// Calls `take` with each step of a QoS 2 flow, and its client's identifier.
    private func forEachStep(_ take: (FlowStep, UnsafeRawBufferPointer) -> Void) {
        bytes.withUnsafeBytes { bytes in
            _ = Bundle(bytes)?.forEach { entry in
                switch entry {
                case .receipt(let session, let receipt): take(FlowStep(receipt), session)
                case .delivery(let session, let delivery): take(FlowStep(delivery), session)
                case .message, .will, .dealt, .heir, .gone: return
                }
            }
        }
    }

    /// Calls `take` with the earlier name of each message that its node had passed on.
    private func forEachPassedOn(_ take: (MessageName) -> Void) {
        bytes.withUnsafeBytes { bytes in
            _ = Bundle(bytes)?.forEach { entry in
                if case .message(let message) = entry, message.nameBefore != 0 { take(MessageName(rawValue: message.nameBefore)) }
            }
        }
    }

    /// Calls `take` with each message that has not expired; it returns whether that was one.
    ///
    /// - Returns: how many messages could not be read.
    private func forEach(of shard: BrokerShard, _ take: (ClusterMessage) -> Bool) -> Int {
        var (illegible, count) = (0, 0)
        bytes.withUnsafeBytes { bytes in
            guard let bundle = Bundle(bytes) else { return }
            let wallClock = shard.now &+ shard.settings.wallClockOffsetMilliseconds
            let age = wallClock > storedAt ? wallClock - storedAt : 0
            let isWhole = bundle.forEach { entry in
                let (message, isWill): (BusMessage, Bool)
                switch entry {
                case .message(let some): (message, isWill) = (some, false)
                case .will(_, _, let some): (message, isWill) = (some, true)
                case .dealt, .heir, .gone, .receipt, .delivery: return
                }
                count += 1
                if let left = message.millisecondsLeft, left <= age { return }
                var given = ClusterMessage(
                    topic: message.topic, properties: message.properties, payload: message.payload, qos: message.qos,
                    retain: message.retain, expiresAt: message.millisecondsLeft.map { shard.now &+ ($0 - age) },
                    publisher: message.publisher, isLogged: true)
                (given.isWill, given.index) = (isWill, count - 1)
                if !message.logShares.isEmpty {
                    let shares = message.logShares.map { LoggedShare(node: $0.node.rawValue, group: $0.group, member: $0.member) }
                    var dealing = GroupDealing(shares: [], hops: message.hops, logged: shares)
                    dealing.before = MessageName(rawValue: message.nameBefore)
                    given.dealing = dealing
                }
                if !take(given) { illegible += 1 }
            }
            if !isWhole { illegible += 1 }
        }
        return illegible
    }

    package init(
        partition: Int, sequence: UInt64, storedAt: UInt64, isOwn: Bool, bytes: [UInt8]
    ) {
        self.partition = partition
        self.sequence = sequence
        self.storedAt = storedAt
        self.isOwn = isOwn
        self.bytes = bytes
    }
}

/// The steps of sessions, as the log has them.
extension FlowStep {
    init(_ receipt: LoggedReceipt) {
        self.init(
            receipt.digest.map { .received(digest: $0) } ?? (receipt.packetIdentifier == 0 ? .mark : .released),
            receipt.packetIdentifier,
            at: Place(epoch: receipt.epoch, number: receipt.number))
    }

    init(_ delivery: LoggedDelivery) {
        let name = delivery.name.map { MessageName(rawValue: $0) }
        self.init(
            name.map { delivery.packetIdentifier == 0 ? .dealt($0) : .sent($0) } ?? .acknowledged, delivery.packetIdentifier,
            at: Place(epoch: delivery.epoch, number: delivery.number))
        finished = delivery.finished
    }
}

extension SessionStep {
    /// Calls `body` with the entry of the log, which is valid during the call.
    package func withEntry(_ body: (Bundle.Entry) -> Void) {
        clientIdentifier.bytes.withUnsafeBytes { session in
            switch step.kind {
            case .received(let digest): body(.receipt(session: session, receipt(digest)))
            case .released, .mark: body(.receipt(session: session, receipt(nil)))
            case .sent(let name), .dealt(let name): body(.delivery(session: session, delivery(name.rawValue)))
            case .acknowledged: body(.delivery(session: session, delivery(nil)))
            }
        }
    }

    private func receipt(_ digest: UInt32?) -> LoggedReceipt {
        LoggedReceipt(
            epoch: step.place.epoch, number: step.place.number, packetIdentifier: step.packetIdentifier, digest: digest)
    }

    private func delivery(_ name: UInt64?) -> LoggedDelivery {
        LoggedDelivery(
            epoch: step.place.epoch, number: step.place.number, packetIdentifier: step.packetIdentifier, name: name,
            finished: step.finished)
    }
}
