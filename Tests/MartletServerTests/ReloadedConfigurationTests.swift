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
