import BrokerModel
import MQTTCodec

/// What share groups had dispatched to earlier incarnations of this node, of which nobody has said that it is done:
/// they were killed, or their leases have ended; and to nodes that are gone and that these dispatched for. What the log
/// says to be a session's is that; everything else is dispatched again, by this node or by the one that dispatches for
/// the incarnation.
///
///     learn ─► follow ─► isKnown ─► owed: a session's, which its queue lacks for want of a commit
///                           └──────► doubtful: in a queue, and not known to be that session's
final class EarlierDispatches {
    /// Of those incarnations, with as many partitions as the log has.
    private(set) var parts: [StoredDispatches.Part]
    /// By partition: up to where the part of each of them is known to be done.
    let after: [UInt64]
    /// Whether it is dispatched again, and only waits for the leases of the incarnations to end.
    var isSettled = false { didSet { if isSettled { forget() } } }
    /// The sessions, by their keys, whose clients wait: they would be sent what may be another's by now.
    private(set) var waiting: Set<UInt64> = []
    /// The incarnations whose part nobody else dispatches.
    private(set) var won: Set<UInt64> = []
    /// The sessions that hold what was dispatched to the earlier incarnations.
    private var holders = DispatchHolders()
    /// What other nodes have sent of that.
    private var sentElsewhere: Set<MessageName> = []
    /// What it says of the shard's own sessions.
    private var flows: [EncodedString: SentFlows] = [:]
    private var owed: [MessageName: Session] = [:]
    private var doubtful: [MessageName: Session] = [:]
    /// The messages that were given to the log for other nodes when the last lease ended, and may be there.
    private(set) var unheard: [RelogQueue.Entry]

    /// - Parameters:
    ///   - stored: the shard's row.
    ///   - partitions: of the log.
    ///   - sessions: of the shard, as they were restored.
    ///   - unheard: what was given to the log for other nodes.
    init(_ stored: StoredDispatches, partitions: Int, sessions: some Sequence<Session>, unheard: [RelogQueue.Entry] = []) {
        self.unheard = unheard
        let parts = stored.parts.map { part in
            var part = part
            part.done = (0..<partitions).map { $0 < part.done.count ? part.done[$0] : 0 }
            return part
        }
        self.parts = parts
        after = (0..<partitions).map { partition in parts.map { $0.done[partition] }.min() ?? 0 }
        for session in sessions where session.cluster.epoch > 0 {
            session.queue.forEach { if isOpen($0), $0.qos == .exactlyOnce { waiting.insert(session.key) } }
        }
    }

    /// Whether a share group has dispatched to it, and it was perhaps not done with.
    private func isOpen(_ entry: QueueEntry) -> Bool {
        guard entry.group != 0, entry.name.isDispatched, entry.name.partition < after.count else { return false }
        return entry.name.sequence(near: after[entry.name.partition]) > after[entry.name.partition]
    }

    /// Whether an incarnation is one of these, or another one of this node, which has this number.
    func isEarlier(_ incarnation: UInt64, of node: UInt64) -> Bool {
        incarnation >> 32 == node >> 32 || parts.contains { $0.incarnation == incarnation }
    }

    /// The log says which node dispatches for one of the incarnations.
    ///
    /// - Returns: whether it was not known.
    func learn(successorOf incarnation: UInt64, _ successor: UInt64) -> Bool {
        guard let place = parts.firstIndex(where: { $0.incarnation == incarnation }), parts[place].successor != successor else {
            return false
        }
        parts[place].successor = successor
        return true
    }

    /// A step that one of the incarnations has written.
    ///
    /// - Parameters:
    ///   - identifier: of whom.
    ///   - session: the shard's, as far as it has it.
    func learn(_ step: FlowStep, of identifier: UnsafeRawBufferPointer, _ session: Session?) {
        guard step.isOfDelivery else { return }
        holders.record(step, of: identifier)
        if let session, session.cluster.epoch > 0 { flows[session.clientIdentifier, default: SentFlows()].record(step) }
    }

