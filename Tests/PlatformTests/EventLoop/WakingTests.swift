import Glibc
import Testing

@testable import Platform

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

@Suite struct DoorbellTests {
    @Test func `a sleeping loop is to be woken once, however often it rings`() {
        let doorbell = Doorbell()
        let sleptFirst = doorbell.prepareToSleep()
        let rings = (0..<3).map { _ in doorbell.ring() }
        doorbell.answer()
        let sleptSecond = doorbell.prepareToSleep()
        doorbell.answer()
        #expect(sleptFirst && sleptSecond)
        #expect(rings == [true, false, false])
    }

    @Test func `a ring while awake forbids the next sleep and wakes nobody`() {
        let doorbell = Doorbell()
        let rings = (0..<2).map { _ in doorbell.ring() }
        let sleptAfterRing = doorbell.prepareToSleep()
        doorbell.answer()
        let sleptAfterAnswer = doorbell.prepareToSleep()
        #expect(rings == [false, false])
        #expect(!sleptAfterRing)
        #expect(sleptAfterAnswer)
    }
}

/// Whether a loop waits awake after a blocking task.
@Suite struct BusyWaitTests {
    /// How long the loop stays awake after a blocking task, in microseconds; then something comes after `wait`.
    private func stay(_ busyWait: inout BusyWait, untilSomethingComesAfter wait: UInt64) -> UInt64 {
        busyWait.cameBack()
        #expect(busyWait.isDue)
        defer { busyWait.end(afterMicroseconds: wait) }
        return busyWait.begin()
    }

    @Test func `a loop stays awake when somebody spoke soon after the blocking task before, and only then`() {
        var busyWait = BusyWait(processors: 2)
        #expect(stay(&busyWait, untilSomethingComesAfter: 100) == 0)
        #expect(stay(&busyWait, untilSomethingComesAfter: 30) == BusyWait.awakeMicrosecondsMax)
        #expect(stay(&busyWait, untilSomethingComesAfter: 1000) == BusyWait.awakeMicrosecondsMax)
        #expect(stay(&busyWait, untilSomethingComesAfter: 1000) == 0)
    }

    @Test func `there is one busy wait a blocking task, and none without`() {
        var busyWait = BusyWait(processors: 2)
        #expect(!busyWait.isDue)
        busyWait.cameBack()
        _ = busyWait.begin()
        #expect(!busyWait.isDue)
    }

    @Test func `with one processor nobody could speak meanwhile`() {
        var busyWait = BusyWait(processors: 1)
        busyWait.cameBack()
        #expect(!busyWait.isDue)
    }
}
