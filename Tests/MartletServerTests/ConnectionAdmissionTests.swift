import BrokerCore
import BrokerModel
import Testing
import Transports

@testable import MartletServer
@testable import ServerLoops

/// Who is turned away before a byte of theirs is read.
@Suite struct ConnectionAdmissionTests {
    @Test(arguments: [
        ("192.0.2.1", true), ("192.0.2.2", false), ("10.200.3.4", true), ("11.0.0.1", false), ("::ffff:10.1.1.1", true),
        ("2001:db8:1::1", true), ("2001:db9::1", false), ("::1", false),
    ])
    func `a PROXY header is believed from the proxies that are named`(host: String, isBelieved: Bool) throws {
        let peer = try #require(PeerAddress(host: host))
        #expect(refusal(of: peer, trusted: proxies) == (isBelieved ? nil : .untrustedProxy))
        #expect(refusal(of: peer, trusted: []) == nil, "as mosquitto, without the option")
        let line = try #require(AdmissionRefusal.untrustedProxy.line(for: peer))
        #expect(line.hasPrefix("Connection from \(host):0 denied") && line.contains("martlet_proxy_trusted"))
    }

    @Test func `whoever may open the file of a Unix socket may speak for others`() {
        #expect(refusal(of: .local, trusted: proxies) == nil)
    }

    @Test func `who is banned is turned away, by a proxy's word too, and the proxy is not`() throws {
        var bans = BanList()
        let target = try #require(BanTarget(.network, "192.0.2.0/24"))
        _ = bans.add(Ban(target, by: "", reason: "", at: 0, until: nil))
        let (admission, banned, other) = (
            ConnectionAdmission(listeners: 1), try #require(PeerAddress(host: "192.0.2.9")),
            try #require(PeerAddress(host: "198.51.100.1"))
        )
        func refusal(_ peer: PeerAddress, _ proxy: ProxyProtocolSettings?) -> AdmissionRefusal? {
            admission.refusal(of: peer, listener: 0, proxyProtocol: proxy, settings: BrokerSettings(), bans: bans, now: 0)
        }
        #expect(refusal(banned, nil) == .banned && refusal(other, nil) == nil && refusal(.local, nil) == nil)
        #expect(refusal(banned, ProxyProtocolSettings(version: .v1, trusted: [])) == nil)
        #expect(admission.refusal(ofForwarded: banned, settings: BrokerSettings(), bans: bans, now: 0) == .banned)
        #expect(AdmissionRefusal.banned.line(for: banned) == "Client connection from 192.0.2.9:0 denied: banned.")
    }

    @Test func `a proxy that will say for whom it asks is no one client, and its clients are`() throws {
        var settings = BrokerSettings()
        settings.connectionsPerSecondPerAddressMax = 1
        let (admission, proxy) = (ConnectionAdmission(listeners: 1), try #require(PeerAddress(host: "192.0.2.9")))
        for _ in 0..<3 {
            #expect(
                admission.refusal(of: proxy, listener: 0, proxyProtocol: nil, isForwarding: true, settings: settings, now: 1000)
                    == nil)
        }
        let client = try #require(PeerAddress(host: "198.51.100.1"))
        #expect(admission.refusal(ofForwarded: client, settings: settings, now: 1000) == nil)
        #expect(admission.refusal(ofForwarded: client, settings: settings, now: 1000) == .tooFast(perSecondMax: 1, isNews: true))
        #expect(admission.count == 3)
    }

    @Test(arguments: [
        ("10.1.1.1", true), ("10.6.6.1", false), ("10.6.6.7", true), ("192.0.2.1", false), ("::ffff:10.1.1.1", true),
        ("2001:db8::1", true), ("2001:db8:bad::1", false), ("::1", false),
    ])
    func `of the networks that hold an address the narrowest decides`(host: String, mayCome: Bool) throws {
        let rules = AddressRules(
            allowed: networks(("10.0.0.0", 8), ("10.6.6.7", 32), ("2001:db8::", 32)),
            denied: networks(("10.6.6.0", 24), ("2001:db8:bad::", 48)))
        #expect(rules.admits(try #require(PeerAddress(host: host))) == mayCome)
        #expect(rules.admits(.local), "the rights of the file say who may use a socket")
    }

