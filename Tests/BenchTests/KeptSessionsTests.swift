import MQTTCodec
import Testing

@testable import Bench

@Suite struct KeptSessionsTests {
    private static let versions: [ProtocolVersion] = [.v31, .v311, .v5]

    private func sessions(_ scenario: Scenario, _ version: ProtocolVersion = .v311, isKept: Bool) throws -> KeptSessions {
        var options = BenchOptions()
        options.scenario = scenario
        options.version = version
        options.keepsSessions = isKept
        options.subscribers = 3
        let workload = try Workload(options)
        return KeptSessions(
            workload: workload, maker: try ChannelMaker(options),
            monitor: RunMonitor(workload, view: LiveView(.silent, seconds: 1)))
    }

    @Test(arguments: versions)
    func `a session that is kept outlives its connection in every version`(version: ProtocolVersion) throws {
        for client in try sessions(.pair, version, isKept: true).all + sessions(.away, version, isKept: false).all {
            #expect(client.connect.cleanStart == (version == .v5))
            #expect(client.connect.properties.sessionExpiryInterval == (version == .v5 ? 3600 : nil))
        }
    }

    @Test(arguments: versions)
    func `whoever removes a session has its name and leaves none`(version: ProtocolVersion) throws {
        for client in try sessions(.away, version, isKept: true).all {
            let remover = client.remover
            #expect(remover.connect.clientIdentifier == client.connect.clientIdentifier)
            #expect(remover.connect.cleanStart && remover.connect.properties == Properties())
            #expect(remover.subscription == nil)
        }
    }

    @Test(arguments: [(Scenario.pair, 6), (.fanout, 4), (.away, 4), (.publish, 1), (.conns, 3)])
    func `all clients that stay connected are to be removed, and those that are away`(scenario: Scenario, count: Int) throws {
        let all = try sessions(scenario, isKept: true).all
        #expect(Set(all.map(\.connect.clientIdentifier)).count == count)
        #expect(try sessions(scenario, isKept: false).all.count == (scenario == .away ? 3 : 0))
    }

    @Test(arguments: versions)
    func `without being asked to, no session is kept`(version: ProtocolVersion) throws {
        let workload = try sessions(.pair, version, isKept: false).workload
        for client in [ClientSpecification.publisher(0, workload), .subscriber(0, workload)] {
            #expect(client.connect.cleanStart && client.connect.properties == Properties())
        }
    }
}
