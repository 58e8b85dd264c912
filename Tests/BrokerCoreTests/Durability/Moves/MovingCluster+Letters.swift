import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What nodes ask and answer each other of sessions.
extension MovingCluster {
    func collect() {
        for node in nodes.indices {
            guard !lost.contains(node) else { continue }
            for (shard, note) in nodes[node].clusterNotes.dropFirst(taken[node]) {
                switch note {
                case .messages(let batch): if batch.logSerial != 0 { unlogged.append((node, shard, batch)) }
                case .fence(let token): nodes[node].cores[0].passedFence(token, of: shard)
                case .group(let name, let filter, let connected, let away, _):
                    tellMembers(
                        of: node, shard,
                        ClusterGroup(node: 0, number: 1, shareName: name, filter: filter, connected: connected, away: away))
                case .interest, .retained, .swept, .staleChanges: continue
                case .saves(let saved): save(saved, from: node)
                case .will(let identifier, let will): dueWills.append((node, identifier, will))
                case .willEnds(_, let name): endedWills.append(name)
                case .claim, .leaving, .arrived, .illegible, .lacksLog, .restored, .sessionEnded, .assumed, .wakes:
                    nodeMessages.append((node, shard, note))
                }
            }
            taken[node] = nodes[node].clusterNotes.count
            nodes[node].settle()
        }
    }

    /// Whatever is to be done, until nothing is.
    func run() {
        repeat {
            while step() {}
            let before = records.count
            if logs { log() }
            for node in readers.sorted() { read(node) }
            if settlesEarlierDispatches { settleAllEarlierDispatches() }
            collect()
            if nodeMessages.isEmpty, records.count == before, !logs || unlogged.isEmpty { return }
        } while true
    }

    /// One message; false if there is none.
    @discardableResult
    func step() -> Bool {
        collect()
        guard !nodeMessages.isEmpty else { return false }
        let nodeMessage = nodeMessages.removeFirst()
        hear(nodeMessage.node, nodeMessage.note)
        for node in nodes { node.settle() }
        return true
    }

    /// One message of some node.
    func step(using random: inout SeededGenerator) {
        collect()
        guard let node = nodeMessages.map(\.node).randomElement(using: &random),
            let place = nodeMessages.firstIndex(where: { $0.node == node })
        else { return }
        let nodeMessage = nodeMessages.remove(at: place)
        hear(nodeMessage.node, nodeMessage.note)
        for node in nodes where random.oneIn(2) { node.settle() }
    }

    func hear(_ node: Int, _ note: ToCluster) {
        switch note {
        case .claim(let claim): hear(claim, from: node)
        case .leaving(let identifier, let piece): hear(piece, of: identifier, from: node)
        case .arrived(let identifier, let number):
            guard let move = moves[identifier], move.to == node, let from = move.from else { return }
            core(from, identifier).received(.chunkTaken(identifier, number: number))
        case .illegible(let identifier):
            Issue.record("a piece cannot be read")
            core(node, identifier).received(.claimFailed(identifier, "a piece cannot be read."))
        case .lacksLog(let identifier): if replays { replay(identifier, at: node) }
        case .restored(let identifier):
            ending.remove(identifier)
            giveUp(identifier, at: node)
        case .sessionEnded(let identifier):
            ended.append(identifier)
            sessions[identifier]?.owners.remove(node)
        case .assumed(_, let isHere, let will): adoptions.append((node, isHere, will))
        case .wakes(let identifier, _, _): woken.append((node, identifier))
        case .interest, .group, .fence, .messages, .retained, .swept, .staleChanges, .saves, .will, .willEnds: return
        }
    }

    func hear(_ claim: SessionClaim, from node: Int) {
        let identifier = claim.identifier
        // What is under way serves the client as well.
        guard !ending.contains(identifier) else { return }
        if let earlier = moves.removeValue(forKey: identifier), earlier.to != node {
            core(earlier.to, identifier).received(.claimFailed(identifier, "its client has gone to another node."))
        }
        var record = sessions[identifier] ?? Record()
        let others = record.owners.subtracting([node])
        record.epoch += 1
        record.owners.insert(node)
        sessions[identifier] = record
        claims[identifier, default: [:]][node] = record.epoch
        if letsInEarly, claim.cleanStart {
            late += others.sorted().map { ($0, identifier, record.epoch) }
            return core(node, identifier).received(.sessionClaimed(identifier, .nowhere, epoch: record.epoch))
        }
        moves[identifier] = Move(
            to: node, epoch: record.epoch, cleanStart: claim.cleanStart, own: claim.hasSession ? claim.epoch : nil,
            unanswered: others)
        for other in others.sorted() {
            core(other, identifier).received(.sessionLeaves(identifier, cleanStart: claim.cleanStart))
            nodes[other].settle()
        }
        settle(identifier)
    }

