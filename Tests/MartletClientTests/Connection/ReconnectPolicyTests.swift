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
