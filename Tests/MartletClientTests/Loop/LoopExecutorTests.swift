import Glibc
import Platform
import Testing

@testable import MartletClient

@Suite struct LoopExecutorTests {
    @Test func `a task that prefers the loop runs on its thread, also after it has waited`() async throws {
        let loop = ClientLoop(try EventLoop(name: "test"))
        let loopThread = Locked<UInt>(0)
        let thread = try NamedThread.start(name: "test") {
            loopThread.withLock { $0 = currentThread() }
            loop.events.run(loop)
        }
        let seen = await Task(executorPreference: loop.executor) {
            let first = currentThread()
            await Task.detached {}.value
            return [first, currentThread()]
        }.value
        loop.events.stop()
        thread.join()
        #expect(seen == [loopThread.value, loopThread.value])
    }
}

private func currentThread() -> UInt { UInt(pthread_self()) }