    /// One of another incarnation, behind all of these: a message that it names may be another session's by then. What
    /// became there of a session before this node has got it counts; of one that has gone there since, what that has
    /// sent is not owed. Nothing else is kept of them, however long this node was away.
    ///
    /// - Parameters: as above.
    func follow(_ step: FlowStep, of identifier: UnsafeRawBufferPointer, _ session: Session?) {
        if let session, session.cluster.epoch > 0, step.place.epoch < session.cluster.epoch {
            flows[session.clientIdentifier, default: SentFlows()].record(step)
        }
        guard let name = step.name, isNoted(name) else { return }
        holders.record(step, of: identifier)
        if case .sent = step.kind { sentElsewhere.insert(name) }
    }

    /// This was passed on: it is nobody's here.
    func learnPassedOn(_ before: MessageName) { holders.recordPassedOn(before) }

    /// Whether the log says it to be some session's, or to be passed on.
    func isNoted(_ name: MessageName) -> Bool { holders.contains(name) }

    /// All steps are known.
    ///
    /// - Parameters:
    ///   - won: of which incarnations this node dispatches what is nobody's.
    ///   - sessions: of the shard.
    func isKnown(won: Set<UInt64>, sessions: some Sequence<Session>) {
        self.won = won
        unheard.removeAll { holders.isPassedOn($0.name) }
        for session in sessions where session.cluster.epoch > 0 {
            var said = flows.removeValue(forKey: session.clientIdentifier) ?? SentFlows()
            said.settle(holders.isOthers(than: session.clientIdentifier))
            var (queued, released): (Set<MessageName>, Set<UInt16>) = ([], [])
            session.queue.forEach { entry in
                if entry.state == .released { released.insert(entry.packetIdentifier) }
                guard entry.name.isDispatched else { return }
                queued.insert(entry.name)
                let isIts =
                    said.known.contains(entry.name) || said.dispatched[entry.name.asPublished]?.contains(entry.name) ?? false
                if isOpen(entry), !isIts { doubtful[entry.name] = session }
            }
            let unsent = said.unfinished.filter { $0.name.isDispatched && !released.contains($0.packetIdentifier) }.map(\.name)
            for name in said.dispatched.values.joined() + unsent where !queued.contains(name) && !sentElsewhere.contains(name) {
                owed[name] = session
            }
        }
    }

    /// Whether a message of a record is of the part of one of those incarnations, and was perhaps not done with.
    func isPart(_ share: LoggedShare, _ partition: Int, _ sequence: UInt64) -> Bool {
        parts.contains { $0.incarnation == share.node && partition < $0.done.count && sequence > $0.done[partition] }
    }

    /// The session that lacks a message which is its own; nil if none does. Asked once.
    func takeOwed(_ name: MessageName) -> Session? { owed.removeValue(forKey: name) }

    /// The session that has a message of which the log does not say that it is its own; nil if none has.
    func takeDoubtful(_ name: MessageName) -> Session? { doubtful.removeValue(forKey: name) }

    /// A message of the part of one of those incarnations is dispatched anew: nothing else becomes of it.
    func forgetUnheard(_ name: MessageName) { unheard.removeAll { $0.name == name } }

    func takeUnheard() -> [RelogQueue.Entry] {
        defer { unheard = [] }
        return unheard
    }

    private func forget() {
        (waiting, holders, sentElsewhere) = ([], DispatchHolders(), [])
        (flows, owed, doubtful) = ([:], [:], [:])
    }
}

/// The sessions that hold a share group's messages, as the log's steps say: a message belongs to the session that it
/// was dispatched to last, or that was sent it with QoS 2. A message that a session has not taken goes to another
/// session of the node, or, under another name, to another node. [MQTT-4.8.2-4 v5]
///
/// Steps come in any order.
struct DispatchHolders {
    private struct Holder {
        /// Of its step; `UInt64.max` for nobody.
        let number: UInt64
        /// The hash of its Client Identifier.
        let session: UInt64
    }

    private var holders: [MessageName: Holder] = [:]

    /// Whether it is anybody's, or was passed on.
    func contains(_ name: MessageName) -> Bool { holders[name] != nil }

    func isPassedOn(_ name: MessageName) -> Bool { holders[name]?.number == .max }

