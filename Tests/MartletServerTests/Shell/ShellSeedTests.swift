import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import NetworkTestKit
import Platform
import TestBasics
import Testing

@testable import MartletServer
@testable import ServerLoops

/// Clients, faults and the word to stop at every step, by seeds: whatever happens, everything ends and nothing
/// acknowledged is lost.
@Suite struct ShellSeedTests {
    /// One run: a durable subscriber that comes and goes, publishers, passers-by, and a network that breaks.
    private final class Run {
        let seed: UInt64
        let shell: SimulatedShell
        private var random: SeededGenerator
        private var subscriber: ShellClient?
        private var publishers: [ShellClient] = []
        private(set) var received: Set<String> = []
        private(set) var acknowledged: Set<String> = []
        /// Texts by publisher and packet identifier.
        private var sent: [ObjectIdentifier: [UInt16: String]] = [:]
        private var all: [ShellClient] = []
        private var number = 0

        init(seed: UInt64, loops: Int, disk: SimulatedStore) throws {
            self.seed = seed
            random = SeededGenerator(seed: seed)
            shell = try SimulatedShell(loops: loops, seed: seed, disk: disk)
            shell.store?.isQuick = random.oneIn(2)
        }

        /// Lets the subscriber's session be made.
        func begin() throws {
            connectSubscriber()
            shell.settle()
            subscriber?.subscribe("t", qos: .atLeastOnce)
            shell.settle()
            subscriber?.receive()
        }

        func connectSubscriber() {
            subscriber = connect("subscriber", clean: false, expiry: 10_000)
        }

        private func connect(_ identifier: String, clean: Bool, expiry: UInt32?) -> ShellClient? {
            let loop = Int.random(in: 0..<shell.loops.count, using: &random)
            guard let channel = shell.acceptors[loop].connect() else { return nil }
            if random.oneIn(2) { channel.readBytesMax = Int.random(in: 1...40, using: &random) }
            if random.oneIn(2) { channel.writeBytesMax = Int.random(in: 1...40, using: &random) }
            let client = ShellClient(EncodedString(stringLiteral: identifier), on: channel)
            client.connect(clean: clean, expiry: expiry)
            all.append(client)
            return client
        }

        /// Somebody does something.
        func act() {
            switch Int.random(in: 0..<14, using: &random) {
            case 0:
                number += 1
                if let publisher = connect("publisher \(number)", clean: true, expiry: nil) { publishers.append(publisher) }
            case 1: if subscriber?.channel.isClosed ?? true { connectSubscriber() }
            case 2: all.randomElement(using: &random)?.channel.fail()
            case 3: all.randomElement(using: &random)?.channel.end()
            case 4: shell.pollers.randomElement(using: &random)?.refusals = 1
            case 5: shell.network.now += UInt64.random(in: 0...30, using: &random)
            case 6: all.randomElement(using: &random)?.channel.roomBytes = random.oneIn(2) ? 0 : 1 << 20
            case 7: _ = connect("passer-by", clean: true, expiry: nil)
            default:
                guard let publisher = publishers.randomElement(using: &random) else { return }
                number += 1
                let text = "message \(number)"
                sent[ObjectIdentifier(publisher), default: [:]][publisher.publish("t", text, qos: .atLeastOnce)] = text
            }
        }

        /// Everybody reads what has come.
        func read() {
            for client in all {
                client.receive()
                received.formUnion(client.texts)
                guard let texts = sent[ObjectIdentifier(client)] else { continue }
                acknowledged.formUnion(client.acknowledged.compactMap { texts[$0] })
            }
        }

        /// Stops the broker, and lets it end.
        func end() {
            shell.stop()
            for _ in 0..<Int.random(in: 0..<40, using: &random) {
                shell.step()
                if random.oneIn(3) { act() }
                read()
            }
            shell.finish(within: ServerLoops.Limits.drainMilliseconds + shell.setup.settings.lingerMilliseconds + 100)
            read()
        }
    }

    @Test(arguments: [1, 2, 3, 5], [UInt64(1), 2, 3, 4])
    func `wherever the broker stops, every connection ends and what was acknowledged is there afterwards`(
        _ loops: Int, _ block: UInt64
    ) throws {
        var (published, messages) = (0, 0)
        for steps in 0..<24 {
            let disk = SimulatedStore(seed: block)
            let run = try Run(seed: block &* 1000 &+ UInt64(steps), loops: loops, disk: disk)
            try run.begin()
            var random = SeededGenerator(seed: run.seed &* 7)
            for _ in 0..<steps * 6 {
                if random.oneIn(2) { run.act() }
                run.shell.step()
                if random.oneIn(4) { run.read() }
            }
            run.end()
            // What the subscriber has not had is in its session, on the disk.
            let after = try Run(seed: run.seed &+ 1, loops: loops, disk: disk)
            after.connectSubscriber()
            for _ in 0..<50 {
                after.shell.advance(milliseconds: 1)
                after.read()
            }
            let lost = run.acknowledged.subtracting(run.received).subtracting(after.received)
            #expect(lost.isEmpty, "seed \(run.seed), \(loops) loops: acknowledged and lost: \(lost.sorted())")
            after.end()
            published += run.acknowledged.count
            messages += run.received.count
        }
        #expect(published > 20 && messages > 20, "a run in which nothing happens proves nothing")
    }
}
