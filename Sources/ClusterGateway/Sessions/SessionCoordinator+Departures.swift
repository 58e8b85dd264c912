import BrokerCore
import Cluster
import NATSClient
import ServerLoops

/// Sessions that go to other nodes, and what nodes write to each other about them.
extension SessionCoordinator {
    // MARK: Messages

    /// Sends a message; one that is under way is not sent again.
    func send(_ nodeMessage: SessionMessage, to other: NodeID) {
        let sent = SentSessionMessage(node: other, nodeMessage: nodeMessage)
        guard let subject = Subject(space.sessions(to: other)), messages.begin(sent) else { return }
        connection.request(subject, payload: nodeMessage.encoded, within: Limits.sessionMessageMillisecondsMax) {
            [unowned self] answer in
            messages.end(sent)
            answered(nodeMessage, answer, by: other)
        }
    }

    /// Takes what another node has answered; of what has got lost, nothing.
    private func answered(_ nodeMessage: SessionMessage, _ answer: NATSAnswer, by other: NodeID) {
        var said: SessionAnswer?
        if case .message(let message) = answer { said = message.payload.withUnsafeBytes { SessionAnswer(reading: $0) } }
        let session = nodeMessage.identifier
        switch nodeMessage.kind {
        case .ask:
            if case .stopped(let offer, let hasSettledWills) = said {
                stopped(session, offer: offer, hasSettledWills: hasSettledWills, epoch: nodeMessage.epoch, by: other)
            }
        case .fetch: took(session, nodeMessage, said, from: other)
        case .drop:
            if said == .dropped {
                drops.remove(session, epoch: nodeMessage.epoch, store: other.store)
            }
        case .stay: return
        }
    }

    /// Takes a message, if it is one about sessions; false if it is not.
    func received(_ message: MessageView) -> Bool {
        if scan.received(message, now: now) { return true }
        guard message.subject.elementsEqual(subject) else { return false }
        // Servers ask for no right to publish there: whoever asks does not choose what a node writes to.
        guard message.reply.starts(with: "_INBOX.".utf8), let reply = Subject(message.reply),
            let nodeMessage = SessionMessage(reading: message.payload)
        else { return true }
        let session = nodeMessage.identifier
        switch nodeMessage.kind {
        case .ask(let cleanStart): asked(nodeMessage, cleanStart: cleanStart, reply)
        case .fetch(let offer, let number): fetched(session, offer: offer, number: number, reply)
        case .drop: dropped(nodeMessage, reply)
        case .stay:
            if sessions[session].going?.epoch == nodeMessage.epoch {
                sessions[session].going = nil
                post(.sessionStays(session), of: session)
            }
        }
        return true
    }

    private func reply(_ answer: SessionAnswer, to reply: Subject) {
        // What does not leave is asked for again.
        try? connection.publish(reply, payload: answer.encoded)
    }

    // MARK: What others ask

    private func asked(_ nodeMessage: SessionMessage, cleanStart: Bool, _ reply: Subject) {
        let session = nodeMessage.identifier
        if let departure = sessions[session].going {
            guard departure.epoch <= nodeMessage.epoch else { return }
            if departure.epoch == nodeMessage.epoch, departure.node == nodeMessage.node {
                sessions[session].going?.touchedAt = now
                if departure.piece == nil { sessions[session].going?.asker = reply } else { offer(departure, reply) }
                return
            }
        }
        guard owner != nil else { return depart(nodeMessage, cleanStart: cleanStart, reply) }
        // Who is on the way here has only what others have said.
        let isKept = sessions[session].coming?.hasSettledWills ?? (owner?.keeps(session) == true && !left.isHandling(session))
        left.notTaken(session)
        // An answer may have got lost.
        let hasSettled = isKept || wills.settled[session] == nodeMessage.epoch || sessions[session].going?.hasSettledWills == true
        if hasSettled { wills.settle(session, by: nodeMessage.epoch) }
        if owner?.askedToStop(session, epoch: nodeMessage.epoch, self) == true {
            depart(nodeMessage, cleanStart: cleanStart, reply)
        }
        sessions[session].going?.hasSettledWills = hasSettled
        // What is on its way here ends with what was answered, unless it is by a later claim, which may stand already:
        // who asks is asked then.
        guard sessions[session].going != nil, sessions[session].coming != nil,
            (owner?.writtenEpoch(of: session) ?? 0) <= nodeMessage.epoch
        else {
            return
        }
        overtake(session)
        owner?.release(session)
    }

