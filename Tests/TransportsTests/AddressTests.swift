import Bytes
import Glibc
import Platform
import Testing

@testable import Transports

@Suite struct AddressTests {
    @Test func `a slice is laid out as the kernel's vector`() {
        #expect(MemoryLayout<ByteSlice>.size == MemoryLayout<iovec>.size)
        #expect(MemoryLayout<ByteSlice>.offset(of: \.base) == MemoryLayout<iovec>.offset(of: \.iov_base))
        #expect(MemoryLayout<ByteSlice>.offset(of: \.count) == MemoryLayout<iovec>.offset(of: \.iov_len))
    }

    @Test(arguments: [
        (SocketAddress.loopbackIPv4(port: 1883), "127.0.0.1", true),
        (.anyIPv4(port: 1883), "0.0.0.0", false),
        (.loopbackIPv6(port: 1883), "::1", true),
        (.anyIPv6(port: 1883), "::", false),
    ])
    func `an address prints as mosquitto prints it`(address: SocketAddress, host: String, isLoopback: Bool) {
        #expect(address.endpoint.host == host)
        #expect(address.endpoint.port == 1883)
        #expect(address.endpoint.description == "\(host):1883")
        #expect(address.endpoint.isLoopback == isLoopback)
        #expect(address.withPort(8883).description == (host.contains(":") ? "[\(host)]:8883" : "\(host):8883"))
    }

    @Test(arguments: ["192.168.17.254", "2001:db8::ff00:42:8329", "fe80::1", "255.255.255.255", "::ffff:10.1.2.3"])
    func `a numeric address resolves to itself`(host: String) throws {
        let addresses = try ListenAddress(host: host, port: 0).resolve()
        #expect(addresses.map(\.endpoint.host) == [host])
    }

    @Test(arguments: ["0.0.0.0", "0.9.10.99", "100.101.199.200", "255.255.255.255", "2001:db8::ff00:42:8329", "::ffff:10.1.2.3"])
    func `a peer's address prints as it was written`(host: String) throws {
        #expect(try #require(PeerAddress(host: host)).host == host)
    }

    @Test(arguments: [
        ("10.1.2.3", "10.1.2.3"), ("::ffff:10.1.2.3", "10.1.2.3"), ("::1", "::"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::fffe:10.1.2.3", "::"),
    ])
    func `a host's network is its IPv4 address or half of its IPv6 one`(host: String, network: String) throws {
        let address = try #require(try ListenAddress(host: host, port: 1883).resolve().first)
        #expect(address.endpoint.network?.description == "\(network):0")
        #expect(PeerAddress.local.network == nil)
    }

    @Test(arguments: [
        ("10.1.2.3", "10.1.2.0"), ("::ffff:10.1.2.3", "10.1.2.0"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"), ("::1", "::"),
    ])
    func `a host's site is the network around its own`(host: String, site: String) throws {
        #expect(try #require(PeerAddress(host: host)).site?.host == site)
        #expect(PeerAddress.local.site == nil)
    }

    @Test(arguments: ["", "localhost", "10.1.2", "/run/martlet.sock"]) func `other text is no address`(host: String) {
        #expect(PeerAddress(host: host) == nil)
    }

    @Test func `a family of no network is local`() {
        #expect(PeerAddress(sockaddr_storage()) == .local)
        #expect(PeerAddress.local.host.isEmpty)
        #expect(PeerAddress.local.description == "local")
    }

    @Test func `no host means every address, loopback both, and a family one of them`() throws {
        #expect(try ListenAddress(host: nil, port: 1).resolve().map(\.description) == ["0.0.0.0:1", "[::]:1"])
        #expect(try ListenAddress(host: .loopback, port: 1).resolve().map(\.description) == ["127.0.0.1:1", "[::1]:1"])
        #expect(try ListenAddress(host: .all, port: 1, family: .ipv6).resolve().map(\.description) == ["[::]:1"])
        #expect(try ListenAddress(host: "localhost", port: 1, family: .ipv4).resolve().map(\.description) == ["127.0.0.1:1"])
    }

    @Test func `a name without an address is refused with the resolver's reason`() {
        #expect(throws: ResolutionError(host: "no such host", code: EAI_NONAME)) {
            _ = try ListenAddress(host: "no such host", port: 0).resolve()
        }
        #expect(throws: ResolutionError(host: "127.0.0.1", code: EAI_NONAME)) {
            _ = try ListenAddress(host: "127.0.0.1", port: 0, family: .ipv6).resolve()
        }
    }
}
