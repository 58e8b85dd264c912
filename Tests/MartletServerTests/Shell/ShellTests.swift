import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import NetworkTestKit
import Platform
import Testing

@testable import MartletServer
@testable import ServerLoops

/// The loops and their connections, without a kernel.
@Suite struct ShellTests {
    /// A client of a loop other than that which accepts it, or of the same.
    private func identifier(_ shell: SimulatedShell, livingOn loop: Int, _ prefix: String = "client") -> String {
        (0...).lazy.map { "\(prefix) \($0)" }.first { shell.loop(of: $0) == loop } ?? ""
    }

    /// Connects a client that lives on a loop, by that loop's listener or another's.
    private func client(
        _ shell: SimulatedShell, on loop: Int, by acceptor: Int? = nil, _ prefix: String = "client", clean: Bool = true,
        expiry: UInt32? = nil
    ) throws -> ShellClient {
        let channel = try #require(shell.acceptors[acceptor ?? loop].connect())
        let client = ShellClient(EncodedString(stringLiteral: identifier(shell, livingOn: loop, prefix)), on: channel)
        client.connect(clean: clean, expiry: expiry)
        shell.settle()
        client.receive()
        #expect(client.connack?.isAccepted == true)
        return client
    }

    @Test func `a message goes from loop to loop, whatever the network takes at a time`() throws {
        let shell = try SimulatedShell(loops: 2)
        let subscriber = try client(shell, on: 1, "subscriber")
        subscriber.channel.writeBytesMax = 3
        subscriber.subscribe("t", qos: .atLeastOnce)
        shell.settle()
        let publisher = try client(shell, on: 0, "publisher")
        publisher.channel.readBytesMax = 1
        for number in 0..<20 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        shell.settle()
        subscriber.receive()
        publisher.receive()
        #expect(subscriber.texts == (0..<20).map { "\($0)" })
        #expect(publisher.acknowledged == (1...20).map { UInt16($0) })
        shell.stop()
        shell.finish()
    }

    @Test func `a receiver that does not read is written to when it reads again`() throws {
        let shell = try SimulatedShell(loops: 1)
        let subscriber = try client(shell, on: 0, "subscriber")
        subscriber.subscribe("t")
        shell.settle()
        subscriber.receive()
        subscriber.channel.roomBytes = 100
        let publisher = try client(shell, on: 0, "publisher")
        for number in 0..<50 { publisher.publish("t", "message \(number)") }
        shell.settle()
        let callsWhileFull = subscriber.channel.calls
        shell.advance(milliseconds: 10)
        #expect(subscriber.channel.calls == callsWhileFull, "a full connection is not tried again and again")
        for _ in 0..<50 {
            subscriber.receive()
            shell.settle()
        }
        #expect(subscriber.texts == (0..<50).map { "message \($0)" })
        shell.stop()
        shell.finish()
    }

    @Test func `a connection that fails, and one that the loop cannot watch, end and leave nothing`() throws {
        let shell = try SimulatedShell(loops: 2)
        let failing = try client(shell, on: 0, "failing")
        failing.channel.fail()
        shell.settle()
        #expect(failing.channel.isClosed)
        shell.pollers[0].refusals = 1
        let refused = try #require(shell.acceptors[0].connect())
        shell.settle()
        #expect(refused.isClosed)
        // Refused by the loop that it is handed to.
        let moving = try #require(shell.acceptors[0].connect())
        ShellClient(EncodedString(stringLiteral: identifier(shell, livingOn: 1)), on: moving).connect()
        shell.pollers[1].refusals = 1
        shell.settle()
        #expect(moving.isClosed)
        #expect(shell.setup.admission.count == 0)
        shell.stop()
        shell.finish()
    }

    // MARK: Hand-over

