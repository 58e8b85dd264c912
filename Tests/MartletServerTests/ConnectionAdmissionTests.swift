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

    private var proxies: [TrustedNetwork] {
        [("192.0.2.1", 32), ("10.1.2.3", 8), ("2001:db8::", 32)].compactMap { TrustedNetwork(host: $0, bits: $1) }
    }

    private func refusal(of peer: PeerAddress, trusted: [TrustedNetwork]) -> AdmissionRefusal? {
        ConnectionAdmission(listeners: 1).refusal(
            of: peer, listener: 0, proxyProtocol: ProxyProtocolSettings(version: .v1, trusted: trusted), settings: BrokerSettings(),
            now: 0)
    }
}
