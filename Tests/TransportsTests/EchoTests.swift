import Platform
import Testing
import Transports

@Suite(.timeLimit(.minutes(10))) struct EchoTests {
    let loop: EventLoop

    init() throws {
        loop = try EventLoop(name: "echo")
    }

    @Test(arguments: [ListenAddress.Family.ipv4, .ipv6])
    func `bytes come back over each family`(family: ListenAddress.Family) throws {
        let listener = try openOne(family: family)
        let server = try EchoServer(listener, on: loop)
        let peer = try Peer(connectingTo: listener.boundAddress, on: loop)
        let sent = Array("hello, kernel".utf8)
        #expect(loop.run { server.accepted == 1 })
        #expect(peer.channel.connectionError() == nil)
        #expect(peer.channel.write(sent).count == sent.count)
        #expect(loop.run { peer.received.count >= sent.count })
        #expect(peer.received == sent)
        peer.close()
        #expect(loop.run { server.ended == 1 })
        listener.stop()
        #expect(loop.registrationCount == 0)
    }

    @Test func `two thousand connections come, are served, and go`() throws {
        ResourceLimits.raiseFileDescriptors()
        let listener = try openOne()
        let server = try EchoServer(listener, on: loop)
        let peers = try (0..<2000).map { _ in try Peer(connectingTo: listener.boundAddress, on: loop) }
        #expect(loop.run { server.accepted == 2000 })
        #expect(loop.registrationCount == 4001)
        for peer in peers { #expect(peer.channel.write([1, 2, 3]).count == 3) }
        #expect(loop.run { peers.allSatisfy { $0.received.count == 3 } })
        peers.forEach { $0.close() }
        #expect(loop.run { server.ended == 2000 })
        #expect(loop.registrationCount == 1)
        #expect(server.reports.isEmpty)
        listener.stop()
    }

    @Test func `what a peer sends before its end of stream is read before the end`() throws {
        let listener = try openOne()
        let server = try EchoServer(listener, on: loop)
        let peer = try Peer(connectingTo: listener.boundAddress, on: loop)
        #expect(loop.run { server.accepted == 1 })
        #expect(peer.channel.write([7]).count == 1)
        peer.channel.shutdownSending()
        #expect(loop.run { peer.hasEnded })
        #expect(peer.received == [7])
        listener.stop()
    }

    @Test func `a connection moves to another loop with all that it had not read`() throws {
        let listener = try openOne()
        var accepted: SocketChannel?
        try listener.start(on: loop, accept: { accepted = $0 }, report: { _ in })
        let peer = try Peer(connectingTo: listener.boundAddress, on: loop)
        #expect(loop.run { accepted != nil })
        #expect(peer.channel.write([1, 2, 3]).count == 3)

        let other = try EventLoop(name: "other")
        let moved = Mailbox<SocketChannel>(loop: other)
        let thread = try NamedThread.start(name: "other") {
            nonisolated(unsafe) var connections: [EchoConnection] = []
            other.run(
                TestTurn(end: { _ in
                    moved.drain { channel in
                        let connection = EchoConnection(channel, on: other) { _ in other.stop() }
                        #expect(throws: Never.self) { try connection.start() }
                        connections.append(connection)
                    }
                    return nil
                }))
            #expect(connections.count == 1)
        }
        // As a handler would: first off this loop (here it never was on), then away.
        moved.post(try #require(accepted))
        accepted = nil
        #expect(loop.run { peer.received == [1, 2, 3] })
        peer.close()
        thread.join()
        listener.stop()
    }

    private func openOne(family: ListenAddress.Family = .ipv4) throws -> Listener {
        try #require(try ListenAddress(host: .loopback, port: 0, family: family).open(loops: 1).first?.first)
    }
}
