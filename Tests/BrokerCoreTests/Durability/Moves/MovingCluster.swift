import BrokerCore
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Nodes of a cluster whose sessions move. The test plays everything between them: the log, the records that say who keeps a session, and the
/// letters, of which it may hold some back.
final class MovingCluster {
    struct Logged {
        let topic: [UInt8]
        let properties: [UInt8]
        let payload: [UInt8]
        let qos: QoS
        let publisher: UInt64
        /// Whose turn it is in share groups.
        var dealing: GroupDealing?
        /// Of a will, which reaches all sessions from the log.
        var willOf: Int?
    }

    /// What a record says of packet identifiers, and which run of which node has written it.
    struct Steps {
        let node: Int
        let run: Int
        let steps: [SessionStep]
    }

    /// A claim that is not settled.
    struct Move {
        let to: Int
        let epoch: UInt64
        let cleanStart: Bool
        /// Whether the claiming node has something itself, and by which claim.
        let own: UInt64?
        /// What those who were asked have answered first; those that have nothing are not in it.
        var answers: [Int: SessionPiece] = [:]
        var unanswered: Set<Int>
        /// Who gives it.
        var from: Int?
    }

    /// What the cluster knows of a session.
    struct Record {
        var epoch: UInt64 = 0
        /// Who has kept it and may have it still.
        var keepers: Set<Int> = []
    }

    var nodes: [SimulatedBroker]
    /// What the log has, by number from 1 on.
    private(set) var records: [[Logged]] = []
    private var steps: [Steps] = []
    /// How often each node was started, and how far the log went then.
    private var runs: [Int]
    private var ends: [Int]
    /// Up to where each run of each node has said to be done with what share groups have dealt it, and up to where the present one will say next.
    private var told: [[UInt64]]
    /// The first run of each node for which nobody deals; and, by its number, which run deals for one.
    private var firstRun: [Int]
    private var heirs: [UInt64: UInt64] = [:]
    /// The last run that has begun to deal for each.
    private var begun: [UInt64: UInt64] = [:]
    private var earlier: [UInt64]
    private let deals: Bool
    var sessions: [[UInt8]: Record] = [:]
    var moves: [[UInt8]: Move] = [:]
    /// Sessions that are taken up because they are over.
    private var ending: Set<[UInt8]> = []
    /// What the shards have told and nobody has heard, in order.
    var letters: [(node: Int, shard: Int, note: ClusterNote)] = []
    /// Batches that are not in the log.
    private var unlogged: [(node: Int, shard: Int, batch: MailBatch)] = []
    /// Those of nodes that are cut off, which hear nothing of them.
    private var unheard: [(node: Int, shard: Int, batch: MailBatch)] = []
    /// By node and group: what its shards have told last of its members.
    private var memberships: [[[UInt8]: [Int: ClusterGroup]]]
    private var taken: [Int]
    /// Whether `run` puts into the log what was published, and which nodes read it.
    var logs = true
    var readers: Set<Int>
    /// Whether it settles what nodes had been dealt before they were killed.
    var settlesPasts = true
    /// Whether `run` gives sessions what they lack.
    var replays = true
    /// Nodes that are not there.
    private var lost: Set<Int> = []
    /// What the cluster has stored of sessions, and what it has not.
    private(set) var saved: [[UInt8]: (epoch: UInt64, state: [UInt8], places: [UInt8])] = [:]
    private var unstored: [(node: Int, saved: SavedSession)] = []
    var storesSaves = true
    private(set) var savedCount = 0
    /// What shards have given of wills: those that are due, and what each session's record has.
    private(set) var dueWills: [(node: Int, identifier: [UInt8], will: SavedWill)] = []
    private var logged: Set<SavedWill.Name> = []
    private(set) var wills: [[UInt8]: SavedWill] = [:]
    private(set) var awaySince: [[UInt8]: UInt64] = [:]
    private(set) var adoptions: [(node: Int, isHere: Bool, will: SavedWill.Name?)] = []
    private(set) var woken: [(node: Int, identifier: [UInt8])] = []
    /// Wills that are not to be published any more.
    private(set) var endedWills: [SavedWill.Name] = []
    /// What came of it.
    private(set) var pieceCount = 0
    private(set) var replayedCount = 0
    private(set) var firstReplayed: UInt64?
    private(set) var ended: [[UInt8]] = []
    private let partition = 0

