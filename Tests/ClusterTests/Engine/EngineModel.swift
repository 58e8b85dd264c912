import Bytes

/// What one node hears from the engine.
protocol EngineClient: AnyObject {
    func received(subject: String, reply: String, isNobodyThere: Bool, payload: [UInt8])
    /// The connection has ended, and not by the node's wish.
    func closed()
}

/// The engine's servers, as nodes see them through core subjects: each connection and each route keeps its order;
/// interest travels along routes and takes time; a route that comes back is told all interest anew; what is under way
/// when something breaks is lost.
final class EngineModel {
    final class Server {
        var isUp = true
        var connections: [EngineConnection] = []
        /// What the other servers want, as far as they have told.
        var interest: [Int: [Int: Int]] = [:]
    }

    private struct Route {
        var isUp = true
        /// Grows whenever the route breaks: what was sent before is lost.
        var epoch = 0
        var fifo = FIFO()
        /// How many times slower than usual it is.
        var slowness: UInt64 = 1
        /// Whether the far end knows all interest that the near one had when the route came up.
        var isSettled = true
    }

    private enum RouteMessage {
        case wants(Int, Int)
        case message(String, reply: String, payload: [UInt8])
        case settled
    }

    let clock: SimulatedClock
    let servers: [Server]
    private var routes: [[Route]]
    private var cuts: Set<Int> = []
    private var mendedAt: UInt64 = 0
    private var lastConnection = 0
    private var numbers: [String: Int] = [:]
    private var texts: [String] = []
    private var matchTable: [[Bool?]] = []
    /// How many messages crossed connections and routes, and their bytes.
    private(set) var hops = 0
    private(set) var hopBytes = 0

    init(clock: SimulatedClock, serverCount: Int) {
        self.clock = clock
        servers = (0..<serverCount).map { _ in Server() }
        routes = Array(repeating: Array(repeating: Route(), count: serverCount), count: serverCount)
    }

    // MARK: Servers

    /// Whether what is published at one server reaches the other, which knows all interest.
    func isJoined(_ one: Int, _ other: Int) -> Bool {
        one == other || (routes[one][other].isSettled && routes[other][one].isSettled && routes[one][other].isUp)
    }

    /// Whether two servers cannot find each other, or have only just begun to: not because one has started, but because
    /// of the network.
    func isCut(_ one: Int, _ other: Int) -> Bool {
        cuts.contains(min(one, other) * 100 + max(one, other)) || clock.now < mendedAt + 2_000_000
    }

    func kill(_ server: Int) {
        guard servers[server].isUp else { return }
        servers[server].isUp = false
        for other in servers.indices where other != server { disconnect(server, other) }
        for connection in servers[server].connections { connection.breakDown() }
        servers[server].interest = [:]
    }

    func start(_ server: Int) {
        guard !servers[server].isUp else { return }
        servers[server].isUp = true
        for other in servers.indices where other != server { reconnect(server, other) }
    }

    /// All servers are up, and find each other.
    func heal() {
        for server in servers.indices { start(server) }
        mend()
    }

    /// Cuts the network between any two of three servers.
    func cutAny() {
        let one = clock.random.below(3)
        cut(one, (one + 1 + clock.random.below(2)) % 3)
    }

    /// Cuts the network between two servers, which notice at once.
    func cut(_ one: Int, _ other: Int) {
        cuts.insert(min(one, other) * 100 + max(one, other))
        disconnect(one, other)
    }

    func mend() {
        if !cuts.isEmpty { mendedAt = clock.now }
        cuts = []
        for one in servers.indices { for other in 0..<one { reconnect(one, other) } }
    }

    /// Makes one direction of a route slower, as one that is far or busy.
    func slow(_ from: Int, _ to: Int, times factor: UInt64) { routes[from][to].slowness = factor }

    private func disconnect(_ one: Int, _ other: Int) {
        for (from, to) in [(one, other), (other, one)] {
            routes[from][to].isUp = false
            routes[from][to].isSettled = false
            routes[from][to].epoch += 1
            servers[to].interest[from] = nil
        }
    }

