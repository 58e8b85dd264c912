import Configuration
import Testing

@testable import MartletServer

@Suite struct ReloadedConfigurationTests {
    private var running: BrokerConfiguration {
        var configuration = BrokerConfiguration()
        configuration.listeners = [
            ListenerConfiguration(endpoint: .tcp(port: 1883, host: nil)),
            ListenerConfiguration(endpoint: .tcp(port: 1884, host: "127.0.0.1")),
        ]
        return configuration
    }

    private func reloaded(_ change: (inout BrokerConfiguration) -> Void) -> ReloadedConfiguration {
        var wanted = running
        change(&wanted)
        return ReloadedConfiguration(running: running, wanted: wanted)
    }

    @Test func `nothing changed, nothing said`() {
        #expect(reloaded { _ in }.warnings == [])
        #expect(reloaded { _ in }.configuration == running)
    }

    @Test func `limits are taken over without a word`() {
        let reloaded = reloaded {
            $0.limits.packetBytesMax = 100
            $0.listeners[1].security.allowsAnonymous = true
            $0.listeners[0].qosMax = 1
        }
        #expect(reloaded.warnings == [])
        #expect(reloaded.configuration.limits.packetBytesMax == 100)
        #expect(reloaded.configuration.listeners[1].security.allowsAnonymous)
        #expect(reloaded.configuration.listeners[0].qosMax == 1)
    }

    @Test func `what waits for a restart is named, and stays`() {
        let reloaded = reloaded {
            $0.general.threads = 3
            $0.general.userName = "somebody"
            $0.general.processIdentifierFile = "/run/other.pid"
            $0.listeners[0].application = .webSockets
            $0.listeners[1].durability = .interval(seconds: 5)
        }
        for name in ["martlet_threads", "user", "pid_file", "protocol", "martlet_durability"] {
            #expect(reloaded.warnings.filter { $0.hasPrefix("\(name) has changed") }.count == 1, "\(reloaded.warnings)")
        }
        #expect(reloaded.configuration.general.threads == nil)
        #expect(reloaded.configuration.listeners[0].application == .mqtt)
        #expect(reloaded.configuration.listeners[1].durability == .commit)
    }

    @Test func `a node stays in its cluster, and logs in there with what the file says now`() {
        var running = running
        (running.cluster.servers, running.cluster.name) = (["nats://a"], "c")
        (running.cluster.userName, running.cluster.password) = ("u", "old")
        var wanted = running
        (wanted.cluster.userName, wanted.cluster.password, wanted.cluster.requiresTLS) = ("v", "new", true)
        wanted.cluster.authoritiesFile = "/ca"
        var reloaded = ReloadedConfiguration(running: running, wanted: wanted)
        #expect(reloaded.warnings == [] && reloaded.configuration.cluster == wanted.cluster)
        // The rest waits for a restart, as a whole.
        (wanted.cluster.servers, wanted.cluster.detached, wanted.cluster.replicas) = (["nats://b"], .local, 1)
        reloaded = ReloadedConfiguration(running: running, wanted: wanted)
        for name in ["martlet_cluster_servers", "martlet_cluster_detached", "martlet_cluster_replicas"] {
            #expect(reloaded.warnings.filter { $0.hasPrefix("\(name) has changed") }.count == 1, "\(reloaded.warnings)")
        }
        #expect(reloaded.configuration.cluster.servers == ["nats://a"] && reloaded.configuration.cluster.detached == .refuse)
        #expect(reloaded.configuration.cluster.password == "new")
        // A file that says nothing of a cluster any more, ends no login.
        wanted.cluster = ClusterConfiguration()
        reloaded = ReloadedConfiguration(running: running, wanted: wanted)
        #expect(reloaded.configuration.cluster == running.cluster && !reloaded.warnings.isEmpty)
    }

    @Test func `what is set up once stays as it is, whole`() {
        let reloaded = reloaded {
            $0.persistence.isEnabled = true
            $0.persistence.location = "/elsewhere"
            $0.persistence.file = "other.db"
            $0.persistence.durability = .interval(seconds: 60)
            $0.listeners[0].durability = .interval(seconds: 60)
            $0.messaging.areSharedSubscriptionsAvailable = false
            $0.messaging.areWildcardSubscriptionsAvailable = false
            $0.messaging.areSubscriptionIdentifiersAvailable = false
            $0.listeners[0].proxyProtocolVersion = 2
            $0.listeners[0].trustedProxies = ["10.0.0.0/8"].compactMap { NetworkRange($0) }
            $0.listeners[0].webSocketOrigins = ["http://a"]
        }
        for name in [
            "persistence", "persistence_location", "persistence_file", "martlet_durability", "martlet_shared_subscriptions",
            "martlet_wildcard_subscriptions", "martlet_subscription_identifiers", "enable_proxy_protocol", "martlet_proxy_trusted",
            "websockets_origin",
        ] {
            #expect(reloaded.warnings.filter { $0.hasPrefix("\(name) has changed") }.count == 1, "\(name): \(reloaded.warnings)")
        }
        #expect(reloaded.configuration == running)
    }

    @Test func `certificates, ciphers and the number of connections are taken over without a word`() {
        var running = running
        running.listeners[0].tls.certificateFile = "one.crt"
        running.listeners[0].tls.keyFile = "one.key"
        var wanted = running
        wanted.listeners[0].tls.certificateFile = "two.crt"
        wanted.listeners[0].tls.keyFile = "two.key"
        wanted.listeners[0].tls.authoritiesFile = "ca.crt"
        wanted.listeners[0].tls.requiresCertificate = true
        wanted.listeners[0].tls.revocationListFile = "gone.crl"
        wanted.listeners[0].tls.versionMin = .tls1_3
        wanted.listeners[0].tls.cipherSuites = "TLS_AES_128_GCM_SHA256"
        wanted.listeners[1].connectionsMax = 5
        let reloaded = ReloadedConfiguration(running: running, wanted: wanted)
        #expect(reloaded.warnings == [])
        #expect(reloaded.configuration == wanted)
    }

    @Test func `TLS comes and goes at a restart`() {
        var wanted = running
        wanted.listeners[0].tls.certificateFile = "one.crt"
        wanted.listeners[0].tls.keyFile = "one.key"
        let coming = ReloadedConfiguration(running: running, wanted: wanted)
        #expect(coming.warnings == ["listener 1883: TLS is switched on when the broker is started again."])
        #expect(coming.configuration == running)
        let going = ReloadedConfiguration(running: wanted, wanted: running)
        #expect(going.warnings == ["listener 1883: TLS is switched off when the broker is started again."])
        #expect(going.configuration == wanted)
    }

    @Test func `listeners that come, go or change places keep the running ones in order`() {
        let reloaded = reloaded {
            $0.listeners.remove(at: 0)
            $0.listeners[0].qosMax = 0
            $0.listeners.insert(ListenerConfiguration(endpoint: .tcp(port: 1885, host: nil)), at: 0)
        }
        #expect(reloaded.configuration.listeners.map(\.endpoint) == running.listeners.map(\.endpoint))
        #expect(reloaded.configuration.listeners[1].qosMax == 0)
        #expect(reloaded.warnings.contains { $0.hasPrefix("listener 1883 is no longer in the config") })
        #expect(reloaded.warnings.contains { $0.hasPrefix("listener 1885 is new in the config") })
    }
}
