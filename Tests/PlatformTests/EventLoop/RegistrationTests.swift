import Glibc
import Platform
import Testing

@Suite struct RegistrationTests {
    let loop: EventLoop

    init() throws {
        loop = try EventLoop(name: "registrations")
    }

    @Test func `an event queued for a descriptor that was deregistered and reused is dropped`() throws {
        let first = try SocketPair()
        let second = try SocketPair()
        let fresh = try SocketPair()
        let newcomer = ClosureHandler()
        var registrations: [Int32: Registration] = [:]
        var served: [Int32] = []

        // Both are ready in one turn. Whoever is served first puts a new socket in the other's place: same descriptor,
        // same table index.
        func replaceOther(of own: Int32) throws {
            served.append(own)
            let other = own == first.near ? second.near : first.near
            guard let stale = registrations[other], served.count == 1 else { return }
            loop.deregister(stale)
            try #require(dup2(fresh.near, other) == other)
            let renewed = try loop.register(other, for: .readable, handler: newcomer)
            #expect(renewed.index == stale.index)
            #expect(renewed.generation != stale.generation)
            registrations[other] = renewed
        }
        for pair in [first, second] {
            pair.sayOne()
            let own = pair.near
            registrations[own] = try loop.register(
                own, for: .readable, handler: ClosureHandler { _ in #expect(throws: Never.self) { try replaceOther(of: own) } })
        }
        loop.run(turns: 1)
        #expect(served.count == 1)
        #expect(newcomer.events.isEmpty)

        fresh.sayOne()
        loop.run(turns: 1)
        #expect(newcomer.events == [.readable])
    }

    @Test func `a registration that is gone changes nothing`() throws {
        let pair = try SocketPair()
        let earlier = try loop.register(pair.near, for: .readable, handler: ClosureHandler())
        loop.deregister(earlier)
        let handler = ClosureHandler()
        _ = try loop.register(pair.near, for: .readable, handler: handler)
        loop.deregister(earlier)
        loop.modify(earlier, interest: [])
        pair.sayOne()
        loop.run(turns: 1)
        #expect(handler.events == [.readable])
        #expect(loop.registrationCount == 1)
    }

    @Test func `a handler that deregisters itself lives until the end of the turn`() throws {
        let pair = try SocketPair()
        pair.sayOne()
        var registration: Registration?
        weak var watched: ClosureHandler?
        var aliveAtEndOfTurn = false
        do {
            let handler = ClosureHandler { _ in registration.map(loop.deregister) }
            watched = handler
            registration = try loop.register(pair.near, for: .readable, handler: handler)
        }
        loop.run(
            TestTurn(end: { _ in
                aliveAtEndOfTurn = watched != nil
                loop.stop()
                return 0
            }))
        #expect(aliveAtEndOfTurn)
        #expect(watched == nil)
    }

    @Test func `the interest decides which events are told`() throws {
        let pair = try SocketPair()
        let handler = ClosureHandler()
        let registration = try loop.register(pair.near, for: [], handler: handler)
        pair.sayOne()
        loop.run(turns: 2)
        loop.modify(registration, interest: .writable)
        loop.run(turns: 1)
        loop.modify(registration, interest: [.readable, .writable])
        loop.run(turns: 1)
        loop.modify(registration, interest: .readable)
        loop.run(turns: 1)
        #expect(handler.events == [.writable, [.readable, .writable], .readable])
    }

    @Test func `a hang-up is told to an empty interest`() throws {
        let pair = try SocketPair()
        let handler = ClosureHandler()
        _ = try loop.register(pair.near, for: [], handler: handler)
        shutdown(pair.near, Int32(SHUT_RDWR))
        loop.run(turns: 1)
        #expect(handler.events == [.hangUp])
    }

    @Test func `what cannot be polled is refused with the kernel's reason`() throws {
        let file = try SystemCall.open("/proc/self/exe", flags: O_RDONLY)
        defer { file.close() }
        #expect(throws: SystemError(errno: EPERM, operation: "epoll_ctl")) {
            _ = try loop.register(file.rawValue, for: .readable, handler: ClosureHandler())
        }
        #expect(loop.registrationCount == 0)
    }

    @Test func `more ready descriptors than a turn serves are all served in the next ones`() throws {
        let pairs = try (0..<600).map { _ in try SocketPair() }
        var served = Set<Int32>()
        for pair in pairs {
            pair.sayOne()
            let descriptor = pair.near
            _ = try loop.register(descriptor, for: .readable, handler: ClosureHandler { _ in served.insert(descriptor) })
        }
        loop.run(turns: 1)
        #expect(served.count == 256)
        loop.run(turns: 2)
        #expect(served.count == 600)
    }
}
