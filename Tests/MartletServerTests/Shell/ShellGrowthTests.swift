import MQTTCodec
import MartletTestKit
import NetworkTestKit
import Testing

@testable import MartletServer

/// What a message costs when there are many loops: turns of loops, and reads and writes of connections. Counted, not
/// timed.
///
/// `swift test --filter ShellGrowthTests` prints the counts.
@Suite struct ShellGrowthTests {
    private struct Steps {
        var perMessage = 0.0
        var perDelivery = 0.0
        var perSubscription = 0.0
        var perHandOver = 0.0
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
        steps.perHandOver = try stepsOfHandOver(shell)
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

    /// Clients that come to another loop's listener than their own: what it takes until they have their CONNACK.
    private func stepsOfHandOver(_ shell: SimulatedShell) throws -> Double {
        let loops = shell.loops.count
        var moved: [ShellClient] = []
        let taken = try count(shell) {
            for loop in 0..<loops {
                let name = (0...).lazy.map { "moving \($0)" }.first { shell.loop(of: $0) == loop } ?? ""
                let channel = try #require(shell.acceptors[(loop + 1) % loops].connect())
                moved.append(ShellClient(EncodedString(stringLiteral: name), on: channel))
                moved[loop].connect()
            }
        }
        for client in moved {
            client.receive()
            #expect(client.connack?.isAccepted == true)
            client.channel.fail()
        }
        shell.settle()
        return taken / Double(loops)
    }

    private func count(_ shell: SimulatedShell, _ work: () throws -> Void) rethrows -> Double {
        let before = shell.turns + shell.network.channels.reduce(0) { $0 + $1.calls }
        try work()
        shell.settle()
        return Double(shell.turns + shell.network.channels.reduce(0) { $0 + $1.calls } - before)
    }

    @Test func `a message takes no more steps among 32 loops than among two`() throws {
        let few = try steps(loops: 2)
        var table = [(2, few)]
        defer { report(table) }
        for loops in [4, 8, 16, 32] {
            let many = try steps(loops: loops)
            table.append((loops, many))
            #expect(many.perMessage <= few.perMessage * 1.25, "\(loops) loops")
            #expect(many.perDelivery <= few.perDelivery * 1.25, "\(loops) loops")
            #expect(many.perHandOver <= few.perHandOver * 1.25, "\(loops) loops")
            // Every other loop hears of a subscription, and many come in one message.
            #expect(many.perSubscription <= few.perSubscription + Double(loops), "\(loops) loops")
        }
    }

    /// Turns, reads and writes, as a table.
    private func report(_ table: [(loops: Int, steps: Steps)]) {
        func cell(_ text: String) -> String { String(repeating: " ", count: max(0, 16 - text.count)) + text }
        func cell(_ steps: Double) -> String { cell("\((steps * 100).rounded() / 100)") }
        let head = ["loops", "message", "hand-over", "broadcast", "subscription"].map { cell($0) }.joined()
        let rows = table.map { loops, steps in
            cell("\(loops)") + cell(steps.perMessage) + cell(steps.perHandOver) + cell(steps.perDelivery)
                + cell(steps.perSubscription)
        }
        print(
            "Turns, reads and writes for each message to one other loop, connection handed over, delivery of a message to all loops, and "
                + "subscription:\n\(([head] + rows).joined(separator: "\n"))")
    }

    private static let rounds = 20
}