    /// Has the shard stop acting for a session, and export it.
    private func depart(_ nodeMessage: SessionMessage, cleanStart: Bool, _ asker: Subject) {
        let session = nodeMessage.identifier
        drops.remove(session)
        forgetSaves(of: session)
        wills.ended.keep([], of: session)
        let held = sessions[session].going?.held
        sessions[session].going = OutgoingSession(
            node: nodeMessage.node, epoch: nodeMessage.epoch, offer: messages.nextOffer(), asker: asker, held: held,
            touchedAt: now)
        post(.sessionLeaves(session, cleanStart: cleanStart), of: session)
    }

    private func offer(_ departure: OutgoingSession, _ asker: Subject) {
        let offer = SessionAnswer.Offer(number: departure.offer, epoch: departure.keptBy)
        reply(.stopped(offer, hasSettledWills: departure.hasSettledWills), to: asker)
    }

    /// Takes a chunk of a session that the shard has stopped acting for.
    func leaving(_ session: [UInt8], _ piece: SessionChunk) {
        guard var departure = sessions[session].going else { return }
        if publishesWill(of: session) {
            sessions[session].going?.held = piece
            return
        }
        if piece.number == 0, piece.isLast, piece.bytes.isEmpty {
            sessions[session].going = nil
            if let asker = departure.asker { reply(.stopped(nil, hasSettledWills: departure.hasSettledWills), to: asker) }
            return
        }
        departure.piece = piece
        if piece.number == 0 { departure.keptBy = piece.epoch }
        departure.touchedAt = now
        if let asker = departure.asker { offer(departure, asker) }
        departure.asker = nil
        if let fetcher = departure.fetcher, fetcher.number == piece.number {
            give(piece, to: fetcher.reply)
            departure.fetcher = nil
        }
        sessions[session].going = departure
    }

    private func give(_ piece: SessionChunk, to fetcher: Subject) {
        reply(.piece(number: piece.number, isLast: piece.isLast, bytes: piece.bytes), to: fetcher)
    }

    private func fetched(_ session: [UInt8], offer: UInt64, number: Int, _ fetcher: Subject) {
        guard let departure = sessions[session].going, departure.offer == offer, let piece = departure.piece,
            number == piece.number || number == piece.number + 1
        else { return reply(.unknown, to: fetcher) }
        sessions[session].going?.touchedAt = now
        contested.isGiven(session, now: now)
        if number == piece.number { return give(piece, to: fetcher) }
        if departure.fetcher?.number != number { post(.chunkTaken(session, number: piece.number), of: session) }
        sessions[session].going?.fetcher = (fetcher, number)
    }

    private func dropped(_ nodeMessage: SessionMessage, _ asker: Subject) {
        let session = nodeMessage.identifier
        defer { reply(.dropped, to: asker) }
        if let departure = sessions[session].going {
            guard departure.epoch <= nodeMessage.epoch else { return }
            sessions[session].going = nil
            contested.isGiven(session, now: now)
            counters.given += 1
            return post(.sessionGone(session), of: session)
        }
        // It has come back here since.
        guard sessions[session].coming == nil, owner?.keeps(session) != true else { return }
        post(.sessionLeaves(session, cleanStart: false), of: session)
        post(.sessionGone(session), of: session)
    }

    /// Takes back sessions that another node has asked for and does not fetch, because it has gone away: they stay here
    /// as before.
    func tickExports() {
        for session in sessions.names(with: .going) {
            guard let departure = sessions[session].going, now >= departure.touchedAt + Limits.sessionExportMillisecondsMax else {
                continue
            }
            sessions[session].going = nil
            post(.sessionStays(session), of: session)
        }
    }

    private var subject: [UInt8] { space.sessions(to: node) }
}

/// A message about a session, with the node that it went to.
struct SentSessionMessage: Hashable {
    let node: NodeID
    let nodeMessage: SessionMessage
}

/// What was asked of other nodes, and what they are offered.
///
/// Belongs to a `SessionCoordinator`.
struct SessionMessages {
    private var underWay: Set<SentSessionMessage> = []
    private var lastOffer: UInt64

    /// A node that was started again knows nothing of what its earlier incarnation has offered.
    init(_ node: NodeID) { lastOffer = (node.rawValue & 0xffff_ffff) << 28 }

    /// Something is to be asked; returns whether it is not under way already.
    mutating func begin(_ message: SentSessionMessage) -> Bool { underWay.insert(message).inserted }

    /// It was answered, or got lost.
    mutating func end(_ message: SentSessionMessage) { underWay.remove(message) }

    /// Tells an offer from all others of this node.
    mutating func nextOffer() -> UInt64 {
        lastOffer += 1
        return lastOffer
    }
}

extension Limits {
    /// Milliseconds after which a session that another node has asked for, and does not fetch, is this node's again.
    static let sessionExportMillisecondsMax: UInt64 = 30_000
}
