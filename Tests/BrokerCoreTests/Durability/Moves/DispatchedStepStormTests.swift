import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What share groups have dispatched to sessions is not lost, whichever nodes are lost with their disks.
///
/// `MARTLET_SEEDS=10000` runs as many seeds, `MARTLET_SEED=17` runs that one.
@Suite struct DispatchedStepStormTests {
    @Test(.statement("MQTT-4.8.2-4", .v5), .timeLimit(.minutes(60)), arguments: Seeds.parts(60, perPart: 20))
    func `each message comes to a member of the group, and of QoS 2 once, whichever nodes are lost with their disks`(
        seeds: ClosedRange<UInt64>
    ) {
        var deeds = DispatchedStepStorm.Deeds()
        for seed in seeds {
            var storm = DispatchedStepStorm(seed: seed, deeds)
            storm.run()
            #expect(storm.objections.isEmpty, "\(Seeds.replay(seed))")
            deeds = storm.deeds
        }
        guard seeds.count >= 10 else { return }
        #expect(deeds.losses == 2 * seeds.count && deeds.crashes >= seeds.count / 4, "\(deeds)")
        #expect(deeds.absences >= 1 && deeds.hangs >= 1, "\(deeds)")
        #expect(deeds.hops >= seeds.count / 8, "\(deeds)")
        #expect(deeds.exact >= 5 * seeds.count && deeds.held >= seeds.count / 4, "\(deeds)")
    }
}

/// Two members of a share group whose sessions last, and whose nodes are lost one after the other with their disks,
/// crash, or cannot be reached for longer than their leases last. One seed is one run.
private struct DispatchedStepStorm {
    struct Deeds {
        var losses = 0
        var crashes = 0
        /// Crashes after which the node was away for a while.
        var absences = 0
        /// Leases that have ended of nodes that went on.
        var hangs = 0
        /// Crashes, or losses, of a node from or to which a session was under way.
        var hops = 0
        /// Messages of QoS 2.
        var exact = 0
        /// Messages that had been published and had come to nobody when a node was lost.
        var held = 0
    }

    private static let speaking = 3
    private let cluster: MovingCluster
    private let publisher: TestClient
    private var members: [TestClient] = []
    /// By member: the node that it was connected to last.
    private var places = [0, 1]
    /// What it has answered, by its place in the connection.
    private var answered: [Set<Int>] = [[], []]
    /// What was answered as it came, and from where on all is; nil if nothing is.
    private var answeredAtOnce: [Set<Int>] = [[], []]
    private var answersSince: [Int?] = [0, 0]
    /// Small, so that much waits for clients that are there: when these go it is given to others.
    private let receiveMaximum: UInt16?
    /// Whether nodes crash while sessions are under way.
    private let crashesMoves: Bool
    private var random: SeededGenerator
    private var sent: [(text: String, qos: QoS)] = []
    private(set) var deeds: Deeds
    private(set) var objections: [String] = []

    init(seed: UInt64, _ deeds: Deeds) {
        self.deeds = deeds
        random = SeededGenerator(seed: seed)
        receiveMaximum = seed % 8 == 1 ? 1 : seed % 8 == 4 ? 2 : nil
        crashesMoves = seed % 5 == 2
        cluster = MovingCluster(nodes: 4, shards: seed % 3 == 0 ? 2 : 1, dispatches: true) {
            $0.wallClockOffsetMilliseconds = 1_600_000_000_000
            if seed % 2 == 0 { $0.residentMessagesMax = 2 }
        }
        publisher = cluster.lasting("publisher", on: Self.speaking)
        for (number, node) in places.enumerated() {
            let member = cluster.lasting(number == 0 ? "one" : "two", on: node, receiveMaximum: receiveMaximum)
            member.subscribe("$share/g/t", qos: .exactlyOnce)
            members.append(member)
            cluster.run()
        }
    }

    mutating func run() {
        var left = [0, 1, 2]
        for round in 0..<3 {
            for _ in 0..<Int.random(in: 5...40, using: &random) { act(on: left) }
            guard round < 2, let node = left.randomElement(using: &random) else { break }
            left.removeAll { $0 == node }
            lose(node, left)
        }
        finish(left)
    }

