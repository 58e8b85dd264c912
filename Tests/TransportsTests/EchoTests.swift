import EpollLoop
import Testing
import Transports

@Suite struct EchoTests {
    /// Collects what comes back.
    final class Client: EventHandler {
        let channel: TCPChannel
        var received: [UInt8] = []

        init(_ channel: TCPChannel) { self.channel = channel }

        func ready(_ events: ReadyEvents) {
            if let bytes = channel.readBytes() { received += bytes }
        }
    }

    @Test(arguments: [ListenAddress.Family.ipv4, .ipv6])
    func `bytes come back over each family`(family: ListenAddress.Family) throws {
        let loop = try EventLoop(name: "echo")
        let listener = try #require(try ListenAddress(host: .loopback, port: 0, family: family).open(loops: 1).first?.first)
        let server = try EchoServer(listener, on: loop)
        let client = Client(try TCPChannel.connecting(to: listener.boundAddress))
        let registration = try loop.register(client.channel.fileDescriptor, for: .readable, handler: client)
        let sent = Array("hello, kernel".utf8)
        #expect(loop.run { server.accepted == 1 })
        guard case .wrote(sent.count) = client.channel.write(sent) else {
            Issue.record("a short message is taken whole")
            return
        }
        #expect(loop.run { client.received.count >= sent.count })
        #expect(client.received == sent)
        loop.deregister(registration)
        client.channel.close()
        #expect(loop.run { server.ended == 1 })
        listener.stop()
        #expect(loop.registrationCount == 0)
    }
}
