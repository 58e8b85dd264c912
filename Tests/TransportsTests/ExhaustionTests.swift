import Glibc
import Platform
import Testing
import Transports

@Suite struct ExhaustionTests {
    /// In a process of its own, with a few descriptors left.
    @Test func `without descriptors a listener rests, turns connections away, tells it once, and recovers`() async {
        await #expect(processExitsWith: .success) {
            try Self.exhaust()
        }
    }

    private static func exhaust() throws {
        let loop = try EventLoop(name: "exhausted")
        let listener = try Listener(address: .loopbackIPv4(port: 0), reusePort: false)
        let server = try EchoServer(listener, on: loop)
        let peers = try (0..<5).map { _ in try Peer(connectingTo: listener.boundAddress, on: loop) }

        try lowerDescriptorLimit()
        var hoard: [Int32] = []
        var turns = 0
        var firstPause: UInt64?
        var lastEnd: UInt64 = 0
        let deadline = MonotonicClock.milliseconds() + 60_000
        loop.run(
            TestTurn(
                // Again in each turn: threads that are not ours give descriptors back at times of their own.
                begin: { _ in while case let descriptor = dup(0), descriptor >= 0 { hoard.append(descriptor) } },
                end: { now in
                    turns += 1
                    lastEnd = now
                    if firstPause == nil, !server.reports.isEmpty { firstPause = now }
                    // Where the machine is busy a turn may find the end of two.
                    if peers.count(where: \.hasEnded) >= 3 || now >= deadline { loop.stop() }
                    return deadline
                }))
        // One connection per pause of 100 ms, each with an accept, an alarm and the peer's end; a spinning loop makes
        // thousands.
        #expect(turns < 40)
        #expect(server.accepted == 0)
        #expect((3...4).contains(peers.count(where: \.hasEnded)))
        #expect(lastEnd >= (firstPause ?? lastEnd) + 200)
        #expect(server.reports.count == 1)
        guard case .paused(let error)? = server.reports.first else {
            Issue.record("the trouble is told")
            return
        }
        #expect(error == SystemError(errno: EMFILE, operation: "accept"))

        hoard.forEach { close($0) }
        #expect(loop.run { server.accepted + peers.count(where: \.hasEnded) == 5 })
        guard case .resumed(let turnedAway)? = server.reports.last else {
            Issue.record("the end of the trouble is told")
            return
        }
        #expect(turnedAway == 5 - server.accepted)
        #expect(server.reports.count == 2)
    }

    private static func lowerDescriptorLimit() throws {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        getrlimit(resource, &limit)
        let lowestFree = dup(0)
        close(lowestFree)
        limit.rlim_cur = rlim_t(lowestFree) + 8
        try #require(setrlimit(resource, &limit) == 0)
    }
}