    /// - Parameter deals: whether share groups have members on all nodes, and are dealt what the log has; else each node has its own.
    init(nodes count: Int = 2, shards: Int = 1, deals: Bool = false, change: (inout BrokerSettings) -> Void = { _ in }) {
        self.deals = deals
        nodes = (0..<count).map {
            SimulatedBroker(
                shards: shards, settings: SimulatedBroker.testSettings(change), seed: UInt64($0 + 1),
                store: SimulatedStore(seed: UInt64($0 + 10)))
        }
        taken = Array(repeating: 0, count: count)
        (runs, ends) = (taken, taken)
        told = Array(repeating: [0], count: count)
        firstRun = taken
        earlier = taken.map { UInt64($0) }
        readers = Set(0..<count)
        memberships = Array(repeating: [:], count: count)
        for node in 0..<count {
            join(node)
            for core in nodes[node].cores { core.logBegins(0, after: LogPlaces.Place(sequence: 0, stream: 5)) }
            nodes[node].settle()
        }
    }

    deinit { for node in nodes { node.powerOff() } }

    private func join(_ node: Int) {
        for core in nodes[node].cores {
            core.joinCluster(logPartitions: 1, claimsSessions: true, node: number(of: node))
            core.clusterIsAway(false)
        }
    }

    /// A power cut of a node, and a start on what its store has.
    ///
    /// - Parameters:
    ///   - committing: how many batches reach its disk all the same.
    ///   - logsSome: whether what it had published reaches the log, of which it hears nothing.
    func crash(_ node: Int, committing: Int = 0, logsSome: Bool = false) {
        cut(node, logsSome: logsSome)
        tellGone(node, run: runs[node])
        start(node, committing: committing)
    }

    /// A node is killed, and stays away, or cannot be reached.
    ///
    /// - Parameter logsSome: whether what it had published reaches the log, of which it hears nothing.
    func cut(_ node: Int, logsSome: Bool = false) {
        collect()
        if logsSome { for (of, _, batch) in unlogged where of == node { append(batch, from: node) } }
        unheard += unlogged.filter { $0.node == node }
        lost.insert(node)
        readers.remove(node)
        letters.removeAll { $0.node == node }
        unlogged.removeAll { $0.node == node }
        unstored.removeAll { $0.node == node }
    }

    /// A node that could not be reached until its lease had ended goes on as another run.
    ///
    /// - Parameter staying: whether its clients may stay.
    func goOn(_ node: Int, staying: Bool = false) {
        if !staying { for core in nodes[node].cores { core.fenceClients("the lease has ended") } }
        nodes[node].settle()
        // Nobody hears what became of what it has said last.
        collect()
        for (of, shard, batch) in unheard + unlogged where of == node {
            nodes[node].cores[shard].logFailed(through: batch.logSerial, isRefused: false)
        }
        nodes[node].settle()
        beginRun(node)
        let parts = nodes[node].cores.compactMap { $0.endClusterRun(next: number(of: node)) }
        nodes[node].settle()
        for core in nodes[node].cores { core.beginClusterRun(after: parts.dropFirst().reduce(parts[0]) { $0.union($1) }) }
        nodes[node].settle()
        // Nothing that it has said in between counts.
        collect()
        for (of, shard, batch) in unheard + unlogged where of == node {
            nodes[node].cores[shard].logFailed(through: batch.logSerial, isRefused: false)
            nodes[node].settle()
        }
        unheard.removeAll { $0.node == node }
        unlogged.removeAll { $0.node == node }
        for other in nodes.indices where deals && other != node && !lost.contains(other) {
            tellAllMembers(of: node, to: other)
            tellAllMembers(of: other, to: node)
        }
        nodes[node].settle()
    }

    private func beginRun(_ node: Int) {
        lost.remove(node)
        readers.insert(node)
        runs[node] += 1
        // What the others had read when it came may have been dealt to it from then on.
        told[node].append(UInt64(records.count))
        earlier[node] = 0
        for (identifier, move) in moves where move.to == node { moves[identifier] = nil }
    }

    /// A node that was killed starts on what its store has.
    ///
    /// - Parameter committing: how many batches had reached its disk, of those that had not been told to be there.
    func start(_ node: Int, committing: Int = 0) {
        beginRun(node)
        unheard.removeAll { $0.node == node }
        memberships[node] = [:]
        ends[node] = records.count
        nodes[node] = nodes[node].crashed(committing: committing)
        taken[node] = 0
        join(node)
        nodes[node].settle()
        for other in nodes.indices where deals && other != node && !lost.contains(other) { tellAllMembers(of: other, to: node) }
    }

