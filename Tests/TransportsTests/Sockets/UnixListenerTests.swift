import Glibc
import Platform
import Testing

@testable import Transports

@Suite struct UnixListenerTests {
    let path = "/tmp/martlet-\(RandomBytes.seed()).sock"

    @Test func `a listener makes its file, accepts there, and takes it away`() throws {
        let loop = try EventLoop(name: "unix")
        let listener = try #require(try ListenAddress(host: .path(path), port: 0).open(loops: 1)[0].first)
        var accepted: SocketChannel?
        try listener.start(on: loop, accept: { accepted = $0 }, report: { _ in })
        let peer = try SocketChannel.connecting(to: try #require(SocketAddress.unix(path: path)))
        #expect(loop.run { accepted != nil })
        #expect(accepted?.peerAddress == .local)
        #expect(listener.boundAddress.description == path)
        listener.stop()
        #expect(access(path, F_OK) != 0)
        peer.close()
    }

    @Test func `a second listener on the same file is refused, and the first goes on`() throws {
        let first = try ListenAddress(host: .path(path), port: 0).open(loops: 2)
        #expect(first.map(\.count) == [1, 1])
        do throws(ListenError) {
            _ = try ListenAddress(host: .path(path), port: 0).open(loops: 1)
            Issue.record("it was let in")
        } catch {
            #expect(error.description == "\(path): bind: Address already in use")
        }
        #expect(access(path, F_OK) == 0)
        for listener in first.joined() { listener.stop() }
    }

    @Test func `a path that is too long for a socket has no address`() {
        #expect(SocketAddress.unix(path: "/" + String(repeating: "x", count: 107)) == nil)
        #expect(SocketAddress.unix(path: "") == nil)
        #expect(SocketAddress.unix(path: "/" + String(repeating: "x", count: 106))?.path?.utf8.count == 107)
    }
}