    @Test(arguments: [1, 7, 64, Int.max])
    func `what a client sends before and after it is handed over arrives once and in order`(_ readBytesMax: Int) throws {
        for seed in UInt64(1)...20 {
            let shell = try SimulatedShell(loops: 2, seed: seed)
            let subscriber = try client(shell, on: 0, "subscriber")
            subscriber.subscribe("t", qos: .atLeastOnce)
            shell.settle()
            let channel = try #require(shell.acceptors[0].connect())
            channel.readBytesMax = readBytesMax
            let hurried = ShellClient(EncodedString(stringLiteral: identifier(shell, livingOn: 1, "hurried")), on: channel)
            hurried.connect()
            // It does not wait for CONNACK, nor for anything else.
            for number in 0..<30 {
                hurried.publish("t", "\(number)", qos: .atLeastOnce)
                shell.step()
            }
            shell.settle()
            hurried.receive()
            // So many at a time as it has acknowledged.
            for _ in 0..<3 {
                subscriber.receive()
                shell.settle()
            }
            #expect(hurried.connack?.isAccepted == true)
            #expect(hurried.acknowledged == (1...30).map { UInt16($0) }, "seed \(seed)")
            #expect(subscriber.texts == (0..<30).map { "\($0)" }, "seed \(seed)")
            shell.stop()
            shell.finish()
        }
    }

    @Test(arguments: [1, 20, 200])
    func `what is read of a connection that leaves in a busy turn goes with it`(_ readBytesMax: Int) throws {
        let shell = try SimulatedShell(loops: 2)
        let subscriber = try client(shell, on: 1, "subscriber")
        subscriber.subscribe("t")
        let busy = try client(shell, on: 0, "busy")
        let channel = try #require(shell.acceptors[0].connect())
        shell.settle()
        let leaving = ShellClient(EncodedString(stringLiteral: identifier(shell, livingOn: 1, "leaving")), on: channel)
        leaving.connect()
        // CONNECT is there already, so that it is complete in the first round, at whatever size the rest is read.
        shell.starved = [0]
        let connectBytes = channel.unreadCount
        for number in 0..<100 { leaving.publish("t", "\(number)") }
        channel.readBytesMax = connectBytes
        channel.duringRead = { channel.duringRead = { channel.readBytesMax = readBytesMax } }
        // So many packets that the turn has several rounds: the first reads CONNECT, and the others from the connection
        // again.
        busy.channel.readBytesMax = 1200
        for _ in 0..<1000 { busy.publish("u", "x") }
        let calls = channel.calls
        shell.turn(0)
        #expect(channel.calls - calls > 1, "it was read from once only")
        #expect(channel.unreadCount > 0 && shell.loops[0].links.compactMap { $0 }.count == 1, "it has not left with this turn")
        shell.starved = []
        shell.settle()
        leaving.receive()
        subscriber.receive()
        #expect(leaving.connack?.isAccepted == true)
        #expect(subscriber.texts == (0..<100).map { "\($0)" })
        shell.stop()
        shell.finish()
    }

    // MARK: Stop

    @Test func `a connection handed over behind the word to stop is told so and closed`() throws {
        let shell = try SimulatedShell(loops: 2)
        let channel = try #require(shell.acceptors[0].connect())
        let late = ShellClient(EncodedString(stringLiteral: identifier(shell, livingOn: 1)), on: channel)
        late.connect(expiry: 100)
        // The message leaves the first loop, and the word to stop is there before it.
        shell.starved = [1]
        let shutdownBarrier = ShutdownBarrier(loops: 2)
        shell.loops[1].mailbox.post(.stop(shutdownBarrier))
        shell.settle()
        shell.loops[0].mailbox.post(.stop(shutdownBarrier))
        shell.starved = []
        shell.settle()
        late.receive()
        #expect(late.connack?.reasonCode == .serverUnavailable)
        late.channel.end()
        shell.finish()
    }

    @Test func `no loop ends before the others have parted, and none is forgotten asleep`() throws {
        let shell = try SimulatedShell(loops: 3)
        let shutdownBarrier = ShutdownBarrier(loops: 3)
        for loop in shell.loops.dropLast() { loop.mailbox.post(.stop(shutdownBarrier)) }
        shell.settle()
        #expect(shell.hasEnded == [false, false, false])
        shell.loops[2].mailbox.post(.stop(shutdownBarrier))
        shell.settle()
        #expect(shell.hasEnded == [true, true, true])
        shell.finish(within: 0)
    }

