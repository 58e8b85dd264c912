import Configuration
import MQTTCodec
import MartletTestKit
import Platform
import Security
import Testing

@testable import BrokerCore
@testable import BrokerModel
@testable import MartletServer
@testable import ServerLoops

@Suite(.timeLimit(.minutes(10))) struct LoginServiceTests {
    private let directory: TemporaryDirectory
    private let workers = WorkerPool(name: "test", threads: 1, queue: 10)
    private let messages = Messages()
    /// What the password file has of anna.
    private let entry: String

    init() throws {
        directory = try TemporaryDirectory()
        entry = try PasswordScheme.sha512.entry(for: [1])
        let scram = try PasswordScheme.scramSHA256.entry(for: Array("x".utf8))
        try FileReplacement.write(Array("anna:\(entry)\n".utf8), to: "\(directory.path)/users")
        try FileReplacement.write(Array("anna:\(scram)\n".utf8), to: "\(directory.path)/scram")
    }

    @Test func `a password is checked elsewhere and comes back as a message`() throws {
        var logins = try logins()
        logins.request(request(.password(userName: "anna", password: [1])), from: connection)
        let answers = told(by: &logins, now: 0)
        workers.stop()
        #expect(answers.map(\.isAccepted) == [true])
    }

    @Test func `a listener without the file refuses, and one without the method says so`() throws {
        var logins = try logins { $0.listeners[0].security = SecurityConfiguration() }
        logins.request(request(.password(userName: "anna", password: [1])), from: connection)
        #expect(told(by: &logins, now: 0).map(\.refusal) == [.notAuthorized])
        logins.request(request(.begin(method: "SCRAM-SHA-256", data: nil)), from: connection)
        #expect(told(by: &logins, now: 0).map(\.refusal) == [.badAuthenticationMethod])
    }

    @Test func `an exchange is the connection's own and ends with it`() throws {
        var logins = try logins()
        logins.request(request(.begin(method: "SCRAM-SHA-256", data: nil)), from: connection)
        #expect(told(by: &logins, now: 0).map(\.isChallenge) == [true])
        logins.forget(connection)
        logins.request(request(.proceed(method: "SCRAM-SHA-256", data: nil)), from: connection)
        #expect(messages.isEmpty, "nobody waits for it")
        logins.request(request(.begin(method: "SCRAM-SHA-256", data: nil)), from: connection)
        #expect(told(by: &logins, now: 0).count == 1)
        logins.request(request(.abandon), from: connection)
        logins.request(request(.proceed(method: "SCRAM-SHA-256", data: nil)), from: connection)
        #expect(messages.isEmpty)
    }

    @Test func `answers to repeated failures are held back until they are due`() throws {
        var logins = try logins { $0.listeners[0].security = SecurityConfiguration() }
        let bad = request(.password(userName: "anna", password: [2]))
        for _ in 0..<3 {
            logins.request(bad, from: connection)
            #expect(told(by: &logins, now: 1000).count == 1)
        }
        #expect(logins.nextDeadline == nil)
        for wait in [UInt64(250), 500] {
            logins.request(bad, from: connection)
            #expect(told(by: &logins, now: 1000).isEmpty)
            #expect(logins.nextDeadline == 1250)
            _ = wait
        }
        var answers = 0
        logins.advance(to: 1249) { _, _ in answers += 1 }
        #expect(answers == 0)
        logins.advance(to: 1250) { _, _ in answers += 1 }
        #expect(answers == 1 && logins.nextDeadline == 1500)
        logins.advance(to: 9999) { _, _ in answers += 1 }
        #expect(answers == 2 && logins.nextDeadline == nil)
    }

    @Test func `everything wrong with any file is told, and each file is read once`() throws {
        try FileReplacement.write(Array("anna:x\n".utf8), to: "\(directory.path)/users")
        try FileReplacement.write(Array("nonsense\n".utf8), to: "\(directory.path)/rules")
        var configuration = configuration
        configuration.listeners[0].security.accessControlFile = "\(directory.path)/rules"
        configuration.listeners.append(configuration.listeners[0])
        let error = try #require(throws: SecurityFilesError.self) { try SecurityTables(reading: configuration, workers: workers) }
        #expect(error.problems.map(\.file) == ["\(directory.path)/users", "\(directory.path)/rules"])
    }

    @Test func `the core is told what to ask for`() throws {
        let tables = try SecurityTables(reading: configuration, workers: workers)
        var settings = BrokerSettings(configuration, log: [])
        tables.apply(to: &settings)
        #expect(settings.listeners[0].checksPasswords && settings.listeners[0].accessControl == nil)
        #expect(settings.authenticationMethods == ["SCRAM-SHA-256"])
    }

    @Test(arguments: [("anna:@\n", true), ("bob:@\n", false), ("", false)])
    func `a login decided by files that have changed meanwhile holds only if its user has not`(users: String, holds: Bool) throws {
        var logins = try logins()
        logins.request(request(.password(userName: "anna", password: [1])), from: connection)
        let text = users.split(separator: "@", omittingEmptySubsequences: false).joined(separator: entry)
        try FileReplacement.write(Array(text.utf8), to: "\(directory.path)/users")
        logins.tables = try SecurityTables(reading: configuration, workers: workers)
        #expect(told(by: &logins, now: 0).map(\.refusal) == [holds ? nil : .notAuthorized])
    }

    @Test func `a reload keeps those who are where they were in the files, and nobody else`() throws {
        let before = try SecurityTables(reading: configuration, workers: workers)
        let (password, method) = (login("anna"), login("anna", method: "SCRAM-SHA-256"))
        let unchanged = try SecurityTables(reading: configuration, workers: workers)
        #expect(unchanged.keeps(password, of: before) && unchanged.keeps(method, of: before))
        #expect(unchanged.keeps(login(nil), of: before), "whether a name is needed is asked elsewhere")
        #expect(!unchanged.keeps(login("bob"), of: before) && !unchanged.keeps(login("bob", method: "SCRAM-SHA-256"), of: before))

        let other = try PasswordScheme.sha512.entry(for: [1])
        try FileReplacement.write(Array("anna:\(other)\n".utf8), to: "\(directory.path)/users")
        let salted = try SecurityTables(reading: configuration, workers: workers)
        #expect(!salted.keeps(password, of: before), "another hash, and nobody knows whether of the same password")
        #expect(salted.keeps(method, of: before))

        try FileReplacement.write([], to: "\(directory.path)/scram")
        #expect(try !SecurityTables(reading: configuration, workers: workers).keeps(method, of: before))
        var without = configuration
        without.listeners[0].security.passwordFile = nil
        without.listeners[0].security.scramFile = nil
        let open = try SecurityTables(reading: without, workers: workers)
        #expect(open.keeps(password, of: before) && !open.keeps(method, of: before), "any name will do, no method will")
        #expect(!before.keeps(password, of: open), "nobody has checked the name so far")
        without.listeners[0].security.allowsAnonymous = false
        #expect(try !SecurityTables(reading: without, workers: workers).keeps(password, of: before))
        without.listeners[0].tls.userNameSource = .identity
        #expect(try SecurityTables(reading: without, workers: workers).keeps(password, of: before))
    }

    @Test func `a reload keeps who has shown to know a key only with the same key`() throws {
        var configuration = configuration
        configuration.listeners[0].security.preSharedKeyFile = "\(directory.path)/keys"
        configuration.listeners[0].tls.userNameSource = .identity
        func tables(_ keys: String) throws -> SecurityTables {
            try FileReplacement.write(Array(keys.utf8), to: "\(directory.path)/keys")
            return try SecurityTables(reading: configuration, workers: workers)
        }
        var info = ConnectionInfo(address: "10.0.0.1")
        info.preSharedKeyIdentity = "anna"
        let login = ConnectedLogin(info: info, userName: "anna", method: nil)
        let before = try tables("anna:0011\n")
        #expect(try tables("bob:22\nanna:0011\n").keeps(login, of: before))
        #expect(try !tables("anna:0012\n").keeps(login, of: before))
        #expect(try !tables("bob:22\n").keeps(login, of: before))
    }

    private func login(_ userName: EncodedString?, method: EncodedString? = nil) -> ConnectedLogin {
        ConnectedLogin(info: ConnectionInfo(address: "10.0.0.1"), userName: userName, method: method)
    }

    private let connection = ConnectionID(slot: 1, generation: 1)

    private var configuration: BrokerConfiguration {
        var configuration = BrokerConfiguration.default()
        configuration.listeners[0].security.passwordFile = "\(directory.path)/users"
        configuration.listeners[0].security.scramFile = "\(directory.path)/scram"
        return configuration
    }

    private func logins(_ change: (inout BrokerConfiguration) -> Void = { _ in }) throws -> LoginService {
        var configuration = configuration
        change(&configuration)
        var logging = LoggingConfiguration()
        logging.destinations = []
        return LoginService(
            tables: try SecurityTables(reading: configuration, workers: workers), throttle: LoginThrottle(), log: try Log(logging)
        ) { [messages] in messages.put($0) }
    }

    private func request(_ step: AuthenticationRequest.Step) -> AuthenticationRequest {
        AuthenticationRequest(clientIdentifier: "client", info: ConnectionInfo(address: "10.0.0.1"), step: step)
    }

    /// What the core hears of the next message, if any.
    private func told(by logins: inout LoginService, now: UInt64) -> [AuthenticationOutcome] {
        var outcomes: [AuthenticationOutcome] = []
        logins.decided(messages.take(), now: now) { outcomes.append($1) }
        return outcomes
    }
}

/// The messages to the loop.
private final class Messages: Sendable {
    private let messages = Locked<[LoginService.Decision]>([])

    var isEmpty: Bool { messages.value.isEmpty }

    func put(_ message: LoginService.Decision) { messages.withLock { $0.append(message) } }

    /// Waits for the next one.
    func take() -> LoginService.Decision {
        while true {
            if let message = messages.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return message }
        }
    }
}

extension AuthenticationOutcome {
    fileprivate var isAccepted: Bool { if case .accepted = self { true } else { false } }
    fileprivate var isChallenge: Bool { if case .challenge = self { true } else { false } }
    fileprivate var refusal: ReasonCode? { if case .refused(let reason, _) = self { reason } else { nil } }
}
