import EpollLoop
import Glibc
import Testing

@Suite struct ThreadTests {
    @Test func `join waits for the body, and a second join returns`() throws {
        let done = Flag()
        let thread = try LoopThread.start(name: "sleeper") {
            usleep(20_000)
            done.raise()
        }
        thread.join()
        #expect(done.isRaised)
        thread.join()
    }

    @Test(arguments: ["loop 0", "a name that the kernel would refuse", "éééééééééééé"])
    func `a thread has its name, cut to what the kernel keeps`(name: String) throws {
        let lock = Lock()
        nonisolated(unsafe) var line: [UInt8] = []
        let thread = try LoopThread.start(name: name) {
            lock.withLock { line = Self.ownName() }
        }
        thread.join()
        let kept = String(decoding: line, as: UTF8.self)
        #expect(name.hasPrefix(kept))
        #expect(kept.utf8.count >= min(name.utf8.count, 14))
    }

    /// What the kernel calls the calling thread.
    private static func ownName() -> [UInt8] {
        guard let file = try? SystemCall.open("/proc/thread-self/comm", flags: O_RDONLY) else { return [] }
        defer { file.close() }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(file.rawValue, &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count - 1)))
    }

    @Test func `a lock lets one thread in at a time`() throws {
        let lock = Lock()
        nonisolated(unsafe) var count = 0
        let threads = try (0..<4).map { index in
            try LoopThread.start(name: "counter \(index)") {
                for _ in 0..<10_000 { lock.withLock { count += 1 } }
            }
        }
        threads.forEach { $0.join() }
        #expect(count == 40_000)
    }

    @Test func `a lock is free again after its body threw`() {
        struct Refused: Error {}
        let lock = Lock()
        #expect(throws: Refused.self) { try lock.withLock { throw Refused() } }
        #expect(lock.withLock { 1 } == 1)
    }

    @Test func `the processors that may be used are at least one and at most those of the machine`() {
        #expect((1...Int(sysconf(Int32(_SC_NPROCESSORS_CONF)))).contains(ProcessorCount.usable()))
    }

    @Test func `random bytes differ, and fill more than the kernel gives at once`() {
        #expect(RandomBytes.seed() != RandomBytes.seed())
        var bytes = [UInt8](repeating: 0, count: 1000)
        bytes.withUnsafeMutableBytes(RandomBytes.fill)
        #expect(Set(bytes[900...]).count > 1)
    }
}
