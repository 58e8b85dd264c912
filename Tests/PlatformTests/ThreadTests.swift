import Glibc
import Platform
import Testing

@Suite(.timeLimit(.minutes(10))) struct ThreadTests {
    @Test func `join waits for the body, and a second join returns`() throws {
        let done = Locked(false)
        let thread = try NamedThread.start(name: "sleeper") {
            usleep(20_000)
            done.replace(with: true)
        }
        thread.join()
        #expect(done.value)
        thread.join()
    }

    @Test(arguments: ["loop 0", "a name that the kernel would refuse", "éééééééééééé"])
    func `a thread has its name, cut to what the kernel keeps`(name: String) throws {
        let line = Locked<[UInt8]>([])
        let thread = try NamedThread.start(name: name) {
            line.replace(with: Self.ownName())
        }
        thread.join()
        let kept = String(decoding: line.value, as: UTF8.self)
        #expect(name.hasPrefix(kept))
        #expect(kept.utf8.count >= min(name.utf8.count, 14))
    }

    @Test func `a thread that gives way is nicer than the others, and than it was`() throws {
        let steps = Locked<[Int32]>([])
        let thread = try NamedThread.start(name: "nice") {
            let before = getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)
            NamedThread.giveWay()
            steps.replace(with: [before, getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)])
        }
        thread.join()
        #expect(steps.value.count == 2 && steps.value[1] == min(19, steps.value[0] + 5))
        #expect(steps.value[0] == getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0))
    }

    /// What the kernel calls the calling thread.
    private static func ownName() -> [UInt8] {
        guard let file = try? SystemCall.open("/proc/thread-self/comm", flags: O_RDONLY) else { return [] }
        defer { file.close() }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(file.rawValue, &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count - 1)))
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
