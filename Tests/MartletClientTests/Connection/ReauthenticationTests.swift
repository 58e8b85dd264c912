import MQTTCodec
import MartletClient
import Platform
import Testing

/// A login in two steps, whose last word of the server has to be 7.
private struct Steps: Authenticator {
    let method = "steps"

    func makeExchange() -> any AuthenticationExchange { Exchange(begins: [1]) }

    struct Exchange: AuthenticationExchange {
        let begins: [UInt8]?

        func begin() throws -> [UInt8]? {
            guard let begins else { throw ClientError.settings("the vault is shut") }
            return begins
        }

        func answer(_ data: [UInt8]) throws -> [UInt8] {
            guard data != [0] else { throw ClientError.refused(.badAuthenticationMethod, "0 is no challenge") }
            guard data != [5] else { throw Away() }
            return data + [9]
        }

        // CONNACK of the test's server says nothing.
        func finish(_ data: [UInt8]?) throws {
            guard data == nil || data == [7] else { throw ClientError.refused(.badAuthenticationMethod, "not 7") }
        }
    }
}

/// A client that authenticates again on the connection that stands. One test at a time: each looks again and again
/// whether its server has heard.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ReauthenticationTests {
    private let server = TestServer()

    private func connected(_ change: (inout ClientSettings) -> Void = { _ in }) async throws -> Client {
        var settings = server.settings
        settings.login = .authenticator(Steps())
        // On a machine that does much else.
        settings.connectTimeout = .seconds(60)
        change(&settings)
        let client = try Client(settings)
        try await client.connect()
        return client
    }

    private func auth(_ reason: ReasonCode, _ data: [UInt8]) -> ControlPacket {
        var properties = Properties()
        (properties.authenticationMethod, properties.authenticationData) = ("steps", data)
        return .auth(AuthPacket(reasonCode: reason, properties: properties))
    }

    /// Without holding a thread, which the client's steps need.
    private func until(_ condition: (TestServer) -> Bool) async {
        while !condition(server) { await Task.yield() }
    }

    private func wait(for client: Client, until condition: (ConnectionState) -> Bool) async {
        for await state in client.states where condition(state) { return }
    }

    @Test func `steps go to and fro while messages flow, as often as one likes [MQTT-4.12.1-1 v5]`() async throws {
        defer { server.end() }
        let client = try await connected()
        for _ in 1...2 {
            server.answerAuth(auth(.continueAuthentication, [2]), auth(.success, [7]))
            async let publishing = client.publish("x", to: "t", qos: .atLeastOnce)
            try await client.reauthenticate()
            _ = try await publishing
        }
        #expect(
            server.auths.map(\.reasonCode) == [.reauthenticate, .continueAuthentication, .reauthenticate, .continueAuthentication])
        #expect(server.auths.prefix(2).map(\.properties.authenticationData) == [[1], [2, 9]])
        #expect(server.connectCount == 1)
        #expect(client.state.isOnline)
    }

    @Test func `a connection that is lost meanwhile ends it, and it begins anew on the next`() async throws {
        defer { server.end() }
        let client = try await connected()
        let call = Task { try await client.reauthenticate() }
        await until { !$0.auths.isEmpty }
        server.cut()
        await #expect(throws: ClientError.notConnected) { try await call.value }
        await until { $0.connectCount == 2 }
        await wait(for: client, until: \.isOnline)
        server.answerAuth(auth(.success, [7]))
        try await client.reauthenticate()
    }

    @Test func `a server that shows that it is not who it should be is left for good [MQTT-4.12.1-2 v5]`() async throws {
        defer { server.end() }
        let client = try await connected()
        server.answerAuth(auth(.success, [8]))
        let refusal = ClientError.refused(.badAuthenticationMethod, "not 7")
        await #expect(throws: refusal) { try await client.reauthenticate() }
        await wait(for: client) { $0 == .refused(refusal) }
        await #expect(throws: refusal) { try await client.reauthenticate() }
    }

    @Test func `a challenge that cannot be answered ends the connection, for it cannot be left half done`() async throws {
        defer { server.end() }
        let client = try await connected()
        server.answerAuth(auth(.continueAuthentication, [0]))
        let refusal = ClientError.refused(.badAuthenticationMethod, "0 is no challenge")
        await #expect(throws: refusal) { try await client.reauthenticate() }
        await wait(for: client) { $0 == .refused(refusal) }
    }

    @Test func `a step that fails ends the connection as well, and the client comes back`() async throws {
        defer { server.end() }
        let client = try await connected()
        server.answerAuth(auth(.continueAuthentication, [5]))
        await #expect {
            try await client.reauthenticate()
        } throws: {
            if case ClientError.unreachable(_, "the login is not known: Away()") = $0 { true } else { false }
        }
        await until { $0.connectCount == 2 }
        await wait(for: client, until: \.isOnline)
    }

    @Test func `a server that refuses says why, and the client comes back`() async throws {
        defer { server.end() }
        let client = try await connected()
        server.answerAuth(.disconnect(DisconnectPacket(reasonCode: .notAuthorized)))
        await #expect(throws: ClientError.refused(.notAuthorized)) { try await client.reauthenticate() }
        await until { $0.connectCount == 2 }
        await wait(for: client, until: \.isOnline)
        server.answerAuth(auth(.success, [7]))
        try await client.reauthenticate()
    }

    @Test func `a server that never answers is left, and the client comes back`() async throws {
        defer { server.end() }
        var settings = server.settings
        settings.login = .authenticator(Steps())
        settings.connectTimeout = .seconds(3)
        let client = try Client(settings)
        // Not `connect`: on a machine that does much else the first attempt may take longer than that.
        client.start()
        await wait(for: client, until: \.isOnline)
        let count = server.connectCount
        await #expect(throws: ClientError.timedOut) { try await client.reauthenticate() }
        await until { $0.connectCount > count }
        await wait(for: client, until: \.isOnline)
    }

    @Test func `a server that begins it has broken the protocol, and is tried again`() async throws {
        defer { server.end() }
        let client = try await connected()
        server.answerAuth(auth(.success, [7]), auth(.success, [7]))
        try await client.reauthenticate()
        server.sendUnasked(auth(.continueAuthentication, [2]))
        await until { $0.connectCount == 2 }
        await wait(for: client, until: \.isOnline)
        try await client.reauthenticate()
    }

    @Test func `what cannot begin leaves the connection as it is`() async throws {
        defer { server.end() }
        let shut = OneTime()
        let client = try await connected { $0.login = .authenticator(shut) }
        await #expect(throws: ClientError.settings("the vault is shut")) { try await client.reauthenticate() }
        #expect(client.state.isOnline)
        #expect(server.auths.isEmpty)
        try await client.publish("x", to: "t", qos: .atLeastOnce)
        #expect(server.connectCount == 1)
    }

    @Test func `who has no connection, no authenticator or no MQTT 5 is told so`() async throws {
        defer { server.end() }
        var settings = server.settings
        settings.login = .authenticator(Steps())
        let offline = try Client(settings)
        await #expect(throws: ClientError.notConnected) { try await offline.reauthenticate() }
        settings.login = .none
        let plain = try Client(settings)
        await #expect { try await plain.reauthenticate() } throws: {
            if case ClientError.settings = $0 { true } else { false }
        }
        settings.version = .v311
        let older = try Client(settings)
        await #expect { try await older.reauthenticate() } throws: {
            if case ClientError.unsupported = $0 { true } else { false }
        }
    }
}

private struct Away: Error {}

/// The first exchange succeeds, the others cannot begin.
private final class OneTime: Authenticator {
    let method = "steps"
    private let count = Locked(0)

    func makeExchange() -> any AuthenticationExchange {
        let number = count.withLock { count in
            count += 1
            return count
        }
        return Steps.Exchange(begins: number == 1 ? [1] : nil)
    }
}