    /// Of a node's present run.
    private func number(of node: Int) -> UInt64 { number(of: node, run: runs[node]) }

    private func number(of node: Int, run: Int) -> UInt64 { deals ? UInt64(node + 1) << 32 | UInt64(run + 1) : 0 }

    /// Nodes that are there and may have a client's session.
    func keepers(of client: TestClient) -> [Int] {
        (sessions[Array(client.identifier.bytes)]?.keepers ?? []).subtracting(lost).sorted()
    }

    func core(_ node: Int, _ identifier: [UInt8]) -> BrokerShard {
        let name = EncodedString(identifier) ?? ""
        return nodes[node].cores[nodes[node].shard(of: name)]
    }

    // MARK: What is saved

    /// The cluster stores what a node gives, if that keeps the session.
    private func save(_ saved: SavedSession, from node: Int) {
        guard !lost.contains(node) else { return }
        savedCount += 1
        guard storesSaves else { return unstored.append((node, saved)) }
        store(saved, from: node)
    }

    private func store(_ saved: SavedSession, from node: Int) {
        guard sessions[saved.identifier]?.epoch == saved.epoch else { return }
        if saved.state != nil { (wills[saved.identifier], awaySince[saved.identifier]) = (saved.will, saved.awaySince) }
        let earlier = self.saved[saved.identifier]
        let state = saved.state ?? earlier?.state ?? []
        let places = saved.places ?? earlier?.places
        self.saved[saved.identifier] = state.isEmpty ? nil : places.map { (saved.epoch, state, $0) }
        core(node, saved.identifier).sessionSaved(saved.identifier, number: saved.number)
    }

    /// Stores what was held back.
    func storeSaves() {
        storesSaves = true
        let all = unstored
        unstored = []
        for (node, saved) in all where !lost.contains(node) { store(saved, from: node) }
        run()
    }

    /// Each node's sessions give how far they have got.
    func savePlaces() {
        for node in nodes.indices where !lost.contains(node) {
            for core in nodes[node].cores { core.savePlaces() }
            nodes[node].settle()
            let all = nodes[node].cores.map { $0.dealt(partition) }
            told[node][runs[node]] = max(told[node][runs[node]], earlier[node])
            earlier[node] = min(all.map(\.through).min() ?? 0, all.map(\.last).max() ?? 0)
        }
        run()
    }

    /// A node is gone for good, with its disk.
    ///
    /// - Parameter logsSome: whether what it had published reaches the log, of which it hears nothing.
    func lose(_ node: Int, logsSome: Bool = false) {
        cut(node, logsSome: logsSome)
        for identifier in sessions.keys { sessions[identifier]?.keepers.remove(node) }
    }

    /// The lease of a node that is lost has ended, or those of its runs before the present one: the others know, and one of them deals what these were
    /// not done with.
    ///
    /// - Parameter runs: whether that reaches the log at once.
    func inherit(_ node: Int, by heir: Int, runs goesOn: Bool = true) {
        read(heir)
        let ended = firstRun[node]..<(lost.contains(node) ? runs[node] + 1 : runs[node])
        for run in ended { tellGone(node, run: run) }
        for run in ended where heirs[number(of: node, run: run)] == nil {
            // What this one dealt for others goes with its own part.
            let gone = number(of: node, run: run)
            let all = [gone] + heirs.keys.filter { dealer(for: $0) == gone }.sorted()
            heirs[gone] = number(of: heir)
            for run in all { inherit(run, by: heir) }
        }
        firstRun[node] = ended.upperBound
        if !lost.contains(node) { for core in nodes[node].cores { core.endPast() } }
        nodes[heir].settle()
        if goesOn { run() }
    }

    /// Whose the part of a run is.
    private func dealer(for run: UInt64) -> UInt64 {
        var last = run
        while let heir = heirs[last], heir != last { last = heir }
        return last
    }