    @Test func `where nothing is allowed by name all may come who are not denied, and of two alike the one that denies counts`()
        throws
    {
        let (denied, other) = (try #require(PeerAddress(host: "192.0.2.9")), try #require(PeerAddress(host: "192.0.3.9")))
        let rules = AddressRules(allowed: [], denied: networks(("::ffff:192.0.2.0", 120)))
        #expect(!rules.admits(denied) && rules.admits(other))
        let both = AddressRules(allowed: networks(("192.0.2.0", 24)), denied: networks(("192.0.2.0", 24)))
        #expect(!both.admits(denied) && !both.admits(other))
        #expect(!AddressRules(allowed: [], denied: [], allowsOthers: false).admits(other), "a list that is empty allows nobody")
        let refusal = ConnectionAdmission(listeners: 1).refusal(
            of: denied, listener: 0, proxyProtocol: nil, addresses: rules, settings: BrokerSettings(), now: 0)
        #expect(refusal == .addressDenied)
        let forwarded = ConnectionAdmission(listeners: 1).refusal(
            ofForwarded: denied, addresses: rules, settings: BrokerSettings(), now: 0)
        #expect(forwarded == .addressDenied, "behind a proxy the client's address counts")
    }

    @Test func `no more come in a second than a listener, and all together, may have`() throws {
        var settings = BrokerSettings()
        settings.listeners = [ListenerPolicy(), ListenerPolicy()]
        settings.listeners[0].connectionsPerSecondMax = 2
        settings.connectionsPerSecondMax = 3
        let (admission, peer) = (ConnectionAdmission(listeners: 2), try #require(PeerAddress(host: "192.0.2.9")))
        func come(_ listener: Int, at now: UInt64) -> AdmissionRefusal? {
            admission.refusal(of: peer, listener: listener, proxyProtocol: nil, settings: settings, now: now)
        }
        #expect([come(0, at: 5000), come(0, at: 5000)] == [nil, nil])
        #expect(come(0, at: 5000) == .tooFastTogether(perSecondMax: 2))
        #expect(come(1, at: 5000) == nil, "who was refused does not count")
        #expect(come(1, at: 5000) == .tooFastTogether(perSecondMax: 3))
        #expect(admission.count == 3 && admission.count(ofListener: 0) == 2)
        #expect(come(1, at: 5400) == nil)
        let line = AdmissionRefusal.tooFastTogether(perSecondMax: 2).line(for: peer)
        #expect(line?.hasSuffix("denied: more than 2 connections per second (martlet_max_connections_per_second).") == true)
    }

    @Test func `an address and a network have so many connections at a time, and a slot that is given up is free`() throws {
        var settings = BrokerSettings()
        settings.connectionsPerAddressMax = 2
        settings.connectionsPerNetwork = NetworkConnectionBound(count: 3, ipv4Bits: 24, ipv6Bits: 48)
        let admission = ConnectionAdmission(listeners: 1)
        var slots: [AddressSlot?] = []
        func come(_ host: String) throws -> AdmissionRefusal? {
            do throws(AdmissionRefusal) {
                slots.append(try admission.takeSlot(for: PeerAddress(host: host) ?? .local, settings: settings))
                return nil
            } catch {
                return error
            }
        }
        #expect([try come("192.0.2.1"), try come("::ffff:192.0.2.1")] == [nil, nil])
        #expect(try come("192.0.2.1") == .tooManyOfAddress(2))
        #expect(try come("192.0.2.2") == nil)
        #expect(try come("192.0.2.3") == .tooManyOfNetwork(3))
        #expect(try come("192.0.3.3") == nil)
        // An IPv6 host has 64 bits to choose from.
        #expect([try come("2001:db8::1"), try come("2001:db8::2")] == [nil, nil])
        #expect(try come("2001:db8::3") == .tooManyOfAddress(2))
        #expect(try come("2001:db8:0:1::1") == nil)
        #expect(try come("2001:db8:0:2::1") == .tooManyOfNetwork(3))
        slots.remove(at: 0)
        #expect(try come("192.0.2.3") == nil)
        #expect([try come(""), try come("")] == [nil, nil], "inside the machine nobody is counted")
        settings.connectionsPerAddressMax = nil
        settings.connectionsPerNetwork = nil
        #expect(try come("192.0.2.3") == nil)
        #expect(slots.last.map { $0 == nil } == true)
    }

    @Test func `the log has one line a second for each reason, and how many it left out`() throws {
        var lines = RefusalLines()
        let peer = try #require(PeerAddress(host: "192.0.2.9"))
        #expect(lines.line(on: .banned, of: peer, now: 1000) == "Client connection from 192.0.2.9:0 denied: banned.")
        for now in 1001..<1010 { #expect(lines.line(on: .banned, of: peer, now: UInt64(now)) == nil) }
        #expect(lines.line(on: .addressDenied, of: peer, now: 1005)?.contains("martlet_allow_from") == true)
        #expect(
            lines.line(on: .banned, of: peer, now: 2000)
                == "Client connection from 192.0.2.9:0 denied: banned. 9 more were denied before.")
        #expect(lines.line(on: .banned, of: peer, now: 3000) == "Client connection from 192.0.2.9:0 denied: banned.")
    }

    private func networks(_ texts: (String, Int)...) -> [TrustedNetwork] {
        texts.compactMap { TrustedNetwork(host: $0.0, bits: $0.1) }
    }

    private var proxies: [TrustedNetwork] {
        [("192.0.2.1", 32), ("10.1.2.3", 8), ("2001:db8::", 32)].compactMap { TrustedNetwork(host: $0, bits: $1) }
    }

    private func refusal(of peer: PeerAddress, trusted: [TrustedNetwork]) -> AdmissionRefusal? {
        ConnectionAdmission(listeners: 1).refusal(
            of: peer, listener: 0, proxyProtocol: ProxyProtocolSettings(version: .v1, trusted: trusted), settings: BrokerSettings(),
            now: 0)
    }
}
