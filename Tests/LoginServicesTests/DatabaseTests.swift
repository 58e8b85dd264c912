import MQTTCodec
import Platform
import Security
import Testing

@testable import BrokerModel
@testable import LoginServices

@Suite(.timeLimit(.minutes(5))) struct DatabaseTests {
    /// Has one hash for everybody.
    private final class Users: UserDatabase {
        let identity = "test"
        private let hash: String

        init(_ hash: String) { self.hash = hash }

        func passwordHash(of user: [UInt8], deadline: UInt64) -> String? { hash }

        func isSuperuser(_ user: [UInt8], deadline: UInt64) -> Bool { false }

        func topics(of user: [UInt8], deadline: UInt64) -> UserTopics? { nil }
    }

    @Test(arguments: ["plain", "", "PBKDF2$sha512$100000$$", "$2b$99$abc", "{SSHA}AAAA"])
    func `a hash of no form that is known is its user's, and no failure of the database`(hash: String) async {
        let workers = WorkerPool(name: "test", threads: 1, queue: 100)
        defer { workers.stop() }
        let question = LoginQuestion(
            userName: "odd", password: Array(hash.utf8) + [1], clientIdentifier: "c1", info: ConnectionInfo(address: "192.0.2.7"),
            subject: LoginThrottle().subject(network: "n", site: "s", userName: "odd", clientIdentifier: "c1"))
        let source = DatabaseLoginSource("sqlite", Users(hash), workers: workers)
        let answer = await withCheckedContinuation { continuation in
            _ = source.decide(question) { continuation.resume(returning: $0) }
        }
        guard case .refused(let failure) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(failure.words == "its password's hash in the login source sqlite has a form that is not known here")
    }
}
