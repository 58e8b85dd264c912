import Glibc
import MQTTCodec
import Platform
import Testing

@testable import MartletClient

/// What is tried again, with which servers, and what is not.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ReconnectPolicyTests {
    private let server = TestServer()

    private func wait(for client: Client, until condition: (ConnectionState) -> Bool) async -> ConnectionState? {
        for await state in client.states where condition(state) { return state }
        return nil
    }

    private func connectionNumber(_ state: ConnectionState) -> UInt64? {
        if case .online(let facts) = state { facts.connectionNumber } else { nil }
    }

    @Test(arguments: [ReasonCode.notAuthorized, .badUserNameOrPassword, .banned, .serverBusy])
    func `a refusal that may end is tried again, and start() gets through`(reason: MQTTCodec.ReasonCode) async throws {
        defer { server.end() }
        server.refuseConnecting(reason, reason)
        let client = try Client(server.settings)
        client.start()
        #expect(await wait(for: client, until: \.isOnline) != nil)
        #expect(server.connectCount == 3)
    }

    @Test(arguments: [ReasonCode.administrativeAction, .notAuthorized, .serverShuttingDown])
    func `who is disconnected by an operator comes back`(reason: MQTTCodec.ReasonCode) async throws {
        defer { server.end() }
        let client = try Client(server.settings)
        try await client.connect()
        server.sendUnasked(.disconnect(DisconnectPacket(reasonCode: reason)))
        #expect(await wait(for: client) { connectionNumber($0) == 2 } != nil)
    }

    @Test func `connect() throws the first refusal, whatever would be tried again later`() async throws {
        defer { server.end() }
        server.refuseConnecting(.notAuthorized)
        let client = try Client(server.settings)
        await #expect(throws: ClientError.refused(.notAuthorized)) { try await client.connect() }
        #expect(client.state == .offline)
    }

    @Test func `what cannot be otherwise is final, and so is what the program says`() async throws {
        defer { server.end() }
        server.refuseConnecting(.unsupportedProtocolVersion)
        let client = try Client(server.settings)
        client.start()
        #expect(
            await wait(for: client) { $0 == .refused(.refused(.unsupportedProtocolVersion)) } != nil)
        server.refuseConnecting(.serverBusy)
        var settings = server.settings
        settings.reconnect.isFinal = { $0 == ServerRefusal(.serverBusy) }
        let strict = try Client(settings)
        strict.start()
        #expect(await wait(for: strict) { $0 == .refused(.refused(.serverBusy)) } != nil)
    }

    @Test func `two clients of one identifier do not take the session from each other for ever`() async throws {
        defer { server.end() }
        let client = try Client(server.settings)
        try await client.connect()
        server.sendUnasked(.disconnect(DisconnectPacket(reasonCode: .sessionTakenOver)))
        #expect(await wait(for: client) { $0 == .refused(.refused(.sessionTakenOver)) } != nil)
    }

    @Test func `attempts end when there were as many as the policy says, and run() throws why`() async throws {
        var settings = ClientSettings(server: "unix:/nonexistent/1")
        settings.reconnect = .exponential(from: .milliseconds(1), to: .milliseconds(1))
        settings.reconnect.attemptsMax = 2
        let client = try Client(settings)
        let reason = ClientError.unreachable(server: "unix:/nonexistent/1", reason: "No such file or directory")
        await #expect(throws: reason) { try await client.run() }
        #expect(client.state == .refused(reason))
    }

    @Test func `an authenticator that fails is a failed attempt, and start() gets through`() async throws {
        defer { server.end() }
        var settings = server.settings
        settings.login = .authenticator(TokenServer(begin: [Away(), ClientError.timedOut, nil]))
        let client = try Client(settings)
        let reason = ClientError.unreachable(server: "unix:\(server.path)", reason: "the login is not known: Away()")
        await #expect(throws: reason) { try await client.connect() }
        #expect(client.state == .offline)
        client.start()
        #expect(await wait(for: client, until: \.isOnline) != nil)
        #expect(server.connectCount == 1)
    }

    @Test func `an authenticator that does not trust what CONNACK says is asked again, unless that is final`() async throws {
        defer { server.end() }
        var settings = server.settings
        settings.login = .authenticator(TokenServer(finish: [Away(), ClientError.refused(.serverBusy, "later"), nil]))
        let client = try Client(settings)
        client.start()
        #expect(await wait(for: client, until: \.isOnline) != nil)
        #expect(server.connectCount == 3)
    }

    @Test func `what an authenticator refuses is judged as what a server refuses`() async throws {
        defer { server.end() }
        var settings = server.settings
        let refusal = ClientError.refused(.badAuthenticationMethod, "an impostor")
        settings.login = .authenticator(TokenServer(begin: [refusal]))
        let client = try Client(settings)
        client.start()
        #expect(await wait(for: client) { $0 == .refused(refusal) } != nil)
        settings.login = .authenticator(TokenServer(begin: [refusal, nil]))
        settings.reconnect.isFinal = { _ in false }
        let patient = try Client(settings)
        patient.start()
        #expect(await wait(for: patient, until: \.isOnline) != nil)
        let wrong = ClientError.settings("the user's name is none")
        settings.login = .authenticator(TokenServer(begin: [wrong]))
        let hopeless = try Client(settings)
        hopeless.start()
        #expect(await wait(for: hopeless) { $0 == .refused(wrong) } != nil)
    }

    @Test func `what a provider gives may be wrong once, and what the settings say is told at once`() async throws {
        let listener = try RefusingProxy(to: server.path)
        defer {
            server.end()
            listener.end()
        }
        var address = try ServerAddress("mqtts://127.0.0.1:\(listener.port)")
        address.tls = TLSSettings()
        address.tls?.authoritiesFile = "/nonexistent/ca.pem"
        let given = try Client(ClientSettings { [address] in [address] })
        given.start()
        let isToldAndTriedAgain: (ConnectionState) -> Bool = {
            if case .waiting(_, .settings) = $0 { true } else { false }
        }
        #expect(await wait(for: given, until: isToldAndTriedAgain) != nil)
        let fixed = try Client(ClientSettings(server: address))
        fixed.start()
        #expect(await wait(for: fixed) { if case .refused(.settings) = $0 { true } else { false } } != nil)
    }

    @Test func `servers are asked for anew, each with the login of that attempt`() async throws {
        defer { server.end() }
        let count = Locked(0)
        var settings = server.settings
        let path = server.path
        settings.servers = []
        settings.serverProvider = {
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number == 1 { throw Away() }
            if number == 2 { return [] }
            var address = try ServerAddress("unix:\(path)")
            address.login = .password(user: "u\(number)", password: nil)
            return [address]
        }
        let client = try Client(settings)
        client.start()
        #expect(await wait(for: client, until: \.isOnline) != nil)
        server.cut()
        #expect(await wait(for: client) { connectionNumber($0) == 2 } != nil)
        #expect(server.users == ["u3", "u4"])
    }

    private struct Away: Error {}

    @Test func `connect() says that no server is known, and what is wrong with one that is given`() async throws {
        let lost = try Client(ClientSettings { throw Away() })
        await #expect(throws: ClientError.unreachable(server: "the servers", reason: "the servers are not known: Away()")) {
            try await lost.connect()
        }
        let wrong = try Client(ClientSettings { ["http://h"] })
        let reason = ClientError.settings("server address http://h: it begins with mqtt://, mqtts://, ws://, wss:// or unix:")
        await #expect(throws: reason) { try await wrong.connect() }
    }

    @Test func `a client goes back to the first server when it lives again`() async throws {
        let second = TestServer()
        defer {
            server.end()
            second.end()
        }
        // The first is not there yet.
        let place = server.path + ".first"
        var settings = second.settings
        settings.servers = [try ServerAddress("unix:\(place)"), settings.servers[0]]
        settings.firstServerCheck = .milliseconds(5)
        let client = try Client(settings)
        try await client.connect()
        #expect(second.connectCount == 1)
        #expect(link(server.path, place) == 0)
        #expect(
            await wait(for: client) {
                if case .online(let facts) = $0 { facts.address == "unix:\(place)" } else { false }
            } != nil)
        #expect(server.connectCount == 1)
        unlink(place)
    }

    @Test func `the look at the first server goes through its proxy, and a proxy that refuses is no way back`() async throws {
        let second = TestServer()
        let proxy = try RefusingProxy(to: server.path)
        defer {
            server.end()
            second.end()
            proxy.end()
        }
        var first: ServerAddress = "mqtt://broker.invalid"
        first.proxy = try ProxyAddress("http://127.0.0.1:\(proxy.port)")
        var settings = second.settings
        settings.servers = [first, settings.servers[0]]
        settings.firstServerCheck = .milliseconds(5)
        let client = try Client(settings)
        try await client.connect()
        // The attempt of connect(), and two looks.
        proxy.wait { $0 >= 3 }
        #expect(client.state.isOnline)
        #expect(second.connectCount == 1)
        proxy.isWilling = true
        #expect(
            await wait(for: client) {
                if case .online(let facts) = $0 { facts.address == "mqtt://broker.invalid:1883" } else { false }
            } != nil)
        try await client.publish("x", to: "t", qos: .atLeastOnce)
        #expect(server.texts == ["x"])
    }

    @Test func `a socket of the program's own is a connection, and what is none is said`() async throws {
        defer { server.end() }
        let path = server.path
        var settings = server.settings
        settings.servers = [.socket("a socket of its own") { try SocketOfItsOwn.connected(to: path) }]
        let client = try Client(settings)
        try await client.connect()
        try await client.publish("x", to: "t", qos: .atLeastOnce)
        #expect(server.texts == ["x"])
        settings.servers = [.socket("a file") { open("/dev/null", O_RDWR) }]
        let wrong = try Client(settings)
        let reason = "what it gave is no connected stream socket: Socket operation on non-socket"
        await #expect(throws: ClientError.unreachable(server: "a file", reason: reason)) { try await wrong.connect() }
        settings.servers = [.socket("a throw") { throw Away() }]
        let thrown = try Client(settings)
        await #expect(throws: ClientError.unreachable(server: "a throw", reason: "Away()")) { try await thrown.connect() }
    }
}