    private func inherit(_ gone: UInt64, by heir: Int) {
        begun[gone] = number(of: heir)
        let done = told[Int(gone >> 32) - 1][Int(gone & 0xffff_ffff) - 1]
        let span = Int(done)..<records.count
        for core in nodes[heir].cores {
            core.dealsFor(gone, after: [done])
            for sequence in span {
                for said in steps[sequence].steps { core.learnDealt(said.step, by: gone) }
                for before in passedOn(sequence) { core.learnPassedOn(before, by: gone) }
            }
            for sequence in span {
                for (index, message) in records[sequence].enumerated() {
                    Self.give(message, index) {
                        #expect(core.dealAgain($0, partition: partition, sequence: UInt64(sequence + 1), for: gone))
                    }
                }
            }
            core.forgetDealt(by: gone)
        }
    }

    /// What the messages of a record were before that were passed on.
    private func passedOn(_ index: Int) -> [MessageName] {
        records[index].compactMap(\.dealing).map(\.before).filter { $0 != .none }
    }

    /// Nodes that were killed and have read all of the log settle what they had been dealt before.
    private func settlePasts() {
        for node in readers.sorted() {
            let cores = nodes[node].cores
            let pasts = cores.compactMap(\.unsettledPast)
            guard !pasts.isEmpty, cores.allSatisfy({ ($0.logPlaces[partition]?.sequence ?? 0) == UInt64(records.count) }) else {
                continue
            }
            let parts = pasts.dropFirst().reduce(pasts[0]) { $0.union($1) }.parts
            for part in parts where heirs[part.run] == nil { heirs[part.run] = number(of: node) }
            let won = parts.filter { dealer(for: $0.run) == number(of: node) && begun[$0.run] != number(of: node) }
            let span = Int(parts.map { $0.done[partition] }.min() ?? 0)..<records.count
            for core in cores {
                for part in parts { core.learnPast(heirOf: part.run, heirs[part.run] ?? 0) }
                for part in won { core.dealsFor(part.run, after: part.done) }
                for sequence in span {
                    let writer = number(of: steps[sequence].node, run: steps[sequence].run)
                    giveSteps(sequence + 1) { core.learnPast($0, of: $1, by: writer) }
                    for before in passedOn(sequence) { core.learnPast(passedOn: before) }
                }
                for sequence in span {
                    let writer = number(of: steps[sequence].node, run: steps[sequence].run)
                    giveSteps(sequence + 1) { core.followPast($0, of: $1, by: writer) }
                }
                core.pastIsKnown(won: Set(won.map(\.run)))
            }
            for core in cores {
                for sequence in span {
                    for (index, message) in records[sequence].enumerated() {
                        Self.give(message, index) {
                            #expect(core.dealPast($0, partition: partition, sequence: UInt64(sequence + 1)))
                        }
                    }
                }
                core.settlePast()
            }
            nodes[node].settle()
        }
    }

    /// A run of a node has ended: the others hear of it.
    private func tellGone(_ node: Int, run: Int) {
        for other in nodes.indices where deals && other != node && !lost.contains(other) {
            for core in nodes[other].cores { core.clusterNodeIsGone(number(of: node, run: run)) }
            nodes[other].settle()
        }
    }

    /// A shard's members of a share group have changed: the others hear of it.
    private func tellMembers(of node: Int, _ shard: Int, _ group: ClusterGroup) {
        let name = group.shareName + [0] + group.filter
        memberships[node][name, default: [:]][shard] = group
        for other in nodes.indices where deals && other != node && !lost.contains(other) {
            tellMembers(of: node, name, to: other)
        }
    }

    /// How many members of share groups the others know a node to have, by the groups' filters.
    func membersTold(of node: Int) -> [String: Int] {
        var counts: [String: Int] = [:]
        for parts in memberships[node].values {
            for (_, group) in parts {
                counts[String(decoding: group.filter, as: UTF8.self), default: 0] += group.connected + group.away
            }
        }
        return counts
    }