    @Test func `what comes to a loop in the turn in which it would end is looked after`() throws {
        let shell = try SimulatedShell(loops: 2)
        let last = try client(shell, on: 1, "last")
        let late = ShellClient(
            EncodedString(stringLiteral: identifier(shell, livingOn: 1, "late")), on: try #require(shell.acceptors[0].connect()))
        late.connect()
        shell.starved = [0]
        let shutdownBarrier = ShutdownBarrier(loops: 2)
        shell.loops[1].mailbox.post(.stop(shutdownBarrier))
        shell.settle()
        last.channel.end()
        // The other loop's thread hands over a connection, is told to stop, and parts, all at that moment.
        last.channel.duringRead = {
            for _ in 0..<3 { shell.turn(0) }
            shell.loops[0].mailbox.post(.stop(shutdownBarrier))
            for _ in 0..<2 { shell.turn(0) }
        }
        shell.starved = []
        shell.settle()
        late.receive()
        #expect(late.connack?.reasonCode == .serverUnavailable)
        late.channel.end()
        shell.finish()
    }

    @Test func `a peer that never ends its side holds up the end for no longer than it is given`() throws {
        let shell = try SimulatedShell(loops: 2)
        let stubborn = try client(shell, on: 0, "stubborn")
        let polite = try client(shell, on: 1, "polite")
        shell.stop()
        shell.settle()
        polite.receive()
        stubborn.receive()
        #expect(polite.disconnectReason == .serverShuttingDown)
        #expect(stubborn.disconnectReason == .serverShuttingDown)
        polite.channel.end()
        shell.settle()
        #expect(polite.channel.isClosed && !stubborn.channel.isClosed)
        #expect(shell.acceptors[0].connect() == nil, "nobody is accepted any more")
        // It goes on sending, and does not end.
        for _ in 0..<9 {
            stubborn.send(.pingreq)
            shell.advance(milliseconds: ServerLoops.Limits.drainMilliseconds / 10)
        }
        #expect(!stubborn.channel.isClosed)
        shell.finish(within: ServerLoops.Limits.drainMilliseconds / 10)
    }

    @Test func `a peer that reads nothing holds up the end for no longer than it may linger`() throws {
        let shell = try SimulatedShell(loops: 2)
        let deaf = try client(shell, on: 1, "deaf")
        deaf.channel.roomBytes = 0
        shell.stop()
        shell.advance(milliseconds: shell.setup.settings.lingerMilliseconds - 1)
        #expect(!deaf.channel.isClosed)
        shell.finish(within: ServerLoops.Limits.drainMilliseconds + 1)
    }

    // MARK: Blocking tasks

    @Test func `what a loop commits by itself is acknowledged when it is on the disk, and turns go on meanwhile`() throws {
        let shell = try SimulatedShell(loops: 1, disk: SimulatedStore())
        let store = try #require(shell.store)
        let subscriber = try client(shell, on: 0, "subscriber", clean: false, expiry: 1000)
        subscriber.subscribe("t", qos: .atLeastOnce)
        shell.settle()
        subscriber.channel.fail()
        shell.settle()
        let publisher = try client(shell, on: 0, "publisher")
        store.isQuick = true
        let before = store.commitsHere
        publisher.publish("t", "kept", qos: .atLeastOnce)
        shell.turn(0)
        publisher.receive()
        #expect(publisher.acknowledged.isEmpty)
        // The loop's thread is at the disk: another one has its turns.
        publisher.send(.pingreq)
        shell.turn(0)
        publisher.receive()
        #expect(publisher.packets.last == .pingresp)
        #expect(store.commitsHere == before && publisher.acknowledged.isEmpty)
        shell.settle()
        publisher.receive()
        #expect(publisher.acknowledged == [1])
        #expect(store.commitsHere == before + 1 && store.tidyings >= 1)
        shell.stop()
        shell.finish()
    }

    // MARK: Parking

    /// A loop with a publisher that has brought much for another loop, which has no processor.
    private func aheadShell() throws -> (SimulatedShell, publisher: ShellClient, subscribers: [ShellClient]) {
        let shell = try SimulatedShell(loops: 2)
        // So many receivers, most of them near, that long turns are worth while: else its share of the turn would hold
        // it up.
        let near = try (0..<8).map { try client(shell, on: 0, "near \($0)") }
        let far = try (0..<4).map { try client(shell, on: 1, "far \($0)") }
        for subscriber in near + far { subscriber.subscribe("t") }
        shell.settle()
        let publisher = try client(shell, on: 0, "publisher")
        shell.starved = [1]
        for number in 0..<200 { publisher.publish("t", "a message of some length, the number of which is \(number)") }
        shell.settle()
        #expect(shell.loops[0].pressure.isAhead || shell.loops[0].backlog.isAhead(0))
        return (shell, publisher, near + far)
    }

    @Test func `who brings much for a loop that is behind waits, and for no longer than the bound`() throws {
        let (shell, publisher, _) = try aheadShell()
        let began = shell.network.now
        publisher.publish("t", "one more")
        shell.settle()
        #expect(publisher.channel.unreadCount > 0, "it is parked")
        #expect(shell.network.now == began)
        shell.advance(milliseconds: ServerLoops.Limits.parkedMillisecondsMax - 1)
        #expect(publisher.channel.unreadCount > 0, "it is parked still")
        shell.advance(milliseconds: 1)
        #expect(publisher.channel.unreadCount == 0, "the bound has come")
        shell.starved = []
        shell.stop()
        shell.finish()
    }

    @Test func `who waits is read from as soon as the other loop has caught up`() throws {
        let (shell, publisher, subscribers) = try aheadShell()
        let began = shell.network.now
        publisher.publish("t", "one more")
        shell.settle()
        #expect(publisher.channel.unreadCount > 0)
        shell.starved = []
        shell.settle()
        #expect(publisher.channel.unreadCount == 0 && shell.network.now == began)
        for subscriber in subscribers {
            subscriber.receive()
            #expect(subscriber.texts.count == 201 && subscriber.texts.last == "one more")
        }
        shell.stop()
        shell.finish()
    }

    @Test func `a parked client that fails, and one that is parked when the broker stops, end like any other`() throws {
        let (shell, publisher, _) = try aheadShell()
        publisher.publish("t", "one more")
        shell.settle()
        #expect(publisher.channel.unreadCount > 0)
        publisher.channel.fail()
        shell.settle()
        #expect(publisher.channel.isClosed)
        let (stopping, other, _) = try aheadShell()
        other.publish("t", "one more")
        stopping.settle()
        #expect(other.channel.unreadCount > 0)
        stopping.stop()
        stopping.starved = []
        stopping.finish()
        shell.starved = []
        shell.stop()
        shell.finish()
    }

    // MARK: Bounded shard messages

    @Test func `nobody is read from while another loop is too far behind`() throws {
        let shell = try SimulatedShell(loops: 2)
        let far = try client(shell, on: 1, "far")
        far.subscribe("t")
        shell.settle()
        let publisher = try client(shell, on: 0, "publisher")
        shell.starved = [1]
        let text = String(repeating: "x", count: 60_000)
        var sent = 0
        while !shell.loops[0].backlog.isHeldUp(0), sent < 1000 {
            publisher.publish("t", text)
            sent += 1
            for _ in 0..<4 { shell.turn(0) }
            shell.network.now += ServerLoops.Limits.parkedMillisecondsMax
        }
        #expect(sent < 1000 && sent * 60_000 >= ServerLoops.Limits.shardMessageBytesMax)
        let pauses = shell.pollers[0].pauses
        publisher.publish("t", text)
        for _ in 0..<10 { shell.turn(0) }
        #expect(publisher.channel.unreadCount > 60_000)
        #expect(shell.pollers[0].pauses >= pauses + 10)
        shell.starved = []
        shell.advance(milliseconds: 100)
        far.receive()
        #expect(publisher.channel.unreadCount == 0 && !shell.loops[0].backlog.isHeldUp(0))
        #expect(!far.texts.isEmpty)
        far.channel.roomBytes = .max
        shell.settle()
        shell.stop()
        shell.finish()
    }
}
