import MQTTCodec
import Platform
import Security
import Testing

@testable import BrokerModel
@testable import LoginServices

/// Whose time it is that a login waits for its turn at a server.
@Suite(.timeLimit(.minutes(5))) struct ServerTurnTests {
    private let question = LoginQuestion(
        userName: "ann", password: [1], clientIdentifier: "c1", info: ConnectionInfo(address: "192.0.2.7"),
        subject: LoginThrottle().subject(network: "n", site: "s", userName: "ann", clientIdentifier: "c1"))

    /// What is answered, and how many milliseconds the server had from its turn on; nil where it was not asked.
    private func ask(_ workers: WorkerPool, within milliseconds: UInt64) async -> (answer: LoginAnswer, left: UInt64?) {
        let left = Locked<UInt64?>(nil)
        let answer: LoginAnswer = await withCheckedContinuation { continuation in
            _ = workers.decide(question, within: milliseconds) {
                continuation.resume(returning: $0)
            } by: { userName, _, deadline throws(SourceFailure) in
                left.replace(with: deadline - MonotonicClock.milliseconds())
                return .allowed(userName: userName, LoginGrant(source: "ldap"))
            }
        }
        return (answer, left.value)
    }

    @Test func `a server has all of its time from a login's turn on, and is not blamed for one that comes too late`() async {
        let workers = WorkerPool(name: "test", threads: 1, queue: 100)
        defer { workers.stop() }
        // Somebody else's turn takes its time.
        let began = MonotonicClock.milliseconds()
        workers.submit(
            PasswordCheck(of: question.subject) {
                while MonotonicClock.milliseconds() < began + 100 {}
            } refuse: {
            })
        let (answer, left) = await ask(workers, within: 60_000)
        if case .allowed = answer {} else { Issue.record("\(answer)") }
        #expect(left.map { $0 > 59_950 } == true)
        let late = await ask(workers, within: 0)
        if case .busy = late.answer {} else { Issue.record("\(late.answer)") }
        #expect(late.left == nil)
    }
}
