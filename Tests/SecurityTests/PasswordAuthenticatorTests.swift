import MQTTCodec
import MartletTestKit
import Platform
import Testing

@testable import BrokerModel
@testable import Security

@Suite(.timeLimit(.minutes(10))) struct PasswordAuthenticatorTests {
    private let users: PasswordFile

    init() throws {
        let hash = try #require(PasswordRecipe.pbkdf2(iterations: 1).hash(of: [1, 2]))
        users = try PasswordFile(Array("anna:\(hash.text)".utf8), file: "users")
    }

    @Test func `the right password lets in, and all else is answered alike`() {
        let pool = WorkerPool(name: "test", threads: 2, queue: 10)
        defer { pool.stop() }
        let authenticator = PasswordAuthenticator(users: users, workers: pool)
        #expect(answer(of: authenticator, to: .password(userName: "anna", password: [1, 2])).acceptedUser == "anna")
        for step: AuthenticationRequest.Step in [
            .password(userName: "anna", password: [1]), .password(userName: "anna", password: nil),
            .password(userName: "bob", password: [1, 2]), .password(userName: nil, password: nil),
            .password(userName: nil, password: [1, 2]),
        ] {
            #expect(answer(of: authenticator, to: step).refusal == .notAuthorized)
        }
    }

    @Test func `an empty password lets nobody in, whatever the file says`() throws {
        let hash = try #require(PasswordRecipe.pbkdf2(iterations: 1).hash(of: []))
        let pool = WorkerPool(name: "test", threads: 1, queue: 10)
        defer { pool.stop() }
        let authenticator = PasswordAuthenticator(
            users: try PasswordFile(Array("anna:\(hash.text)".utf8), file: "users"), workers: pool)
        #expect(answer(of: authenticator, to: .password(userName: "anna", password: [])).refusal == .notAuthorized)
    }

    @Test func `a pool without room answers that the broker is busy, and the log hears why`() {
        let pool = WorkerPool(name: "test", threads: 1, queue: 0)
        defer { pool.stop() }
        let authenticator = PasswordAuthenticator(users: users, workers: pool)
        let answer = answer(of: authenticator, to: .password(userName: "anna", password: [1, 2]))
        guard case .refused(.serverBusy, let failure) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(failure.words == "too many logins wait for an answer")
    }

    private func answer(of authenticator: PasswordAuthenticator, to step: AuthenticationRequest.Step) -> AuthenticationOutcome {
        let answer = Answer()
        let subject = LoginThrottle().subject(network: "n", site: "s", userName: nil, clientIdentifier: "c")
        _ = authenticator.authenticate(
            AuthenticationRequest(clientIdentifier: "c", info: ConnectionInfo(address: "10.0.0.1"), step: step), as: subject
        ) { answer.give($0) }
        return answer.wait()
    }
}

/// An answer that another thread gives.
private final class Answer: @unchecked Sendable {
    private let given = Semaphore()
    private var outcome = AuthenticationOutcome.refused(.unspecifiedError)

    func give(_ outcome: AuthenticationOutcome) {
        self.outcome = outcome
        given.signal()
    }

    func wait() -> AuthenticationOutcome {
        given.wait()
        return outcome
    }
}