    /// Says of a message whether it is another session's, or nobody's.
    func isOthers(than session: EncodedString) -> (MessageName) -> Bool {
        let session = session.bytes.withUnsafeBytes(ClusterMessaging.clusterHashing.hash)
        return { holders[$0].map { $0.session != session } ?? false }
    }

    /// - Parameter session: its Client Identifier.
    mutating func record(_ step: FlowStep, of session: UnsafeRawBufferPointer) {
        guard let name = step.name, name.isDispatched, step.place.number >= holders[name]?.number ?? 0 else { return }
        holders[name] = Holder(number: step.place.number, session: ClusterMessaging.clusterHashing.hash(session))
    }

    /// It was passed on to another node.
    mutating func recordPassedOn(_ name: MessageName) { holders[name] = Holder(number: .max, session: 0) }
}

/// What the log says of the QoS 2 messages that a session's client was sent by nodes that are lost, and of what share
/// groups have dispatched to it.
///
/// Steps come in any order; of all that are known the answers follow.
struct SentFlows {
    /// A message that was sent and is not acknowledged, as far as anybody knows: it is sent again with its packet
    /// identifier.
    struct Unfinished: Equatable {
        let name: MessageName
        let packetIdentifier: UInt16
    }

    private var steps: [FlowStep] = []
    /// What nobody is to send for the first time: it was sent, or is done.
    private(set) var known: Set<MessageName> = []
    /// In the order in which they were sent.
    private(set) var unfinished: [Unfinished] = []
    /// Packet identifiers that the client may hold of messages that it has, or that nobody can send again: they are to
    /// be released.
    private(set) var released: [UInt16] = []
    /// What share groups have dispatched to it, and nobody has sent it with QoS 2, by the message as it was published.
    private(set) var dispatched: [MessageName: [MessageName]] = [:]

    mutating func record(_ step: FlowStep) { steps.append(step) }

    /// All steps are known.
    ///
    /// - Parameter isOthers: whether a message that a share group has dispatched to the session is another one's by
    ///   now.
    mutating func settle(_ isOthers: (MessageName) -> Bool) {
        var given: Set<MessageName> = []
        var flows: [UInt16: (name: MessageName, place: FlowStep.Place, isAcknowledged: Bool)] = [:]
        for step in steps.sorted(by: { $0.place < $1.place }) {
            for identifier in step.finished where flows[identifier]?.isAcknowledged == true { flows[identifier] = nil }
            switch step.kind {
            case .sent(let name):
                // One that was killed before it had sent it has chosen another identifier before.
                if !known.insert(name).inserted, name != .none {
                    for (identifier, flow) in flows where flow.name == name && !flow.isAcknowledged { flows[identifier] = nil }
                }
                flows[step.packetIdentifier] = (name, step.place, name == .none)
            case .acknowledged:
                flows[step.packetIdentifier] = (flows[step.packetIdentifier]?.name ?? .none, step.place, true)
            case .dispatched(let name): if !isOthers(name) { given.insert(name) }
            case .received, .released, .mark, .progress, .subscribed, .unsubscribed: continue
            }
        }
        known.remove(.none)
        for name in given.subtracting(known).sorted(by: { $0.rawValue < $1.rawValue }) {
            dispatched[name.asPublished, default: []].append(name)
        }
        steps = []
        unfinished = flows.filter { !$0.value.isAcknowledged }.sorted { $0.value.place < $1.value.place }
            .map { Unfinished(name: $0.value.name, packetIdentifier: $0.key) }
        released = flows.filter { $0.value.isAcknowledged }.keys.sorted()
    }

    /// What share groups have dispatched to it of a message, and was not asked about before.
    mutating func takeDispatched(_ message: MessageName) -> [MessageName] {
        dispatched.isEmpty ? [] : dispatched.removeValue(forKey: message) ?? []
    }

    /// Forgets what was dispatched and is not in the log any more.
    mutating func forgetDispatched() { dispatched = [:] }

    /// A message is not in the log any more, or stands before what is read of it, so that it was done: its packet
    /// identifier is all that is left.
    mutating func forget(_ flow: Unfinished) {
        unfinished.removeAll { $0 == flow }
        released.append(flow.packetIdentifier)
    }
}
