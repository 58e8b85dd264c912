import MQTTCodec
import MartletTestKit
import Testing

@testable import MartletServer

/// What a message costs when there are many loops: turns of loops, and reads and writes of connections. Counted, not timed.
@Suite struct ShellGrowthTests {
    private struct Steps {
        var perMessage = 0.0
        var perDelivery = 0.0
        var perSubscription = 0.0
    }

    /// One client a loop. Each publishes to the one on the next loop; then the first one to all.
    private func steps(loops: Int) throws -> Steps {
        let shell = try SimulatedShell(loops: loops)
        let clients = try (0..<loops).map { loop in
            let name = (0...).lazy.map { "client \($0)" }.first { shell.loop(of: $0) == loop } ?? ""
            let client = ShellClient(EncodedString(stringLiteral: name), on: try #require(shell.acceptors[loop].connect()))
            client.connect()
            return client
        }
        shell.settle()
        var steps = Steps()
        steps.perSubscription =
            count(shell) {
                for (loop, client) in clients.enumerated() {
                    client.subscribe(TopicFilter(stringLiteral: "to/\(loop)"))
                    client.subscribe("all")
                }
            } / Double(2 * loops)
        steps.perMessage =
            count(shell) {
                for number in 0..<Self.rounds {
                    for (loop, client) in clients.enumerated() {
                        client.publish(EncodedString(stringLiteral: "to/\((loop + 1) % loops)"), "\(number)")
                    }
                    shell.settle()
                }
            } / Double(Self.rounds * loops)
        steps.perDelivery =
            count(shell) {
                for number in 0..<Self.rounds {
                    clients[0].publish("all", "\(number)")
                    shell.settle()
                }
            } / Double(Self.rounds * loops)
        for client in clients {
            client.receive()
            #expect(client.texts.count == 2 * Self.rounds)
        }
        shell.stop()
        for client in clients { client.channel.end() }
        shell.finish()
        return steps
    }

    private func count(_ shell: SimulatedShell, _ work: () -> Void) -> Double {
        let before = shell.turns + shell.network.channels.reduce(0) { $0 + $1.calls }
        work()
        shell.settle()
        return Double(shell.turns + shell.network.channels.reduce(0) { $0 + $1.calls } - before)
    }

    @Test func `a message takes no more steps among 32 loops than among two`() throws {
        let few = try steps(loops: 2)
        for loops in [4, 8, 16, 32] {
            let many = try steps(loops: loops)
            #expect(many.perMessage <= few.perMessage * 1.25, "\(loops) loops")
            #expect(many.perDelivery <= few.perDelivery * 1.25, "\(loops) loops")
            // Every other loop hears of a subscription, and many come in one letter.
            #expect(many.perSubscription <= few.perSubscription + Double(loops), "\(loops) loops")
        }
    }

    private static let rounds = 20
}
