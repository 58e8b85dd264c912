import BrokerModel
import Bytes

@testable import Cluster

/// Nodes with leases and sessions, clients that connect anywhere, the engine, and chance; each node's clock goes a
/// little wrong.
final class SessionWorld: CustomStringConvertible {
    let seed: UInt64
    let clock: SimulatedClock
    let engine: EngineModel
    /// Leases and records in one stream, each subject's last entry kept.
    let stream: EngineStream
    /// One partition of the log, in which each message is for one client.
    let log: EngineStream
    private(set) var nodes: [SessionNode] = []
    private(set) var failures: [String] = []
    private(set) var takeOvers = 0
    private var lastNode: UInt64 = 0
    /// The first three get messages, and last; of the others the sessions end; the last one begins anew each time.
    private let clients = ["a", "b", "c", "d", "e", "f", "g"]
    private var receivers: ArraySlice<String> { clients.prefix(3) }
    /// In the order in which they began.
    private(set) var connections: [ClientConnection] = []
    /// By client: what it has received, in order; what of that is acknowledged; and what of that the next owner could
    /// not know.
    private(set) var received: [[UInt8]: [UInt64]] = [:]
    private var acknowledged: [[UInt8]: Set<UInt64>] = [:]
    private var forgiven: [[UInt8]: Set<UInt64>] = [:]
    private(set) var replays = 0
    /// Milliseconds since 1970, on which the nodes agree.
    var wallClock: UInt64 { 1_000_000 + clock.now / 1000 }

    static let lifeMilliseconds: UInt64 = 10_000
    static let allowanceMilliseconds: UInt64 = 2000
    /// How long a client may be in while another node that does not answer has its session too.
    static let unsettledMilliseconds: UInt64 = 18_000
    /// How often one was.
    var letInUnsettled = 0
    /// When servers have stored nothing, from and to, in order: nobody learns then that a node is gone.
    private var outages: [(from: UInt64, to: UInt64)] = []
    /// Since when two nodes act for the client that begins anew, by pair.
    private var doubledSince: [[NodeID]: UInt64] = [:]

    init(seed: UInt64) {
        self.seed = seed
        clock = SimulatedClock(seed: seed)
        engine = EngineModel(clock: clock, serverCount: 3)
        stream = EngineStream(engine: engine, replicas: [0, 1, 2])
        log = EngineStream(engine: engine, replicas: [1, 2, 0])
        for _ in 0..<3 { startNode() }
        clock.run(for: 1_000_000)
    }

    var description: String { "seed \(seed): \(failures.prefix(3).joined(separator: "; "))" }

    func fail(_ text: String) { failures.append("\(text) at \(clock.now)") }

    func startNode() {
        lastNode += 1
        let node = SessionNode(NodeID(store: UInt32(lastNode), incarnation: 0), world: self)
        nodes.append(node)
        node.start()
    }

    /// A node whose lease has ended starts anew, as another.
    func restart(_ node: SessionNode) {
        nodes.removeAll { $0 === node }
        startNode()
    }

    // MARK: Chance

    func step(faults: Bool = true) {
        switch faults ? clock.random.below(70) : [0, 41][clock.random.below(2)] {
        case 55...: part()
        case 40...: publish()
        case 0..<22: connect()
        case 22..<27: nodes[clock.random.below(nodes.count)].connection?.breakDown()
        case 27: engine.kill(clock.random.below(3))
        case 28, 29: (0..<3).forEach { engine.start($0) }
        case 30: engine.cutAny()
        case 31, 32: engine.mend()
        case 33: stream.stepDown()
        case 34:
            // Gone for good, without a word.
            let node = victim()
            let wasWell = node.isWell
            node.stop()
            nodeIsGone(node, isLate: !wasWell)
            restart(node)
            nodes[clock.random.below(nodes.count)].connect("g")
        case 35:
            // A node that hangs, and goes on as if nothing had been.
            victim().hang(UInt64.random(in: 1...15, using: &clock.random) * 1_000_000)
            nodes[clock.random.below(nodes.count)].connect("g")
        default: run(UInt64.random(in: 1...12, using: &clock.random) * 1_000_000)
        }
        // With all well each claim is over before the next.
        run(!faults ? 6_000_000 : clock.random.oneIn(4) ? 2_000_000 : UInt64(clock.random.below(5000)))
    }

    /// Any node, or the one that the client is connected to that begins anew.
    private func victim() -> SessionNode {
        let owner = nodes.first { $0.mayAct(Array("g".utf8)) }
        return clock.random.oneIn(2) ? owner ?? nodes[0] : nodes[clock.random.below(nodes.count)]
    }

