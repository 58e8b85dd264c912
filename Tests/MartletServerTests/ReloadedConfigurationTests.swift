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
            $0.limits.packet.bytesMax = 100
            $0.listeners[1].security.allowsAnonymous = true
            $0.listeners[0].qosMax = 1
        }
        #expect(reloaded.warnings == [])
        #expect(reloaded.configuration.limits.packet.bytesMax == 100)
        #expect(reloaded.configuration.listeners[1].security.allowsAnonymous)
        #expect(reloaded.configuration.listeners[0].qosMax == 1)
    }

    @Test func `what waits for a restart is named, and stays`() {
        let reloaded = reloaded {
            $0.general.threads = 3
            $0.general.userName = "somebody"
            $0.general.processIdentifierFile = "/run/other.pid"
            $0.listeners[1].durability = .interval(seconds: 5)
        }
        for name in ["martlet_threads", "user", "pid_file", "martlet_durability"] {
            #expect(reloaded.warnings.filter { $0.hasPrefix("\(name) has changed") }.count == 1, "\(reloaded.warnings)")
        }
        #expect(reloaded.configuration.general.threads == nil)
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
        }
        for name in [
            "persistence", "persistence_location", "persistence_file", "martlet_durability", "martlet_shared_subscriptions",
            "martlet_wildcard_subscriptions", "martlet_subscription_identifiers",
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

    // MARK: Listeners

    private typealias Opening = ReloadedConfiguration.Opening

    @Test func `a listener that has gone is closed and keeps its place, and a new one comes behind all others`() {
        let reloaded = reloaded {
            $0.listeners.remove(at: 0)
            $0.listeners[0].qosMax = 0
            $0.listeners.insert(ListenerConfiguration(endpoint: .tcp(port: 1885, host: nil)), at: 0)
        }
        #expect(reloaded.warnings == [])
        let endpoints = running.listeners.map(\.endpoint) + [.tcp(port: 1885, host: nil)]
        #expect(reloaded.configuration.listeners.map(\.endpoint) == endpoints)
        #expect(reloaded.configuration.listeners.map(\.isClosed) == [true, false, false])
        #expect(reloaded.configuration.listeners[1].qosMax == 0)
        #expect(reloaded.closings == [0])
        #expect(reloaded.openings == [Opening(listener: 2, wanted: 0, predecessor: nil)])
        #expect(reloaded.listenersOfFiles == [2, 1])
    }

    @Test func `a listener that comes back has its old place`() {
        let gone = reloaded { $0.listeners.remove(at: 0) }
        let back = ReloadedConfiguration(running: gone.configuration, wanted: running)
        #expect(back.configuration == running && back.closings == [])
        #expect(back.openings == [Opening(listener: 0, wanted: 0, predecessor: nil)])
        // While it is away, no reload closes it once more.
        let still = ReloadedConfiguration(running: gone.configuration, wanted: gone.configuration.withoutClosed)
        #expect(still.closings == [] && still.openings == [] && still.configuration == gone.configuration)
    }

    @Test(
        arguments: [
            { $0.application = .webSockets }, { $0.application = .httpAPI }, { $0.proxyProtocolVersion = 2 },
            {
                $0.tls.certificateFile = "one.crt"; $0.tls.keyFile = "one.key"
            },
        ] as [@Sendable (inout ListenerConfiguration) -> Void])
    func `a listener that speaks something else takes over the sockets of the one before`(
        change: @Sendable (inout ListenerConfiguration) -> Void
    ) {
        var wanted = running
        change(&wanted.listeners[0])
        for (old, new) in [(running, wanted), (wanted, running)] {
            let reloaded = ReloadedConfiguration(running: old, wanted: new)
            #expect(reloaded.warnings == [])
            #expect(reloaded.closings == [0] && reloaded.listenersOfFiles == [2, 1])
            #expect(reloaded.openings == [Opening(listener: 2, wanted: 0, predecessor: 0)])
            #expect(reloaded.configuration.listeners[2] == new.listeners[0])
            // And back: both have their places.
            let back = ReloadedConfiguration(running: reloaded.configuration, wanted: old)
            #expect(back.closings == [2] && back.openings == [Opening(listener: 0, wanted: 0, predecessor: 2)])
            #expect(back.configuration.listeners.count == 3)
        }
    }

    @Test func `what connections bring with them is taken over without closing anything`() {
        let reloaded = reloaded {
            $0.listeners[0].trustedProxies = ["10.0.0.0/8"].compactMap { NetworkRange($0) }
            $0.listeners[0].webSocketOrigins = ["http://a"]
            $0.listeners[1].mountPoint = "house/"
        }
        #expect(reloaded.warnings == [] && reloaded.openings == [] && reloaded.closings == [])
        #expect(reloaded.configuration.listeners[0].webSocketOrigins == ["http://a"])
    }

    @Test func `another address, interface or family is another place`() {
        for change in [
            { $0.endpoint = .tcp(port: 1883, host: "127.0.0.1") }, { $0.interface = "lo" }, { $0.addressFamily = .ipv4 },
            { $0.endpoint = .unixSocket(path: "/run/x") },
        ] as [(inout ListenerConfiguration) -> Void] {
            let reloaded = reloaded { change(&$0.listeners[0]) }
            #expect(reloaded.closings == [0])
            #expect(reloaded.openings == [Opening(listener: 2, wanted: 0, predecessor: nil)])
        }
    }

    @Test func `a new listener promises nothing that the store was not set up for`() {
        var running = running
        running.persistence.isEnabled = true
        for index in running.listeners.indices { running.listeners[index].durability = .interval(seconds: 5) }
        var wanted = running
        wanted.listeners.append(ListenerConfiguration(endpoint: .tcp(port: 1885, host: nil)))
        let reloaded = ReloadedConfiguration(running: running, wanted: wanted)
        #expect(reloaded.warnings == ["listener 1885: its martlet_durability takes effect when the broker is started again."])
        #expect(reloaded.configuration.listeners[2].durability == .interval(seconds: 5))
        #expect(reloaded.configuration.strictestDurability == running.strictestDurability)
    }

    @Test(arguments: [Durability.commit, .interval(seconds: 5), .none])
    func `the broker's own socket neither quickens the store nor is a reason for a warning`(durability: Durability) {
        var running = running
        running.persistence.isEnabled = true
        running.listeners.append(ListenerConfiguration(endpoint: .tcp(port: 1885, host: nil)))
        for index in running.listeners.indices { running.listeners[index].durability = durability }
        var wanted = running
        // The strictest one goes.
        running.listeners[2].durability = .commit
        wanted.listeners.removeLast()
        LocalSocket.add(to: &running, at: "/run/martlet/1883.sock")
        LocalSocket.add(to: &wanted, at: "/run/martlet/1883.sock")
        #expect(wanted.listeners.count == 3)
        #expect(wanted.strictestDurability == durability)
        let reloaded = ReloadedConfiguration(running: running, wanted: wanted)
        #expect(reloaded.warnings == [])
        #expect(reloaded.configuration.strictestDurability == .commit, "the store keeps its pace")
    }
}

extension BrokerConfiguration {
    fileprivate var withoutClosed: BrokerConfiguration {
        var configuration = self
        configuration.listeners.removeAll(where: \.isClosed)
        return configuration
    }
}