    private mutating func lose(_ node: Int, _ left: [Int]) {
        deeds.losses += 1
        deeds.held += Set(sent.map(\.text)).subtracting(members.flatMap(\.texts)).count
        cluster.logs = true
        for other in left + [node] { cluster.nodes[other].store?.mode = .prompt }
        // What was killed before, its lease may have ended by then.
        for other in left where random.oneIn(2) { endLeases(of: other, left + [node]) }
        if crashesMoves, let number = members.indices.randomElement(using: &random) {
            deeds.hops += 1
            setOut(number, to: places[number] == node ? left.randomElement(using: &random) ?? node : node, left + [node])
        }
        cluster.lose(node, logsSome: random.oneIn(2))
        inherit(node, by: left[0])
        if crashesMoves {
            cluster.run()
            cluster.askAgain()
            for number in members.indices where places[number] != node && !members[number].isConnected {
                connect(number, to: places[number])
            }
        }
        for number in members.indices where places[number] == node {
            connect(number, to: left.randomElement(using: &random) ?? Self.speaking)
            if members[number].connack?.sessionPresent != true { objections.append("a session is lost with node \(node)") }
        }
    }

    private mutating func finish(_ left: [Int]) {
        for node in left { cluster.nodes[node].store?.mode = .prompt }
        for number in members.indices {
            members[number].acknowledgement = .automatic
            members[number].lose()
            connect(number, to: places[number])
        }
        for _ in 0..<8 { publish() }
        cluster.logs = true
        cluster.run()
        var counts: [String: Int] = [:]
        for text in members.flatMap(\.texts) { counts[text, default: 0] += 1 }
        for (text, qos) in sent {
            let count = counts[text] ?? 0
            if count == 0 { objections.append("\(text) did not come") }
            guard qos == .exactlyOnce else { continue }
            deeds.exact += 1
            if count > 1 { objections.append("\(text) came \(count) times") }
        }
        for member in members where !member.unreleased.isEmpty { objections.append("\(member.unreleased) are held still") }
    }