    private func connect() {
        let node = nodes[clock.random.below(nodes.count)]
        // Of the one that begins anew there is enough to happen only if it comes often.
        let client = clock.random.oneIn(4) ? "g" : clients[clock.random.below(clients.count)]
        node.connect(client)
    }

    /// Somebody publishes for a client; what becomes of it the log says.
    private func publish() {
        guard let connection = nodes[clock.random.below(nodes.count)].connection else { return }
        for _ in 0...clock.random.below(5) {
            let client = receivers[clock.random.below(receivers.count)]
            log.publish(Array(client.utf8), to: "log", by: connection) { _ in }
        }
    }

    private func run(_ microseconds: UInt64) {
        var left = microseconds
        while left > 0 {
            let part = min(left, 500_000)
            for stream in [stream, log] { stream.look() }
            let start = clock.now
            let hasQuorum = stream.hasQuorum && log.hasQuorum
            clock.run(for: part)
            if !hasQuorum { outages.append((start, clock.now)) }
            checkDoubled()
            left -= part
        }
    }

    func record(_ connection: ClientConnection) { connections.append(connection) }

    // MARK: Promises

    func restored(_ session: [UInt8], by node: SessionNode) {
        takeOvers += 1
        // Who began anew and waits for this one to stop may have its client meanwhile; see `checkDoubled`.
        for other in nodes where other !== node && other.mayAct(session) && !other.isUnsettled(session, for: node) {
            fail("session \(String(decoding: session, as: UTF8.self)) is kept by node \(node.id) and by node \(other.id)")
        }
    }

    /// When servers have stored for so many microseconds since a moment.
    func served(for microseconds: UInt64, since start: UInt64) -> UInt64 {
        outages.reduce(start + microseconds) { end, outage in
            outage.to > start && outage.from < end ? end + outage.to - max(outage.from, start) : end
        }
    }

    /// A client that begins anew is in at two nodes for a while at most, and as long as its lease at one that is gone.
    private func checkDoubled() {
        let acting = nodes.filter { $0.mayAct(Array("g".utf8)) }.map(\.id).sorted()
        var pairs: [[NodeID]: UInt64] = [:]
        for (index, one) in acting.enumerated() {
            for other in acting.dropFirst(index + 1) { pairs[[one, other]] = doubledSince[[one, other]] ?? clock.now }
        }
        doubledSince = pairs
        for (pair, since) in pairs where clock.now > since + (Self.unsettledMilliseconds + 2000) * 1000 {
            fail("session g is kept by nodes \(pair[0]) and \(pair[1]) since \(since)")
        }
    }

    /// A node has restored a session without what its last owner knew.
    func replays(_ session: [UInt8]) {
        replays += 1
        forgiven[session] = acknowledged[session]
    }

    func received(_ session: [UInt8], _ sequence: UInt64) {
        if acknowledged[session]?.contains(sequence) == true, forgiven[session]?.contains(sequence) != true {
            fail("\(sequence) is sent again to \(String(decoding: session, as: UTF8.self)), which has acknowledged it")
        }
        received[session, default: []].append(sequence)
    }

    func acknowledged(_ session: [UInt8], _ sequence: UInt64) { acknowledged[session, default: []].insert(sequence) }

    /// With everything well, each client that connects gets its session, and it is one node's.
    func check() {
        engine.heal()
        run(30_000_000)
        for _ in 0..<2 { for client in clients { nodes[clock.random.below(nodes.count)].connect(client) } }
        run(12_000_000)
        for client in clients {
            let owners = nodes.filter { $0.mayAct(Array(client.utf8)) }
            if owners.count != 1 { fail("session \(client) has \(owners.count) keepers with all well") }
            for node in owners where !node.isStored(Array(client.utf8)) {
                fail("the record of \(client) does not say what node \(node.id) has of it")
            }
        }
        for client in receivers {
            let wanted = log.records.filter { $0.payload == Array(client.utf8) }.map(\.sequence)
            var found: Set<UInt64> = []
            let first = received[Array(client.utf8), default: []].filter { found.insert($0).inserted }
            if first != wanted { fail("client \(client) has received \(first) of \(wanted)") }
        }
        checkEnds()
    }

    /// All clients go, and nobody comes back: each will is published that is due, and no session outlives its time.
    private func checkEnds() {
        for connection in connections where connection.isEstablished && connection.endedAt == nil {
            connection.node?.lost(connection)
        }
        run(130_000_000)
        for client in clients { checkWills(client) }
        for client in clients.dropFirst(3) {
            let last = stream.records.last { $0.subject == "session.\(client)" }
            if let last, SessionRecord(last.payload) != nil { fail("the record of \(client) is left") }
        }
    }
}
