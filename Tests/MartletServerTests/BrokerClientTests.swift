import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import NetworkTestKit
import Platform
import Testing

@testable import MartletServer
@testable import ServerLoops

/// What the control thread asks the loops.
struct BrokerClientTests {
    /// The loops on one thread, whose answers are given to the desk when all have come to rest.
    private final class Shell {
        let shell: SimulatedShell
        let control: Mailbox<ControlLoopMessage>
        let brokerClient: BrokerClient

        init(loops: Int) throws {
            control = Mailbox {}
            shell = try SimulatedShell(loops: loops, control: control)
            brokerClient = BrokerClient(
                placement: shell.loops[0].shard.placement, mailboxes: shell.loops.map(\.mailbox), now: shell.network.now)
        }

        /// Connects a client.
        func client(_ name: EncodedString) throws -> ShellClient {
            let client = ShellClient(name, on: try #require(shell.acceptors[0].connect()))
            client.connect()
            settle()
            return client
        }

        func settle() {
            shell.settle()
            control.drain { message in
                if case .answer(let answer) = message { brokerClient.received(answer, now: shell.network.now) }
            }
        }
    }

    @Test(arguments: [1, 3]) func `questions and commands are answered by the shard that they go to`(loops: Int) throws {
        let shell = try Shell(loops: loops)
        let client = try shell.client("client")
        let shard = shell.brokerClient.placement.shard(of: "client" as EncodedString)
        var detail: ClientDetail?
        shell.brokerClient.ask(ShardQuery(.client("client")), of: shard) {
            if case .client(let found) = $0?.rows { detail = found }
        }
        var outcome: ShardCommandOutcome.Result?
        #expect(detail == nil)
        shell.settle()
        #expect(detail?.row.connection != nil)
        shell.brokerClient.perform(ShardCommand(.kick("client", publishesWill: true)), to: shard) { outcome = $0?.result }
        shell.settle()
        client.receive()
        #expect(outcome == .done && client.disconnectReason == .administrativeAction)
    }

    @Test(arguments: [1, 3]) func `all shards tell what they have counted, and how long their turns took`(loops: Int) throws {
        let shell = try Shell(loops: loops)
        _ = try shell.client("client")
        var statistics: [ShardStatistics] = []
        shell.shell.network.now += 1000
        shell.brokerClient.statistics { statistics = $0 }
        shell.settle()
        #expect(statistics.count == loops)
        #expect(statistics.map(\.clientsConnected).reduce(0, +) == 1)
        #expect(statistics.allSatisfy { $0.latencies.histograms[.loopTurn]?.count ?? 0 > 0 })
        #expect(shell.brokerClient.answeredAt == Array(repeating: shell.shell.network.now, count: loops))
    }

    @Test func `what is published as the broker's own has an outcome`() throws {
        let shell = try Shell(loops: 1)
        var answers: [ReasonCode] = []
        shell.brokerClient.publish(PublishPacket(topic: "a")) { reason, _ in answers.append(reason) }
        shell.settle()
        #expect(answers == [.noMatchingSubscribers])
    }

    @Test func `events are told while somebody wants to know`() throws {
        let shell = try Shell(loops: 1)
        var events = 0
        _ = try shell.client("a")
        shell.brokerClient.watchEvents { if case .connected = $0 { events += 1 } }
        shell.settle()
        _ = try shell.client("b")
        #expect(events == 1)
        shell.brokerClient.watchEvents(nil)
        shell.settle()
        _ = try shell.client("c")
        #expect(events == 1)
    }

    @Test func `too many questions are declined, and those of a broker that ends have no answer`() throws {
        let shell = try Shell(loops: 1)
        var (answered, declined) = (0, 0)
        for _ in 0..<100 {
            shell.brokerClient.ask(ShardQuery(.clients()), of: 0) { if $0 == nil { declined += 1 } else { answered += 1 } }
        }
        shell.settle()
        #expect(answered == 64 && declined == 36)
        var ended: [String] = []
        shell.brokerClient.ask(ShardQuery(.clients()), of: 0) { ended.append("\($0 == nil)") }
        shell.brokerClient.perform(ShardCommand(.kick("a", publishesWill: true)), to: 0) { ended.append("\($0 == nil)") }
        shell.brokerClient.statistics { ended.append("\($0.isEmpty)") }
        shell.brokerClient.end()
        shell.brokerClient.ask(ShardQuery(.clients()), of: 0) { ended.append("\($0 == nil)") }
        #expect(ended == ["true", "true", "true", "true"])
    }
}