    /// Has one node that has kept a session stop, whose client is in elsewhere, unless it has claimed that since; false
    /// if there is none.
    @discardableResult
    func askLate() -> Bool {
        guard !late.isEmpty else { return false }
        let (node, identifier, epoch) = late.removeFirst()
        guard claims[identifier]?[node] ?? 0 < epoch, !lost.contains(node) else { return true }
        core(node, identifier).received(.sessionLeaves(identifier, cleanStart: true))
        nodes[node].settle()
        sessions[identifier]?.owners.remove(node)
        return true
    }

    /// Asks once more for what is on its way: a node has begun anew.
    func askAgain(runs: Bool = true) {
        for (identifier, move) in moves.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            // What the claiming node's own shards have told, it knows before any answer.
            guard !nodeMessages.contains(where: { $0.node == move.to }) else { continue }
            moves[identifier]?.answers = [:]
            moves[identifier]?.from = nil
            let others = (sessions[identifier]?.owners ?? []).subtracting([move.to])
            moves[identifier]?.unanswered = others
            for other in others.sorted() {
                core(other, identifier).received(.sessionLeaves(identifier, cleanStart: move.cleanStart))
                nodes[other].settle()
            }
            settle(identifier)
        }
        if runs { run() }
    }

    func hear(_ piece: SessionChunk, of identifier: [UInt8], from node: Int) {
        guard let move = moves[identifier], move.to != node else { return }
        pieceCount += 1
        if move.from == node { return core(move.to, identifier).received(.sessionArrives(identifier, piece)) }
        guard move.unanswered.contains(node), piece.number == 0 else { return }
        moves[identifier]?.unanswered.remove(node)
        if piece.bytes.isEmpty { sessions[identifier]?.owners.remove(node) } else { moves[identifier]?.answers[node] = piece }
        settle(identifier)
    }

    /// Everybody has answered: who has kept it last has the newest.
    func settle(_ identifier: [UInt8]) {
        guard let move = moves[identifier], move.unanswered.isEmpty, move.from == nil else { return }
        let core = core(move.to, identifier)
        let newest = move.answers.max { ($0.value.epoch, $0.key) < ($1.value.epoch, $1.key) }
        if let saved = saved[identifier], !lost.isEmpty, saved.epoch > max(move.own ?? 0, newest?.value.epoch ?? 0),
            !move.cleanStart || SavedSession.isMember(state: saved.state)
        {
            return restore(identifier, at: move.to, epoch: move.epoch)
        }
        guard let newest, !move.cleanStart, move.own.map({ newest.value.epoch > $0 }) ?? true else {
            core.received(.sessionClaimed(identifier, move.own == nil || move.cleanStart ? .nowhere : .here, epoch: move.epoch))
            return giveUp(identifier, at: move.to)
        }
        moves[identifier]?.from = newest.key
        core.received(.sessionClaimed(identifier, .arriving, epoch: move.epoch))
        core.received(.sessionArrives(identifier, newest.value))
    }

    func restore(_ identifier: [UInt8], at node: Int, epoch: UInt64, isOver: Bool = false) {
        let core = core(node, identifier)
        core.received(.sessionClaimed(identifier, .arriving, epoch: epoch))
        var piece: SessionChunk?
        if let saved = saved[identifier] {
            var read = LogPositions(partitions: 1)
            read.places = core.logPositions
            var places = saved.places
            for step in progress(of: identifier, savedBy: saved.epoch, knownTo: node) {
                places = SavedSession.places(places, or: step, in: read)
            }
            piece = SavedSession.piece(state: saved.state, places: places, epoch: saved.epoch, isOver: isOver)
        }
        guard let piece else {
            Issue.record("what was saved is no piece")
            return
        }
        core.received(.sessionArrives(identifier, piece))
    }

    /// A node sees to it that a session ends whose node is lost, and whose time is over.
    func expire(_ identifier: [UInt8], at node: Int) {
        var record = sessions[identifier] ?? Record()
        record.epoch += 1
        record.owners = [node]
        sessions[identifier] = record
        ending.insert(identifier)
        restore(identifier, at: node, epoch: record.epoch, isOver: true)
        run()
        nodes[node].advance(milliseconds: 1000)
        run()
    }

    /// The session is up: who had it forgets it.
    func giveUp(_ identifier: [UInt8], at node: Int) {
        guard moves[identifier]?.to == node else { return }
        moves[identifier] = nil
        for other in sessions[identifier]?.owners ?? [] where other != node {
            core(other, identifier).received(.sessionGone(identifier))
        }
        sessions[identifier]?.owners = [node]
    }
}
