import Glibc
import Platform
import Testing
import Transports

@Suite struct ListenerTests {
    @Test func `listeners of two loops share one port, and each of many connections reaches one of them`() throws {
        let loop = try EventLoop(name: "shared")
        let groups = try ListenAddress(host: .loopback, port: 0, family: .ipv4).open(loops: 2)
        let listeners = groups.flatMap { $0 }
        #expect(listeners.count == 2)
        #expect(Set(listeners.map(\.boundPort)).count == 1)
        let servers = try listeners.map { try EchoServer($0, on: loop) }
        let peers = try (0..<64).map { _ in try Peer(connectingTo: listeners[0].boundAddress, on: loop) }
        #expect(loop.run { servers.reduce(0) { $0 + $1.accepted } == 64 })
        #expect(servers.allSatisfy { $0.accepted > 0 })
        peers.forEach { $0.close() }
        #expect(loop.run { servers.reduce(0) { $0 + $1.ended } == 64 })
        listeners.forEach { $0.stop() }
        #expect(loop.registrationCount == 0)
    }

    @Test func `a listener that is suspended is refused by the kernel, and comes back on its port`() throws {
        let loop = try EventLoop(name: "suspended")
        let listeners = try ListenAddress(host: .loopback, port: 0, family: .ipv4).open(loops: 2).flatMap { $0 }
        // The first one has the port from the kernel, the second one has asked for it by number.
        let listener = listeners[1]
        listeners[0].stop()
        let server = try EchoServer(listener, on: loop)
        listener.suspend()
        if let peer = try? Peer(connectingTo: listener.boundAddress, on: loop) { #expect(loop.run { peer.failure != nil }) }
        #expect(loop.registrationCount == 0)
        try listener.resume()
        let peer = try Peer(connectingTo: listener.boundAddress, on: loop)
        #expect(loop.run { server.accepted == 1 })
        peer.close()
        #expect(loop.run { server.ended == 1 })
        listener.suspend()
        listener.stop()
        #expect(loop.registrationCount == 0)
    }

    @Test func `a listener that shares its socket with others closes what comes while it is suspended`() throws {
        let loop = try EventLoop(name: "closing")
        let listener = try ListenAddress(host: .loopback, port: 0, family: .ipv4).open(loops: 1)[0][0]
        let server = try EchoServer(listener, on: loop)
        listener.suspend()
        let peer = try Peer(connectingTo: listener.boundAddress, on: loop)
        #expect(loop.run { peer.hasEnded })
        try listener.resume()
        let next = try Peer(connectingTo: listener.boundAddress, on: loop)
        #expect(loop.run { server.accepted == 1 })
        next.close()
        #expect(loop.run { server.ended == 1 })
        listener.stop()
    }

    @Test func `a listener takes the place of another one without a gap`() throws {
        let loop = try EventLoop(name: "successor")
        let earlier = try ListenAddress(host: .loopback, port: 0, family: .ipv4).open(loops: 1)[0][0]
        // It waits to be accepted when the first one goes.
        let waiting = try Peer(connectingTo: earlier.boundAddress, on: loop)
        let later = try Listener(succeeding: earlier, isAlone: true)
        earlier.stop()
        let server = try EchoServer(later, on: loop)
        #expect(loop.run { server.accepted == 1 })
        waiting.close()
        #expect(loop.run { server.ended == 1 })
        later.stop()
    }

    @Test func `the file of a Unix socket stays for the one who takes its place, and ends with it`() throws {
        let path = "/tmp/martlet-\(getpid())-successor.sock"
        let earlier = try ListenAddress(host: .path(path), port: 0).open(loops: 1)[0][0]
        let later = try Listener(succeeding: earlier, isAlone: true)
        earlier.stop()
        #expect(access(path, F_OK) == 0)
        later.stop()
        #expect(access(path, F_OK) != 0)
    }

    @Test(arguments: [1, 2]) func `an address is bound beside one of all addresses that is about to go`(loops: Int) throws {
        let all = try ListenAddress(host: .all, port: 0, family: .ipv4).open(loops: loops)
        let address = ListenAddress(host: "127.0.0.1", port: all[0][0].boundPort)
        #expect(throws: ListenError.self) { _ = try address.open(loops: loops) }
        let beside = try address.open(loops: loops, leaving: all.flatMap { $0 })
        #expect(beside.count == loops)
        for listener in all.joined() { listener.stop() }
        #expect(throws: ListenError.self) { _ = try address.open(loops: loops) }
        for listener in beside.joined() { listener.stop() }
    }

    @Test(
        .enabled("there is IPv6 here") {
            (try? ListenAddress(host: "::1", port: 0).open(loops: 1)) != nil
        }) func `both families get the same port when the kernel chooses it`() throws
    {
        let listeners = try ListenAddress(host: .loopback, port: 0).open(loops: 2)
        for group in listeners { #expect(group.map(\.boundAddress.endpoint.host) == ["127.0.0.1", "::1"]) }
        #expect(Set(listeners.joined().map(\.boundPort)).count == 1)
    }

    @Test(arguments: [1, 2]) func `a second broker on the same port is refused`(loops: Int) throws {
        let listeners = try ListenAddress(host: .loopback, port: 0, family: .ipv4).open(loops: loops)
        let address = ListenAddress(host: "127.0.0.1", port: listeners[0][0].boundPort)
        let error = #expect(throws: ListenError.self) { _ = try address.open(loops: loops) }
        #expect(error?.description == "127.0.0.1:\(address.port): bind: Address already in use")
    }

    @Test func `an address of another machine is refused`() throws {
        let error = #expect(throws: ListenError.self) { _ = try ListenAddress(host: "192.0.2.1", port: 0).open(loops: 1) }
        #expect(error?.description == "192.0.2.1:0: bind: Cannot assign requested address")
    }

    @Test func `a port is free again when its listener has stopped, although connections linger`() throws {
        let loop = try EventLoop(name: "again")
        let listener = try Listener(address: .loopbackIPv4(port: 0), reusePort: false)
        var accepted: SocketChannel?
        try listener.start(on: loop, accept: { accepted = $0 }, report: { _ in })
        let peer = try Peer(connectingTo: listener.boundAddress, on: loop)
        #expect(loop.run { accepted != nil })
        // The side that closes first lingers in TIME_WAIT.
        accepted?.close()
        #expect(loop.run { peer.hasEnded })
        peer.close()
        listener.stop()
        let second = try Listener(address: listener.boundAddress, reusePort: false)
        #expect(second.boundPort == listener.boundPort)
    }

    @Test func `nobody listens on the port of a listener that has stopped`() throws {
        let loop = try EventLoop(name: "refused")
        let listener = try Listener(address: .loopbackIPv4(port: 0), reusePort: false)
        listener.stop()
        // On loopback the refusal may come with the call itself.
        do throws(SystemError) {
            let channel = try SocketChannel.connecting(to: listener.boundAddress)
            let waiter = Waiter()
            _ = try loop.register(channel.fileDescriptor, for: .writable, handler: waiter)
            #expect(loop.run { waiter.isReady })
            #expect(channel.connectionError()?.errno == ECONNREFUSED)
        } catch {
            #expect(error.errno == ECONNREFUSED)
        }
    }

    @Test func `a listener may be stopped by the connection that it accepts`() throws {
        let loop = try EventLoop(name: "one")
        let listener = try Listener(address: .loopbackIPv4(port: 0), reusePort: false)
        let peers = try (0..<3).map { _ in try Peer(connectingTo: listener.boundAddress, on: loop) }
        var accepted: [SocketChannel] = []
        try listener.start(
            on: loop,
            accept: {
                accepted.append($0)
                listener.stop()
            },
            report: { _ in })
        #expect(loop.run { peers.count { $0.failure != nil || $0.hasEnded } == 2 })
        #expect(accepted.count == 1)
        #expect(accepted.first?.peerAddress.host == "127.0.0.1")
    }

    final class Waiter: EventHandler {
        private(set) var isReady = false

        func ready(_ events: ReadyEvents) { isReady = true }
    }
}
