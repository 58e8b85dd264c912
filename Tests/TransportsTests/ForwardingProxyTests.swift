import HTTP
import Testing
import Transports

/// For whom a proxy asks.
@Suite struct ForwardingProxyTests {
    private static let trusted = ["127.0.0.1/32", "10.0.0.0/8", "2001:db8::/32"]

    private func proxy(_ peer: PeerAddress?, trusted: [String] = trusted) -> ForwardingProxy? {
        let networks = trusted.compactMap { text in
            let parts = text.split(separator: "/")
            return Int(parts[1]).flatMap { TrustedNetwork(host: String(parts[0]), bits: $0) }
        }
        return peer.flatMap { ForwardingProxy($0, trusted: networks) }
    }

    private func client(_ fields: (String, String)..., from peer: String = "127.0.0.1") throws -> String {
        let proxy = try #require(self.proxy(PeerAddress(host: peer)))
        return try proxy.client(of: HTTPFields(fields.map { HTTPField($0.0, $0.1) })).host
    }

    @Test func `only peers that are named are believed, and none where nobody is`() {
        #expect(proxy(PeerAddress(host: "10.1.2.3")) != nil && proxy(PeerAddress(host: "::ffff:10.1.2.3")) != nil)
        #expect(proxy(PeerAddress(host: "192.0.2.1")) == nil)
        #expect(proxy(PeerAddress(host: "127.0.0.1"), trusted: []) == nil)
        // The rights of its file say who comes by a Unix socket.
        #expect(proxy(.local) != nil && proxy(.local, trusted: []) == nil)
    }

    @Test(arguments: [
        ("X-Forwarded-For", "192.0.2.1", "192.0.2.1"), ("x-forwarded-for", "192.0.2.1:4000", "192.0.2.1"),
        ("X-Forwarded-For", "2001:db9::1", "2001:db9::1"), ("X-Forwarded-For", "[2001:db9::1]:80", "2001:db9::1"),
        ("X-Forwarded-For", "::ffff:192.0.2.1", "192.0.2.1"),
        // What a client has sent itself stands in front of what proxies have added.
        ("X-Forwarded-For", "127.0.0.1, 192.0.2.1", "192.0.2.1"), ("X-Forwarded-For", "rubbish,,\",192.0.2.1", "192.0.2.1"),
        ("X-Forwarded-For", "203.0.113.9, 192.0.2.1, 10.0.0.1, 127.0.0.1", "192.0.2.1"),
        // Nobody but proxies: the farthest of them asks.
        ("X-Forwarded-For", "10.0.0.2, 10.0.0.1", "10.0.0.2"), ("X-Forwarded-For", "", "127.0.0.1"),
        ("X-Forwarded-For", "203.0.113.9, unknown, 10.0.0.1", "10.0.0.1"), ("X-Forwarded-For", "unknown", "127.0.0.1"),
        ("X-Real-IP", "192.0.2.1", "192.0.2.1"), ("X-Real-IP", "10.0.0.9", "10.0.0.9"),
        ("Forwarded", "for=192.0.2.1;proto=https;by=203.0.113.9", "192.0.2.1"),
        ("Forwarded", "proto=https; FOR=\"[2001:db9::1]:4711\"", "2001:db9::1"),
        ("Forwarded", "for=203.0.113.9, for=192.0.2.1, for=10.0.0.1", "192.0.2.1"),
        ("Forwarded", "for=203.0.113.9, for=_hidden", "127.0.0.1"), ("Forwarded", "for=203.0.113.9, by=10.0.0.1", "127.0.0.1"),
        ("Other", "192.0.2.1", "127.0.0.1"),
    ])
    func `the nearest host that is no trusted proxy is the client`(field: String, value: String, client: String) throws {
        #expect(try self.client((field, value)) == client)
    }

    @Test(arguments: [
        ("X-Forwarded-For", "somebody"), ("X-Forwarded-For", "192.0.2.1, 192.0.2"), ("X-Forwarded-For", "192.0.2.1,"),
        ("X-Forwarded-For", "192.0.2.1 203.0.113.9"), ("X-Forwarded-For", "[::1"), ("X-Forwarded-For", "[::1]x"),
        ("X-Forwarded-For", "fe80::1%eth0"), ("X-Forwarded-For", ":80"), ("X-Forwarded-For", "\"192.0.2.1\""),
        ("X-Real-IP", "192.0.2.1, 192.0.2.2"), ("X-Real-IP", "host.example"),
        ("Forwarded", "192.0.2.1"), ("Forwarded", "for=192.0.2.1;for=192.0.2.2"), ("Forwarded", "for=\"192.0.2.1"),
        // A quote that a client leaves open swallows what the proxy adds.
        ("Forwarded", "for=\"203.0.113.9, for=\"[2001:db9::1]\""), ("Forwarded", "for=\"203.0.113.9\\\", for=192.0.2.1"),
        ("Forwarded", "for=203.0.113.9;x=\", for=192.0.2.1"), ("Forwarded", "for=203.0.113.9;x=\", for=\"[2001:db9::1]\""),
        ("Forwarded", "for=203.0.113.9;x=\"\", \", for=192.0.2.1"), ("Forwarded", "for="),
    ])
    func `what is no address is refused, and never a client`(field: String, value: String) throws {
        let refusal = try #require(throws: HTTPRefusal.self) { try client((field, value)) }
        #expect(refusal.status == .badRequest && refusal.explanation.contains(field))
    }

    @Test func `lists in several fields of a name are one list`() throws {
        #expect(try client(("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "192.0.2.1")) == "192.0.2.1")
        #expect(try client(("Forwarded", "for=\"203.0.113.9"), ("Forwarded", "for=192.0.2.1")) == "192.0.2.1")
    }

    @Test func `a field that the proxy lets through does not count against the one that it sets`() throws {
        let (own, other) = ("192.0.2.1", "203.0.113.9")
        #expect(try client(("X-Forwarded-For", own), ("X-Real-IP", own), ("Forwarded", "for=\(own)")) == own)
        // A proxy in front of another one is what that one sees.
        #expect(try client(("X-Forwarded-For", "\(own), 10.0.0.1"), ("X-Real-IP", "10.0.0.1")) == own)
        let contradictions = [
            [("X-Forwarded-For", own), ("X-Real-IP", other)], [("X-Forwarded-For", other), ("X-Real-IP", own)],
            [("X-Forwarded-For", own), ("Forwarded", "for=\(other)")], [("Forwarded", "for=\(own)"), ("X-Real-IP", other)],
            [("X-Real-IP", own), ("X-Real-IP", other)],
        ]
        let proxy = try #require(self.proxy(PeerAddress(host: "127.0.0.1")))
        for fields in contradictions {
            let refusal = try #require(throws: HTTPRefusal.self) {
                try proxy.client(of: HTTPFields(fields.map { HTTPField($0.0, $0.1) }))
            }
            #expect(refusal.status == .badRequest)
        }
    }
}
