import BrokerCore
import Cluster
import NATSClient
import ServerLoops

/// Sessions that go to other nodes, and what nodes write to each other about them.
extension SessionCoordinator {
    // MARK: Messages

    /// Sends a message, whose answer `messageAnswered` gets; one that is under way is not sent again.
    func send(_ nodeMessage: SessionMessage, to other: NodeID) {
        let sent = SentSessionMessage(node: other, nodeMessage: nodeMessage)
        guard let subject = Subject(space.sessions(to: other)), !messagesUnderWay.contains(sent) else { return }
        lastMessage += 1
        let token = Self.messageTokens | lastMessage
        do throws(NATSRefusal) {
            try connection.request(
                subject, payload: nodeMessage.encoded, token: token, within: Limits.sessionMessageMillisecondsMax)
            nodeMessages[token] = sent
            messagesUnderWay.insert(sent)
        } catch {
            // As if it had got lost.
            if case .fetch = nodeMessage.kind { took(nodeMessage.identifier, nodeMessage, nil, from: other) }
        }
    }

    func messageAnswered(_ token: UInt64, _ answer: NATSAnswer) {
        guard let sent = nodeMessages.removeValue(forKey: token) else { return }
        messagesUnderWay.remove(sent)
        let (other, nodeMessage) = (sent.node, sent.nodeMessage)
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
                drops.removeAll { $0.session == session && $0.epoch == nodeMessage.epoch && $0.store == other.store }
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
            if let departure = departures[session], departure.epoch == nodeMessage.epoch {
                departures[session] = nil
                post(.sessionStays(session), to: departure.shard)
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
        if let departure = departures[session] {
            guard departure.epoch <= nodeMessage.epoch else { return }
            if departure.epoch == nodeMessage.epoch, departure.node == nodeMessage.node {
                departures[session]?.touchedAt = now
                if departure.piece == nil { departures[session]?.asker = reply } else { offer(departure, reply) }
                return
            }
        }
        guard owner != nil else {
            return depart(session, to: nodeMessage.node, epoch: nodeMessage.epoch, reply, cleanStart: cleanStart)
        }
        // Who is on the way here has only what others have said.
        let isKept = visits[session]?.hasSettledWills ?? (owner?.keeps(session) == true && !left.isHandling(session))
        left.notTaken(session)
        // An answer may have got lost.
        let hasSettled = isKept || settledClaims[session] == nodeMessage.epoch || departures[session]?.hasSettledWills == true
        if hasSettled {
            settledClaims.insert(session, nodeMessage.epoch)
        }
        asker = (reply, cleanStart)
        owner?.askedToStop(session, by: nodeMessage.node, epoch: nodeMessage.epoch, self)
        asker = nil
        departures[session]?.hasSettledWills = hasSettled
        // What is on its way here ends with what was answered, unless it is by a later claim, which may stand already:
        // who asks is asked then.
        guard departures[session] != nil, visits[session] != nil, (owner?.writtenEpoch(of: session) ?? 0) <= nodeMessage.epoch
        else {
            return
        }
        overtake(session)
        owner?.release(session)
    }

    /// Has the shard stop acting for a session, and export it.
    func depart(_ session: [UInt8], to other: NodeID, epoch: UInt64, _ asker: Subject, cleanStart: Bool) {
        guard let shard = shard(of: session) else { return reply(.stopped(nil), to: asker) }
        drops.removeAll { $0.session == session }
        forgetSaves(of: session)
        endedWills.keep([], of: session)
        lastOffer += 1
        departures[session] = OutgoingSession(
            shard: shard, node: other, epoch: epoch, offer: lastOffer, asker: asker, touchedAt: now)
        post(.sessionLeaves(session, cleanStart: cleanStart), to: shard)
    }

    private func offer(_ departure: OutgoingSession, _ asker: Subject) {
        let offer = SessionAnswer.Offer(number: departure.offer, epoch: departure.keptBy)
        reply(.stopped(offer, hasSettledWills: departure.hasSettledWills), to: asker)
    }

    /// Takes a chunk of a session that the shard has stopped acting for.
    func leaving(_ session: [UInt8], _ piece: SessionChunk) {
        guard var departure = departures[session] else { return }
        if publishesWill(of: session) {
            heldLeavings[session] = piece
            return
        }
        if piece.number == 0, piece.isLast, piece.bytes.isEmpty {
            departures[session] = nil
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
        departures[session] = departure
    }

    private func give(_ piece: SessionChunk, to fetcher: Subject) {
        reply(.piece(number: piece.number, isLast: piece.isLast, bytes: piece.bytes), to: fetcher)
    }

    private func fetched(_ session: [UInt8], offer: UInt64, number: Int, _ fetcher: Subject) {
        guard let departure = departures[session], departure.offer == offer, let piece = departure.piece,
            number == piece.number || number == piece.number + 1
        else { return reply(.unknown, to: fetcher) }
        departures[session]?.touchedAt = now
        if number == piece.number { return give(piece, to: fetcher) }
        if departure.fetcher?.number != number { post(.chunkTaken(session, number: piece.number), to: departure.shard) }
        departures[session]?.fetcher = (fetcher, number)
    }

    private func dropped(_ nodeMessage: SessionMessage, _ asker: Subject) {
        let session = nodeMessage.identifier
        defer { reply(.dropped, to: asker) }
        if let departure = departures[session] {
            guard departure.epoch <= nodeMessage.epoch else { return }
            departures[session] = nil
            counters.given += 1
            return post(.sessionGone(session), to: departure.shard)
        }
        // It has come back here since.
        guard visits[session] == nil, owner?.keeps(session) != true, let shard = shard(of: session) else { return }
        post(.sessionLeaves(session, cleanStart: false), to: shard)
        post(.sessionGone(session), to: shard)
    }

    /// Takes back sessions that another node has asked for and does not fetch, because it has gone away: they stay here
    /// as before.
    func tickExports() {
        for (session, departure) in departures where now >= departure.touchedAt + Limits.sessionExportMillisecondsMax {
            departures[session] = nil
            post(.sessionStays(session), to: departure.shard)
        }
    }

    private var subject: [UInt8] { space.sessions(to: node) }

    /// Numbers of requests that are messages.
    private static let messageTokens: UInt64 = 1 << 60 | SessionRecords.messagesBit

    static func isMessage(_ token: UInt64) -> Bool { token >> 59 == 3 }
}

/// A message about a session, with the node that it went to.
struct SentSessionMessage: Hashable {
    let node: NodeID
    let nodeMessage: SessionMessage
}

extension Limits {
    /// Milliseconds after which a session that another node has asked for, and does not fetch, is this node's again.
    static let sessionExportMillisecondsMax: UInt64 = 30_000
}