    private mutating func act(on nodes: [Int]) {
        guard let node = nodes.randomElement(using: &random) else { return }
        let number = Int.random(in: 0...1, using: &random)
        let member = members[number]
        if crashesMoves, random.oneIn(10), node != places[number] { return hop(number, to: node, nodes) }
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<35: publish()
        case 35..<45: answer(number, atOnce: random.oneIn(2))
        case 45..<60: acknowledge(number)
        case 60..<70: cluster.saveLogPositions()
        case 70..<78:
            member.lose()
            if random.oneIn(3) { connect(number, to: places[number]) }
        case 78..<83: connect(number, to: places[number])
        case 83..<87: connect(number, to: node)
        case 87..<89: cluster.nodes[node].store?.mode = random.oneIn(2) ? .paused : .prompt
        case 89..<91: crash(node, nodes)
        case 91..<93: cluster.logs.toggle()
        case 93: hang(node, nodes)
        case 94..<96: endLeases(of: node, nodes)
        default: cluster.log(someOf: node, using: &random)
        }
        cluster.nodes[node].settle()
        if random.oneIn(3) { cluster.run() }
    }

    private mutating func connect(_ number: Int, to node: Int) {
        guard !members[number].isConnected else { return }
        cluster.logs = true
        for known in [places[number], node] { cluster.nodes[known].store?.mode = .prompt }
        cluster.run()
        let last = places[number]
        places[number] = node
        (answered[number], answeredAtOnce[number]) = ([], [])
        answersSince[number] = members[number].acknowledgement == .automatic ? 0 : nil
        cluster.connect(members[number], to: node, receiveMaximum: receiveMaximum)
        // A store waits a moment for what clients are about to acknowledge.
        for known in crashesMoves ? cluster.owners(of: members[number]) + [last, node] : [node] {
            cluster.nodes[known].advance(milliseconds: 100)
            cluster.run()
        }
    }

    /// A member goes to another node, something is dispatched meanwhile, and one of the two nodes crashes before all of
    /// its session is there, or behind that.
    private mutating func hop(_ number: Int, to node: Int, _ nodes: [Int]) {
        deeds.hops += 1
        let last = places[number]
        setOut(number, to: node, nodes)
        crash(random.oneIn(3) ? node : last, nodes)
        cluster.run()
        cluster.askAgain()
        if !members[number].isConnected { connect(number, to: places[number]) }
    }

    /// A member goes to another node, and has perhaps not come to it yet.
    private mutating func setOut(_ number: Int, to node: Int, _ nodes: [Int]) {
        let member = members[number]
        member.lose()
        cluster.logs = true
        for known in [places[number], node] { cluster.nodes[known].store?.mode = .prompt }
        cluster.run()
        places[number] = node
        (answered[number], answeredAtOnce[number]) = ([], [])
        answersSince[number] = member.acknowledgement == .automatic ? 0 : nil
        member.broker = cluster.nodes[node]
        var properties = Properties()
        properties.receiveMaximum = receiveMaximum
        member.connect(clean: false, expiry: 1000, properties: properties)
        for _ in 0..<Int.random(in: 0...8, using: &random) {
            cluster.step(using: &random)
            if random.oneIn(3) { publishAside(nodes) }
        }
    }

    /// Publishes, and leaves alone what is under way between nodes.
    private mutating func publishAside(_ nodes: [Int]) {
        send()
        logSent()
        for node in nodes { cluster.read(node) }
    }

    private mutating func publish() {
        send()
        cluster.run()
        logSent()
    }

    private mutating func send() {
        let qos: QoS = random.oneIn(2) ? .exactlyOnce : .atLeastOnce
        sent.append(("\(sent.count)", qos))
        publisher.publish("t", sent[sent.count - 1].text, qos: qos)
    }

    private mutating func logSent() {
        while !publisher.unfinished.isEmpty {
            cluster.log(someOf: Self.speaking, using: &random)
            cluster.nodes[Self.speaking].settle()
        }
    }

    private mutating func answer(_ number: Int, atOnce: Bool) {
        let member = members[number]
        let count = member.packetsOfConnection.count
        if let since = answersSince[number], since < count { answeredAtOnce[number].formUnion(since..<count) }
        answersSince[number] = atOnce ? count : nil
        member.acknowledgement = atOnce ? .automatic : .manual
    }

    /// Answers some of what came last with its packet identifier.
    private mutating func acknowledge(_ number: Int) {
        let member = members[number]
        guard member.isConnected else { return }
        // Each once, and nothing before it: what has the same packet identifier next is on its way, perhaps.
        let open = member.lastOfIdentifiers.filter { !answered[number].contains($0.place) }
        for (identifier, answer, place) in open where random.oneIn(2) {
            answered[number].insert(place)
            if answersSince[number].map({ place >= $0 }) ?? false || answeredAtOnce[number].contains(place) { continue }
            member.acknowledge(answer, identifier)
        }
    }

    /// Another node dispatches what was dispatched to a node before it was killed, and has started again.
    private mutating func endLeases(of node: Int, _ nodes: [Int]) {
        guard let successor = nodes.first(where: { $0 != node }) else { return }
        cluster.logs = true
        for other in nodes { cluster.nodes[other].store?.mode = .prompt }
        cluster.run()
        inherit(node, by: successor)
    }

    /// One that dispatches for another may be killed, or lost, before any of that is in the log.
    private mutating func inherit(_ node: Int, by successor: Int) {
        cluster.nodes[successor].store?.mode = .prompt
        cluster.inherit(node, by: successor, runs: random.oneIn(2))
    }

    /// A node is killed, and starts again when its lease has ended, or shortly before.
    private mutating func stayAway(_ node: Int, _ nodes: [Int], _ committing: Int, _ logsSome: Bool) {
        deeds.absences += 1
        cluster.cut(node, logsSome: logsSome)
        for number in members.indices where places[number] == node { members[number].connectionIsGone() }
        for _ in 0..<Int.random(in: 0...3, using: &random) { publish() }
        if random.oneIn(2), let successor = nodes.first(where: { $0 != node }) {
            cluster.logs = true
            inherit(node, by: successor)
            for _ in 0..<Int.random(in: 0...3, using: &random) { publish() }
        }
        cluster.start(node, committing: committing)
    }

    /// A node cannot be reached until its lease has ended, and goes on, before another one dispatches what it was not
    /// done with or after that. Its clients may speak to it meanwhile.
    private mutating func hang(_ node: Int, _ nodes: [Int]) {
        deeds.hangs += 1
        cluster.nodes[node].store?.mode = .prompt
        cluster.cut(node, logsSome: random.oneIn(2))
        for _ in 0..<Int.random(in: 0...3, using: &random) { publish() }
        for number in members.indices where places[number] == node && members[number].isConnected && random.oneIn(2) {
            acknowledge(number)
            cluster.nodes[node].settle()
            if random.oneIn(3) { members[number].lose() }
        }
        if random.oneIn(2), let successor = nodes.first(where: { $0 != node }) {
            cluster.logs = true
            inherit(node, by: successor)
            for _ in 0..<Int.random(in: 0...3, using: &random) { publish() }
        }
        cluster.goOn(node)
        cluster.collect()
        for number in members.indices where places[number] == node && random.oneIn(2) { connect(number, to: node) }
    }

    private mutating func crash(_ node: Int, _ nodes: [Int]) {
        deeds.crashes += 1
        cluster.nodes[node].store?.mode = .prompt
        let (committing, logsSome) = (Int.random(in: 0...3, using: &random), random.oneIn(2))
        if random.oneIn(2) {
            stayAway(node, nodes, committing, logsSome)
        } else {
            cluster.crash(node, committing: committing, logsSome: logsSome)
        }
        // The others hear that its groups have members: what is published while no node has any is not kept.
        cluster.collect()
        for number in members.indices where places[number] == node {
            if random.oneIn(2) { connect(number, to: node) }
        }
    }
}