    /// Servers look for each other about each second.
    private func reconnect(_ one: Int, _ other: Int) {
        clock.after(UInt64.random(in: 1000...1_500_000, using: &clock.random)) { [self] in
            guard servers[one].isUp, servers[other].isUp, !routes[one][other].isUp,
                !cuts.contains(min(one, other) * 100 + max(one, other))
            else { return }
            for (from, to) in [(one, other), (other, one)] {
                routes[from][to].isUp = true
                for (subject, count) in wanted(at: from).sorted(by: { $0.key < $1.key }) { send(.wants(subject, count), from, to) }
                send(.settled, from, to)
            }
        }
    }

    private func wanted(at server: Int) -> [Int: Int] {
        var counts: [Int: Int] = [:]
        for connection in servers[server].connections {
            for subject in connection.subjects.values { counts[subject, default: 0] += 1 }
        }
        return counts
    }

    private func send(_ message: RouteMessage, _ from: Int, _ to: Int) {
        guard routes[from][to].isUp else { return }
        if case .message(let subject, _, let payload) = message {
            hops += 1
            hopBytes += subject.utf8.count + payload.count
        }
        let epoch = routes[from][to].epoch
        clock.at(routes[from][to].fifo.arrival(clock, after: delay(from, to))) { [self] in
            guard routes[from][to].epoch == epoch else { return }
            switch message {
            case .wants(let subject, let change):
                let count = servers[to].interest[from]?[subject, default: 0] ?? 0
                servers[to].interest[from, default: [:]][subject] = count + change == 0 ? nil : count + change
            case .message(let subject, let reply, let payload):
                _ = deliver(subject, reply, payload, at: to, except: nil)
            case .settled: routes[from][to].isSettled = true
            }
        }
    }

    private func delay(_ from: Int, _ to: Int) -> UInt64 {
        let slowness = routes[from][to].slowness
        return slowness == 1 ? clock.delay(80...500) : UInt64.random(in: 80...500, using: &clock.random) * slowness
    }

    // MARK: Connections

    /// Connects a node to any server that is up, in a moment or when there is one, if it is wanted still.
    func dial(_ client: any EngineClient, while isWanted: @escaping () -> Bool, then: @escaping (EngineConnection) -> Void) {
        clock.after(clock.delay(500...50_000, rareFactor: 20)) { [self] in
            guard isWanted() else { return }
            let up = servers.indices.filter { servers[$0].isUp }
            guard !up.isEmpty else { return dial(client, while: isWanted, then: then) }
            then(connect(client, to: up[clock.random.below(up.count)]))
        }
    }

    /// A new connection to a server that is up.
    func connect(_ client: any EngineClient, to server: Int) -> EngineConnection {
        precondition(servers[server].isUp, "nobody listens there")
        lastConnection += 1
        let connection = EngineConnection(engine: self, client: client, server: server, number: lastConnection)
        servers[server].connections.append(connection)
        return connection
    }

    fileprivate func gone(_ connection: EngineConnection) {
        servers[connection.server].connections.removeAll { $0 === connection }
        for subject in connection.subjects.values.sorted() { report(subject, -1, of: connection.server) }
        connection.subjects = [:]
    }

    fileprivate func report(_ subject: Int, _ change: Int, of server: Int) {
        for other in servers.indices where other != server { send(.wants(subject, change), server, other) }
    }

    fileprivate func publish(_ subject: String, _ reply: String, _ payload: [UInt8], by connection: EngineConnection) {
        hops += 1
        hopBytes += subject.utf8.count + payload.count
        let number = number(of: subject)
        var isHeard = deliver(subject, reply, payload, at: connection.server, except: connection.number)
        for other in servers.indices where other != connection.server && routes[connection.server][other].isUp {
            let interest = servers[connection.server].interest[other] ?? [:]
            guard interest.keys.contains(where: { matches($0, number) }) else { continue }
            isHeard = true
            send(.message(subject, reply: reply, payload: payload), connection.server, other)
        }
        if !isHeard, !reply.isEmpty { connection.deliver(reply, "", isNobodyThere: true, []) }
    }

