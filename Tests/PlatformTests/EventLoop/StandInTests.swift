import Glibc
import Synchronization
import Testing

@testable import Platform

/// A loop whose thread goes to run blocking tasks.
@Suite(.timeLimit(.minutes(10))) struct StandInTests {
    /// Runs a loop on a thread, with another one that stands in for it, until `turn` stops it; both must come back.
    private func run(_ loop: EventLoop, _ turn: BlockingTaskTurn, standsIn: Bool = true) throws {
        var threads = [try NamedThread.start(name: "sits") { loop.run(turn) }]
        if standsIn { threads.append(try NamedThread.start(name: "stands in") { loop.standIn(turn) }) }
        threads.forEach { $0.join() }
    }

    @Test func `the stand-in runs the loop while a blocking task takes long, and goes on when it is over`() throws {
        let loop = try EventLoop(name: "loop")
        let mailbox = Mailbox<Int>(loop: loop)
        let (seen, isBack) = (Flag(), Flag())
        let turn = BlockingTaskTurn(loop) { turn in
            mailbox.drain { message in
                if message == 1 { seen.raise() }
                if message == 2 { turn.loop.stop() }
            }
            guard turn.count == 1 else { return nil }
            return {
                mailbox.post(1)
                // Nobody but the stand-in can open the message.
                seen.wait()
                isBack.raise()
                mailbox.post(2)
            }
        }
        try run(loop, turn)
        #expect(seen.isRaised && isBack.isRaised)
        #expect(Set(turn.threads).count == 2)
    }

    @Test func `without a stand-in the loop waits for the blocking task`() throws {
        let loop = try EventLoop(name: "loop")
        let done = Flag()
        let turn = BlockingTaskTurn(loop) { turn in
            if turn.count == 2 {
                #expect(done.isRaised)
                turn.loop.stop()
            }
            guard turn.count == 1 else { return nil }
            return {
                usleep(5000)
                done.raise()
                loop.wake()
            }
        }
        try run(loop, turn, standsIn: false)
        #expect(turn.count == 2)
    }

    @Test(arguments: [true, false])
    func `a loop that is stopped while its thread is away ends, and both threads with it`(isLong: Bool) throws {
        let loop = try EventLoop(name: "loop")
        let turn = BlockingTaskTurn(loop) { turn in
            guard turn.count == 1 else { return nil }
            return {
                loop.stop()
                if isLong { usleep(20_000) }
            }
        }
        try run(loop, turn)
        #expect(turn.count <= 2)
    }

    @Test func `one thread at a time runs the loop, however long the blocking tasks take`() throws {
        let loop = try EventLoop(name: "loop")
        let blockingTasks = Atomic<Int>(0)
        let isInside = Atomic<Bool>(false)
        let turn = BlockingTaskTurn(loop) { turn in
            let isAlone = !isInside.exchange(true, ordering: .relaxed)
            #expect(isAlone)
            defer { isInside.store(false, ordering: .relaxed) }
            if turn.count == 300 {
                turn.loop.stop()
                return nil
            }
            let pause = UInt32([0, 0, 0, 300, 1500, 4000][turn.count % 6])
            return {
                if pause > 0 { usleep(pause) }
                blockingTasks.add(1, ordering: .relaxed)
                loop.wake()
            }
        }
        try run(loop, turn)
        #expect(turn.count == 300)
        let finished = blockingTasks.load(ordering: .relaxed)
        #expect(finished == 299)
    }

    @Test func `whoever speaks soon after a blocking task is heard, and the end is, whether the loop is awake or asleep then`()
        throws
    {
        let loop = try EventLoop(name: "loop")
        let mailbox = Mailbox<Int>(loop: loop)
        let pair = try SocketPair()
        let answered = Atomic<Int>(0)
        var heard = 0
        let turn = BlockingTaskTurn(loop) { turn in
            if turn.count == 1 {
                let reader = ClosureHandler { _ in
                    var byte: UInt8 = 0
                    while read(pair.near, &byte, 1) == 1 { heard += 1 }
                }
                #expect(throws: Never.self) { try loop.register(pair.near, for: .readable, handler: reader) }
            }
            mailbox.drain { _ in heard += 1 }
            let count = heard
            guard count > answered.load(ordering: .relaxed) else { return nil }
            return { answered.store(count, ordering: .releasing) }
        }
        let caller = try NamedThread.start(name: "calls") { [far = pair.far] in
            for number in 1...300 {
                usleep(([0, 0, 0, 20, 60, 100, 400] as [UInt32])[number % 7])
                if number % 2 == 0 { mailbox.post(number) } else { _ = write(far, [1] as [UInt8], 1) }
                while answered.load(ordering: .acquiring) < number { sched_yield() }
            }
            loop.stop()
        }
        try run(loop, turn)
        caller.join()
        #expect(heard == 300)
    }

    @Test func `a stand-in that has gone to sleep is there when it is needed again`() throws {
        let loop = try EventLoop(name: "loop")
        let seen = Flag()
        let mailbox = Mailbox<Int>(loop: loop)
        var wakesAt: UInt64?
        let turn = BlockingTaskTurn(loop) { turn in
            mailbox.drain { _ in seen.raise() }
            if seen.isRaised { turn.loop.stop() }
            // Long enough for it to stop watching.
            wakesAt = turn.count == 1 ? MonotonicClock.milliseconds() + 150 : nil
            guard turn.count == 2 else { return nil }
            return {
                mailbox.post(1)
                seen.wait()
            }
        }
        turn.deadline = { wakesAt }
        try run(loop, turn)
        #expect(seen.isRaised)
    }
}

/// A turn with a blocking task at its end, if the test says so.
private final class BlockingTaskTurn: LoopTurn, @unchecked Sendable {
    let loop: EventLoop
    private(set) var count = 0
    private(set) var threads: [UInt] = []
    var deadline: () -> UInt64? = { nil }
    private let work: (BlockingTaskTurn) -> BlockingTask?
    private var blockingTask: BlockingTask?

    init(_ loop: EventLoop, work: @escaping (BlockingTaskTurn) -> BlockingTask?) {
        self.loop = loop
        self.work = work
    }

    func beginTurn(now: UInt64) {
        count += 1
        threads.append(UInt(pthread_self()))
    }

    func endOfTurn(now: UInt64) -> UInt64? {
        blockingTask = work(self)
        return deadline()
    }

    func takeBlockingTask() -> BlockingTask? {
        defer { blockingTask = nil }
        return blockingTask
    }
}