    private func tellAllMembers(of node: Int, to other: Int) {
        for name in memberships[node].keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            tellMembers(of: node, name, to: other)
        }
    }

    private func tellMembers(of node: Int, _ name: [UInt8], to other: Int) {
        guard let parts = memberships[node][name]?.values, var group = parts.first else { return }
        (group.node, group.number, group.readsLog) = (number(of: node), 1, true)
        (group.connected, group.away) = (parts.map(\.connected).reduce(0, +), parts.map(\.away).reduce(0, +))
        for core in nodes[other].cores { core.received(group) }
        nodes[other].settle()
    }

    // MARK: The log

    /// Puts what was published into the log.
    func log() {
        collect()
        let due = dueWills.filter { logged.insert($0.will.name).inserted }
        for (node, _, will) in due {
            records.append([
                Logged(
                    topic: will.topic, properties: will.properties, payload: will.payload, qos: will.qos, publisher: will.publisher,
                    willOf: node)
            ])
            steps.append(Steps(node: node, run: runs[node], steps: []))
        }
        let batches = unlogged
        unlogged = []
        for (node, shard, batch) in batches {
            append(batch, from: node)
            nodes[node].cores[shard].logged(through: batch.logSerial)
            nodes[node].settle()
        }
    }

    /// The same of some of a node's batches, the oldest ones.
    func log(someOf node: Int, using random: inout SeededGenerator) {
        collect()
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            guard let place = unlogged.firstIndex(where: { $0.node == node }) else { return }
            let (_, shard, batch) = unlogged.remove(at: place)
            append(batch, from: node)
            nodes[node].cores[shard].logged(through: batch.logSerial)
            if random.oneIn(2) { nodes[node].settle() }
        }
    }

    private func append(_ batch: MailBatch, from node: Int) {
        var record: [Logged] = []
        var said: [SessionStep] = []
        batch.forEachMessage { message in
            guard message.isLogged else { return }
            record.append(
                Logged(
                    topic: Array(message.topic), properties: Array(message.properties), payload: Array(message.payload),
                    qos: message.qos, publisher: message.publisher, dealing: message.dealing))
            if let step = message.step { said.append(step) }
        }
        batch.forEachLoneStep { said.append($0) }
        guard !record.isEmpty || !said.isEmpty else { return }
        records.append(record)
        steps.append(Steps(node: node, run: runs[node], steps: said))
    }

    /// The messages of the first records are not in the log any more.
    func forgetRecords(before last: Int) { for index in 0..<last { records[index] = [] } }

    /// What nobody has written is not in the log; who waits for that hears nothing.
    func loseUnlogged() { unlogged = [] }

    /// Gives a node's shards what they have not read, up to a record.
    func read(_ node: Int, through last: Int = .max) {
        for core in nodes[node].cores {
            guard let place = core.logPlaces[partition] else { continue }
            var next = Int(place.sequence) + 1
            while next <= min(last, records.count), core.takesLog {
                for (index, message) in records[next - 1].enumerated() {
                    let isOwn = message.willOf == node
                    Self.give(message, index) {
                        #expect(core.received($0, partition: partition, sequence: UInt64(next), isOwn: isOwn))
                    }
                }
                let isOwn = isOwn(next, at: node)
                giveSteps(next) { core.received($0, of: $1, partition: partition, sequence: UInt64(next), isOwn: isOwn) }
                core.read(partition: partition, sequence: UInt64(next))
                next += 1
            }
            if next > ends[node] { core.logIsCurrent(partition) }
        }
        nodes[node].settle()
    }

    /// Whether a record is of the present run of a node.
    private func isOwn(_ number: Int, at node: Int) -> Bool {
        steps[number - 1].node == node && steps[number - 1].run == runs[node]
    }

    private func giveSteps(_ number: Int, _ body: (FlowStep, UnsafeRawBufferPointer) -> Void) {
        for said in steps[number - 1].steps { said.clientIdentifier.bytes.withUnsafeBytes { body(said.step, $0) } }
    }

    private static func give(_ logged: Logged, _ index: Int, _ body: (ClusterMessage) -> Void) {
        logged.topic.withUnsafeBytes { topic in
            logged.properties.withUnsafeBytes { properties in
                logged.payload.withUnsafeBytes { payload in
                    var message = ClusterMessage(
                        topic: topic, properties: properties, payload: payload, qos: logged.qos, retain: false, expiresAt: nil,
                        publisher: logged.publisher, isLogged: true)
                    (message.isWill, message.index, message.dealing) = (logged.willOf != nil, index, logged.dealing)
                    body(message)
                }
            }
        }
    }

    /// Gives a session what it lacks, some records or all.
    func replay(_ identifier: [UInt8], at node: Int, countMax: Int = .max) {
        let core = core(node, identifier)
        var left = countMax
        for span in core.replayNeeded(identifier) {
            for sequence in span.after + 1...span.through {
                guard left > 0 else { return nodes[node].settle() }
                left -= 1
                replayedCount += 1
                firstReplayed = min(firstReplayed ?? sequence, sequence)
                for (index, message) in records[Int(sequence) - 1].enumerated() {
                    Self.give(message, index) {
                        #expect(core.replay($0, partition: partition, sequence: sequence, for: [identifier]))
                    }
                }
                let isOwn = isOwn(Int(sequence), at: node)
                giveSteps(Int(sequence)) { step, session in
                    guard !isOwn || step.isOfDelivery else { return }
                    core.replay(step, of: session, partition: partition, sequence: sequence, for: [identifier])
                }
                if sequence % 3 == 0 { nodes[node].settle() }
            }
        }
        core.replayed(identifier)
        nodes[node].settle()
    }

    // MARK: Letters

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
                case .claim, .leaving, .arrived, .illegible, .lacksLog, .restored, .sessionEnded, .adopted, .wakes:
                    letters.append((node, shard, note))
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
            if settlesPasts { settlePasts() }
            collect()
            if letters.isEmpty, records.count == before, !logs || unlogged.isEmpty { return }
        } while true
    }

    /// One letter; false if there is none.
    @discardableResult
    func step() -> Bool {
        collect()
        guard !letters.isEmpty else { return false }
        let letter = letters.removeFirst()
        hear(letter.node, letter.note)
        for node in nodes { node.settle() }
        return true
    }

    /// One letter of some node.
    func step(using random: inout SeededGenerator) {
        collect()
        guard let node = letters.map(\.node).randomElement(using: &random),
            let place = letters.firstIndex(where: { $0.node == node })
        else { return }
        let letter = letters.remove(at: place)
        hear(letter.node, letter.note)
        for node in nodes where random.oneIn(2) { node.settle() }
    }

    private func hear(_ node: Int, _ note: ClusterNote) {
        switch note {
        case .claim(let claim): hear(claim, from: node)
        case .leaving(let identifier, let piece): hear(piece, of: identifier, from: node)
        case .arrived(let identifier, let number):
            guard let move = moves[identifier], move.to == node, let from = move.from else { return }
            core(from, identifier).pieceTaken(identifier, number: number)
        case .illegible(let identifier):
            Issue.record("a piece cannot be read")
            core(node, identifier).claimFailed(identifier, "a piece cannot be read.")
        case .lacksLog(let identifier): if replays { replay(identifier, at: node) }
        case .restored(let identifier):
            ending.remove(identifier)
            giveUp(identifier, at: node)
        case .sessionEnded(let identifier):
            ended.append(identifier)
            sessions[identifier]?.keepers.remove(node)
        case .adopted(_, let isHere, let will): adoptions.append((node, isHere, will))
        case .wakes(let identifier, _, _): woken.append((node, identifier))
        case .interest, .group, .fence, .messages, .retained, .swept, .staleChanges, .saves, .will, .willEnds: return
        }
    }

    private func hear(_ claim: SessionClaim, from node: Int) {
        let identifier = claim.identifier
        // What is under way serves the client as well.
        guard !ending.contains(identifier) else { return }
        if let earlier = moves.removeValue(forKey: identifier), earlier.to != node {
            core(earlier.to, identifier).claimFailed(identifier, "its client has gone to another node.")
        }
        var record = sessions[identifier] ?? Record()
        let others = record.keepers.subtracting([node])
        record.epoch += 1
        record.keepers.insert(node)
        sessions[identifier] = record
        moves[identifier] = Move(
            to: node, epoch: record.epoch, cleanStart: claim.cleanStart, own: claim.hasSession ? claim.epoch : nil,
            unanswered: others)
        for other in others.sorted() {
            core(other, identifier).sessionLeaves(identifier, cleanStart: claim.cleanStart)
            nodes[other].settle()
        }
        settle(identifier)
    }

    /// Asks once more for what is on its way: a node has begun anew.
    func askAgain(runs: Bool = true) {
        for (identifier, move) in moves.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            // What the claiming node's own shards have told, it knows before any answer.
            guard !letters.contains(where: { $0.node == move.to }) else { continue }
            moves[identifier]?.answers = [:]
            moves[identifier]?.from = nil
            let others = (sessions[identifier]?.keepers ?? []).subtracting([move.to])
            moves[identifier]?.unanswered = others
            for other in others.sorted() {
                core(other, identifier).sessionLeaves(identifier, cleanStart: move.cleanStart)
                nodes[other].settle()
            }
            settle(identifier)
        }
        if runs { run() }
    }

    private func hear(_ piece: SessionPiece, of identifier: [UInt8], from node: Int) {
        guard let move = moves[identifier], move.to != node else { return }
        pieceCount += 1
        if move.from == node { return core(move.to, identifier).sessionArrives(identifier, piece) }
        guard move.unanswered.contains(node), piece.number == 0 else { return }
        moves[identifier]?.unanswered.remove(node)
        if piece.bytes.isEmpty { sessions[identifier]?.keepers.remove(node) } else { moves[identifier]?.answers[node] = piece }
        settle(identifier)
    }

    /// Everybody has answered: who has kept it last has the newest.
    private func settle(_ identifier: [UInt8]) {
        guard let move = moves[identifier], move.unanswered.isEmpty, move.from == nil else { return }
        let core = core(move.to, identifier)
        let newest = move.answers.max { ($0.value.epoch, $0.key) < ($1.value.epoch, $1.key) }
        if let saved = saved[identifier], !lost.isEmpty, saved.epoch > max(move.own ?? 0, newest?.value.epoch ?? 0),
            !move.cleanStart || SavedSession.isMember(state: saved.state)
        {
            return restore(identifier, at: move.to, epoch: move.epoch)
        }
        guard let newest, !move.cleanStart, move.own.map({ newest.value.epoch > $0 }) ?? true else {
            core.sessionClaimed(identifier, move.own == nil || move.cleanStart ? .nowhere : .here, epoch: move.epoch)
            return giveUp(identifier, at: move.to)
        }
        moves[identifier]?.from = newest.key
        core.sessionClaimed(identifier, .arriving, epoch: move.epoch)
        core.sessionArrives(identifier, newest.value)
    }

    private func restore(_ identifier: [UInt8], at node: Int, epoch: UInt64, isOver: Bool = false) {
        let core = core(node, identifier)
        core.sessionClaimed(identifier, .arriving, epoch: epoch)
        let piece = saved[identifier].flatMap { SavedSession.piece(state: $0.state, places: $0.places, isOver: isOver) }
        guard let piece else {
            Issue.record("what was saved is no piece")
            return
        }
        core.sessionArrives(identifier, piece)
    }

    /// A node sees to it that a session ends whose node is lost, and whose time is over.
    func expire(_ identifier: [UInt8], at node: Int) {
        var record = sessions[identifier] ?? Record()
        record.epoch += 1
        record.keepers = [node]
        sessions[identifier] = record
        ending.insert(identifier)
        restore(identifier, at: node, epoch: record.epoch, isOver: true)
        run()
        nodes[node].advance(milliseconds: 1000)
        run()
    }

    /// The session is up: who had it forgets it.
    private func giveUp(_ identifier: [UInt8], at node: Int) {
        guard moves[identifier]?.to == node else { return }
        moves[identifier] = nil
        for other in sessions[identifier]?.keepers ?? [] where other != node { core(other, identifier).sessionGone(identifier) }
        sessions[identifier]?.keepers = [node]
    }

    // MARK: Retained messages

    /// All nodes have this one from the stream.
    func retain(_ topic: String, _ payload: String) {
        Array(topic.utf8).withUnsafeBytes { topic in
            Array(payload.utf8).withUnsafeBytes { payload in
                var message = ClusterMessage(
                    topic: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: payload, qos: .atLeastOnce,
                    retain: true, expiresAt: nil)
                message.change = RetainedChange(node: 77, number: UInt64(payload.count + 1) << 8)
                for node in nodes {
                    let isTaken = node.cores[0].settleRetained(message)
                    #expect(isTaken)
                }
            }
        }
        for node in nodes { node.settle() }
    }

    // MARK: Clients

    /// A client that is connected to a node and lasts.
    func lasting(
        _ name: EncodedString, on node: Int, _ filter: TopicFilter? = nil, receiveMaximum: UInt16? = nil
    ) -> TestClient {
        let client = nodes[node].client(name)
        connect(client, to: node, receiveMaximum: receiveMaximum)
        if let filter {
            client.subscribe(filter, qos: .exactlyOnce)
            run()
        }
        return client
    }

    func connect(
        _ client: TestClient, to node: Int, clean: Bool = false, expiry: UInt32 = 1000, will: Will? = nil,
        receiveMaximum: UInt16? = nil
    ) {
        client.broker = nodes[node]
        var properties = Properties()
        properties.receiveMaximum = receiveMaximum
        client.connect(clean: clean, expiry: expiry, will: will, properties: properties)
        run()
    }
}
