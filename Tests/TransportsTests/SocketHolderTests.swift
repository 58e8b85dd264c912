import Glibc
import Platform
import Testing

@testable import Transports

@Suite(.timeLimit(.minutes(10))) struct SocketHolderTests {
    @Test func `who listens is found by address, and is this process`() throws {
        let listener = try Listener(address: .loopbackIPv4(port: 0), reusePort: false)
        let holder = try #require(SocketHolder.of(listener.boundAddress))
        #expect(holder.isThisProcess && holder.processIdentifier == getpid() && holder.user == geteuid())
        #expect(holder.program != nil && !holder.arguments.isEmpty)
        // A listener on all addresses would take the port away from it.
        #expect(SocketHolder.of(.anyIPv4(port: listener.boundPort))?.isThisProcess == true)
        let error = try #require(ListenAddress(host: "127.0.0.1", port: listener.boundPort).obstacle())
        guard case .refused(_, let reason) = error else { return #expect(Bool(false), "\(error)") }
        #expect(reason.errno == EADDRINUSE)
        listener.stop()
        // A process that another test has just begun has the socket too until it runs its program.
        while SocketHolder.of(listener.boundAddress) != nil { sched_yield() }
        #expect(ListenAddress(host: "127.0.0.1", port: listener.boundPort).obstacle() == nil)
    }

    @Test func `an address that the machine lacks, and a name that there is not, are found out`() {
        guard case .refused(_, let reason)? = ListenAddress(host: "192.0.2.1", port: 0).obstacle() else {
            return #expect(Bool(false), "192.0.2.1 is taken for ours")
        }
        #expect(reason.errno == EADDRNOTAVAIL)
        guard case .unresolved? = ListenAddress(host: "a..b", port: 0).obstacle() else {
            return #expect(Bool(false), "a..b has an address")
        }
    }
}