/// A login whose first step, or last one, fails as often as it is said: one error for each exchange, nil for none.
private final class TokenServer: Authenticator {
    private struct Plan {
        var begin: [(any Error)?]
        var finish: [(any Error)?]
    }

    let method = "token"
    private let plan: Locked<Plan>

    init(begin: [(any Error)?] = [], finish: [(any Error)?] = []) { plan = Locked(Plan(begin: begin, finish: finish)) }

    func makeExchange() -> any AuthenticationExchange {
        plan.withLock { plan in
            Exchange(
                beginning: plan.begin.isEmpty ? nil : plan.begin.removeFirst(),
                finishing: plan.finish.isEmpty ? nil : plan.finish.removeFirst())
        }
    }

    private struct Exchange: AuthenticationExchange {
        let beginning: (any Error)?
        let finishing: (any Error)?

        func begin() throws -> [UInt8]? {
            if let beginning { throw beginning }
            return [1]
        }

        func answer(_ data: [UInt8]) throws -> [UInt8] { data }

        func finish(_ data: [UInt8]?) throws { if let finishing { throw finishing } }
    }
}

private enum SocketOfItsOwn {
    static func connected(to path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let result = withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(result == 0)
        return descriptor
    }
}

/// A proxy of HTTP that refuses until it is willing, and leads to one Unix socket, whatever it is asked for.
private final class RefusingProxy: @unchecked Sendable {
    // Unchecked: everything that changes is under the monitor.
    private let monitor = Monitor()
    private let listener: Int32
    private let target: String
    let port: UInt16
    private var askedCount = 0
    private var willing = false

