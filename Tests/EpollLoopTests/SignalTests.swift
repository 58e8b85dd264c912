import EpollLoop
import Glibc
import Platform
import Testing

@Suite(.timeLimit(.minutes(10))) struct SignalTests {
    /// Directed at the loop's own thread: the test process has others that do not block it.
    @Test func `a signal arrives as an event of the loop`() throws {
        let loop = try EventLoop(name: "signals")
        let result = Received()
        let thread = try NamedThread.start(name: "signals") {
            do {
                let source = try SignalSource(signals: [SIGUSR1, SIGUSR2])
                defer { source.close() }
                let handler = ClosureHandler { _ in
                    result.append(source.read())
                    if result.signals.count == 2 { loop.stop() }
                }
                let registration = try loop.register(source.fileDescriptor, for: .readable, handler: handler)
                pthread_kill(pthread_self(), SIGUSR1)
                pthread_kill(pthread_self(), SIGUSR2)
                loop.run(TestTurn())
                loop.deregister(registration)
                #expect(source.read().isEmpty)
            } catch {
                Issue.record(error)
            }
        }
        thread.join()
        #expect(result.signals.sorted() == [SIGUSR1, SIGUSR2])
    }

    @Test func `a signal that does not exist is refused`() {
        #expect(throws: SystemError(errno: EINVAL, operation: "signalfd")) { _ = try SignalSource(signals: [1000]) }
    }

    final class Received: Sendable {
        private let received = Locked<[Int32]>([])

        func append(_ signals: [Int32]) { received.withLock { $0 += signals } }

        var signals: [Int32] { received.value }
    }
}