    private func deliver(_ subject: String, _ reply: String, _ payload: [UInt8], at server: Int, except: Int?) -> Bool {
        var isHeard = false
        let published = number(of: subject)
        for connection in servers[server].connections where connection.number != except {
            for pattern in connection.subjects.values where matches(pattern, published) {
                isHeard = true
                hops += 1
                hopBytes += subject.utf8.count + payload.count
                connection.deliver(subject, reply, isNobodyThere: false, payload)
            }
        }
        return isHeard
    }

    fileprivate func number(of text: String) -> Int {
        if let known = numbers[text] { return known }
        numbers[text] = texts.count
        texts.append(text)
        matchTable.append([])
        return texts.count - 1
    }

    /// Whether a pattern matches a subject, by their numbers: looked at many times and worked out once.
    private func matches(_ pattern: Int, _ subject: Int) -> Bool {
        if subject < matchTable[pattern].count, let known = matchTable[pattern][subject] { return known }
        while matchTable[pattern].count <= subject { matchTable[pattern].append(nil) }
        let isMatch = matches(texts[pattern], texts[subject])
        matchTable[pattern][subject] = isMatch
        return isMatch
    }

    private func matches(_ pattern: String, _ subject: String) -> Bool {
        let wanted = pattern.split(separator: ".", omittingEmptySubsequences: false)
        let found = subject.split(separator: ".", omittingEmptySubsequences: false)
        var isMatch = true
        var isTail = false
        for (index, token) in wanted.enumerated() where isMatch && !isTail {
            if token == ">" {
                isTail = true
                isMatch = found.count > index
            } else {
                isMatch = index < found.count && (token == "*" || token == found[index])
            }
        }
        return isMatch && (isTail || wanted.count == found.count)
    }
}

/// A node's connection to one server: FIFO both ways, until it breaks.
final class EngineConnection {
    private unowned let engine: EngineModel
    private weak var client: (any EngineClient)?
    let server: Int
    let number: Int
    fileprivate var subjects: [UInt64: Int] = [:]
    private var up = FIFO()
    private var down = FIFO()
    private(set) var isOpen = true

    fileprivate init(engine: EngineModel, client: any EngineClient, server: Int, number: Int) {
        self.engine = engine
        self.client = client
        self.server = server
        self.number = number
    }

    func subscribe(_ subject: String, identifier: UInt64) {
        send { [self] in
            let number = engine.number(of: subject)
            subjects[identifier] = number
            engine.report(number, 1, of: server)
        }
    }

    func unsubscribe(_ identifier: UInt64) {
        send { [self] in
            guard let subject = subjects.removeValue(forKey: identifier) else { return }
            engine.report(subject, -1, of: server)
        }
    }

    func publish(_ subject: String, reply: String, payload: [UInt8]) {
        send { [self] in engine.publish(subject, reply, payload, by: self) }
    }

    /// Carries a question to the engine, and its answer back: each is lost if the connection breaks before.
    func request(_ body: @escaping (_ reply: @escaping (@escaping () -> Void) -> Void) -> Void) {
        send { [self] in
            body { [self] action in
                guard isOpen else { return }
                engine.clock.at(down.arrival(engine.clock, after: engine.clock.delay(40...200))) { [self] in
                    if isOpen { action() }
                }
            }
        }
    }

    /// The node closes it, or has ended.
    func close() {
        client = nil
        breakDown()
    }

    /// What is under way is lost; the node hears of it soon.
    func breakDown() {
        guard isOpen else { return }
        isOpen = false
        engine.gone(self)
        guard client != nil else { return }
        engine.clock.after(engine.clock.delay(50...2000)) { [self] in client?.closed() }
    }

    private func send(_ action: @escaping () -> Void) {
        guard isOpen else { return }
        engine.clock.at(up.arrival(engine.clock, after: engine.clock.delay(40...200))) { [self] in if isOpen { action() } }
    }

    fileprivate func deliver(_ subject: String, _ reply: String, isNobodyThere: Bool, _ payload: [UInt8]) {
        engine.clock.at(down.arrival(engine.clock, after: engine.clock.delay(40...200))) { [self] in
            guard isOpen else { return }
            client?.received(subject: subject, reply: reply, isNobodyThere: isNobodyThere, payload: payload)
        }
    }
}