    init(to target: String) throws {
        self.target = target
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, length) | getsockname(listener, $0, &length) }
        }
        try #require(result == 0 && listen(listener, 5) == 0)
        port = UInt16(bigEndian: address.sin_port)
        _ = try NamedThread.start(name: "test proxy") { [self] in
            while case let connection = accept(listener, nil, nil), connection >= 0 { serve(connection) }
            close(listener)
        }
    }

    var isWilling: Bool {
        get { monitor.withLock { willing } }
        set { monitor.withLock { willing = newValue } }
    }

    /// Waits until it was asked so often.
    func wait(until condition: (Int) -> Bool) {
        monitor.withLock { while !condition(askedCount) { monitor.wait(milliseconds: 20) } }
    }

    func end() { shutdown(listener, Int32(SHUT_RDWR)) }

    private func serve(_ client: Int32) {
        var buffer = [UInt8](repeating: 0, count: 4096)
        var head: [UInt8] = []
        while !head.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            let count = read(client, &buffer, 1)
            guard count == 1 else {
                _ = close(client)
                return
            }
            head.append(buffer[0])
        }
        monitor.withLock {
            askedCount += 1
            monitor.signal()
        }
        guard isWilling, let server = try? SocketOfItsOwn.connected(to: target) else {
            send(client, "HTTP/1.1 503 Later\r\n\r\n")
            _ = close(client)
            return
        }
        send(client, "HTTP/1.1 200 OK\r\n\r\n")
        for (source, sink) in [(client, server), (server, client)] {
            _ = try? NamedThread.start(name: "test proxy") {
                var buffer = [UInt8](repeating: 0, count: 4096)
                while case let count = read(source, &buffer, buffer.count), count > 0 {
                    _ = Glibc.send(sink, buffer, count, Self.withoutSignal)
                }
                shutdown(sink, Int32(SHUT_WR))
            }
        }
    }

    /// MSG_NOSIGNAL.
    private static let withoutSignal: Int32 = 0x4000

    private func send(_ connection: Int32, _ text: String) {
        _ = Glibc.send(connection, text, text.utf8.count, Self.withoutSignal)
    }
}
