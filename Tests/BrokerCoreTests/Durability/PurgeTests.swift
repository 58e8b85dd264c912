import BrokerSimulation
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Purges of queues by topic, where the store has most of the queue.
@Suite struct PurgeTests {
    private static func settings(_ change: (inout BrokerSettings) -> Void = { _ in }) -> BrokerSettings {
        SimulatedBroker.testSettings {
            $0.queuedMessagesMax = 0
            $0.residentMessagesMax = 8
            change(&$0)
        }
    }

    /// A broker, a client that is away with messages in its queue, and a publisher.
    private struct House {
        var broker: SimulatedBroker
        let client: TestClient
        var publisher: TestClient

        init(_ settings: BrokerSettings = PurgeTests.settings(), seed: UInt64 = 1, expiry: UInt32 = 1000) {
            broker = SimulatedBroker(settings: settings, seed: seed, store: SimulatedStore())
            client = broker.connected("away", expiry: expiry)
            client.subscribe("#", qos: .exactlyOnce)
            client.disconnect()
            publisher = broker.connected("publisher")
        }

        var core: BrokerShard { broker.cores[0] }
        var session: Session? { core.sessions.find("away") }
        var entryRows: Int { broker.store?.rows[.entry]?.count ?? 0 }

        /// The topics are t/0, t/1 and t/2 in turn.
        func publish(_ numbers: Range<Int>, padding: Int = 0) {
            let rest = String(repeating: "x", count: padding)
            for number in numbers {
                publisher.publish("t/\(number % 3)", "\(number)\(rest)", qos: .atLeastOnce, until: .sent)
            }
            broker.settle()
        }

        /// Gives the command, and one turn to begin with it.
        func begin(_ filter: TopicFilter? = "t/1", token: UInt64 = 1) {
            #expect(core.perform(ShardCommand(.purgeQueue(of: "away", matching: filter), token: token)))
            broker.step()
        }

        /// Some turns, in which the store answers.
        func step(_ count: Int) { for _ in 0..<count { broker.stepOnce() } }

        func results() -> [ShardCommandOutcome.Result] { broker.takeOutcomes(of: 0).map(\.result) }

        mutating func crash(committing: Int = 0) {
            broker = broker.crashed(committing: committing)
            client.broker = broker
            client.connectionIsGone()
            publisher = broker.connected("publisher")
        }

        func connect() { client.connect(clean: false, expiry: 1000) }

        var numbers: [Int] { client.texts.compactMap { Int($0.prefix { $0 != "x" }) } }
    }

    private func numbers(_ range: Range<Int>, without topic: Int = 1) -> [Int] { range.filter { $0 % 3 != topic } }

    @Test func `a purge by topic reaches what only the store has, and what stays keeps its order`() {
        let house = House()
        house.publish(0..<1000)
        #expect(house.broker.perform(.purgeQueue(of: "away", matching: "t/1")) == .removed(333))
        #expect(house.entryRows == 667 && house.session?.queue.waiting == 667)
        house.session?.queue.checkInvariants()
        #expect(house.broker.perform(.purgeQueue(of: "away", matching: "t/1")) == .removed(0))
        house.publish(1000..<1010)
        house.connect()
        #expect(house.numbers == numbers(0..<1000) + Array(1000..<1010))
        #expect(house.entryRows == 0 && house.session?.queue.paged == nil)
    }

    @Test(arguments: [0, 300]) func `what a start has brought back is purged as well, and stays so through crashes`(padding: Int) {
        var house = House()
        let other = house.broker.connected("other", expiry: 1000)
        other.subscribe("t/0", qos: .atLeastOnce)
        other.subscribe("t/1", qos: .atLeastOnce)
        other.disconnect()
        house.publish(0..<100, padding: padding)
        house.crash()
        #expect(house.session?.queue.waitingResident == 8)
        #expect(house.broker.perform(.purgeQueue(of: "away", matching: "t/1")) == .removed(33))
        house.session?.queue.checkInvariants()
        // It was answered, so it is on the disk.
        house.crash()
        #expect(house.entryRows == 67 + 67)
        house.connect()
        #expect(house.numbers == numbers(0..<100))
        #expect(house.entryRows == 67)
        other.comeBack(to: house.broker)
        #expect(other.texts.compactMap { Int($0.prefix { $0 != "x" }) } == numbers(0..<100, without: 2))
        house.broker.settle()
        #expect(house.entryRows == 0 && house.broker.store?.rows[.message]?.isEmpty ?? true)
    }

    @Test func `rows are read in parts, each in proportion to what memory may hold`() {
        let house = House()
        house.publish(0..<400)
        house.begin()
        var (turns, largest) = (0, 0)
        while house.core.inspection.commands.isEmpty == false, house.broker.stepOnce() {
            turns += 1
            largest = max(largest, house.session?.queue.paged?.asked.count ?? 0)
        }
        #expect(largest == 32 && turns >= 2 * 392 / 32)
        #expect(house.results() == [.removed(133)])
    }

    @Test func `other commands and questions go on while the store reads`() {
        let house = House()
        house.publish(0..<200)
        house.begin()
        while house.broker.step() {}
        #expect(!house.core.inspection.commands.isEmpty && house.core.nextDeadline != house.broker.now)
        #expect(house.core.perform(ShardCommand(.kick("publisher", publishesWill: true), token: 2)))
        while house.broker.step() {}
        #expect(house.results() == [.done])
        house.broker.settle()
        #expect(house.results() == [.removed(67)])
    }

    @Test(arguments: 1...15)
    func `a client that takes its queue meanwhile gets what stays once and in order, and what is new`(seed: UInt64) {
        let house = House(Self.settings { $0.inFlightMessagesMax = 7 }, seed: seed)
        var random = SeededGenerator(seed: seed)
        house.publish(0..<300)
        house.begin()
        house.step(Int.random(in: 0..<20, using: &random))
        var end = 300
        for _ in 0..<30 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                house.publisher.publish("t/\(end % 3)", "\(end)", qos: .atLeastOnce, until: .sent)
                end += 1
            case 1 where !house.client.isConnected:
                house.client.beginConnect(
                    ConnectPacket(
                        version: .v5, cleanStart: false,
                        properties: .having { ($0.sessionExpiryInterval, $0.receiveMaximum) = (1000, 5) }, clientIdentifier: "away")
                )
            case 2 where random.oneIn(4): house.client.connection?.close()
            default: house.step(Int.random(in: 1..<10, using: &random))
            }
        }
        house.broker.settle()
        if !house.client.isConnected { house.connect() }
        guard case .removed(let removed)? = house.results().first else { return #expect(Bool(false), "there is no outcome") }
        let received = house.numbers
        #expect(received == received.sorted() && Set(received).count == received.count)
        #expect(received.filter { $0 >= 300 } == Array(300..<end))
        #expect(received.filter { $0 < 300 && $0 % 3 != 1 } == numbers(0..<300))
        #expect(removed + received.count { $0 < 300 && $0 % 3 == 1 } == 100)
        #expect(house.entryRows == 0 && house.session?.queue.isEmpty == true)
    }

    @Test(arguments: 1...4) func `what comes after a command stays, without a filter too`(seed: UInt64) {
        for filter in [TopicFilter("t/#"), nil] {
            let house = House(seed: seed)
            house.publish(0..<300)
            house.begin(filter)
            for number in 300..<330 {
                house.publisher.publish("t/1", "\(number)", qos: .atLeastOnce, until: .sent)
                house.broker.stepOnce()
            }
            house.broker.settle()
            #expect(house.results() == [.removed(300)])
            house.connect()
            #expect(house.numbers == Array(300..<330))
        }
    }

    @Test(arguments: 0..<10) func `two purges of a queue at once do both their part`(steps: Int) {
        let house = House(seed: UInt64(steps))
        house.publish(0..<300)
        house.begin("t/1", token: 1)
        house.step(steps)
        house.begin("t/2", token: 2)
        house.step(steps)
        house.begin(steps % 4 == 0 ? nil : "t/2", token: 3)
        house.broker.settle()
        #expect(house.core.inspection.commands.isEmpty)
        let counts = house.results().map { if case .removed(let count) = $0 { count } else { -1 } }
        #expect(counts.count == 3 && counts.allSatisfy { $0 >= 0 })
        #expect(counts.reduce(0, +) == (steps % 4 == 0 ? 300 : 200))
        house.connect()
        #expect(house.numbers == (steps % 4 == 0 ? [] : (0..<300).filter { $0 % 3 == 0 }))
        #expect(house.entryRows == 0)
    }

    private enum End: CaseIterable {
        case cleanStart, expiry, command
    }

    @Test(arguments: [0, 1, 3, 6, 10]) func `an order on a session that ends meanwhile is answered, and nothing is left`(steps: Int)
    {
        for end in End.allCases {
            let house = House(seed: UInt64(steps), expiry: 5)
            house.publish(0..<300)
            house.begin()
            house.step(steps)
            switch end {
            case .cleanStart: house.client.connect(clean: true)
            case .expiry: house.broker.advance(seconds: 10)
            case .command: _ = house.core.perform(ShardCommand(.endSession("away", publishesWill: true), token: 2))
            }
            house.broker.settle()
            let results = house.results().filter { $0 != .done }
            #expect(results.count == 1 && house.core.inspection.commands.isEmpty)
            guard case .removed(0...100)? = results.first else { return #expect(Bool(false), "\(results)") }
            #expect(house.entryRows == 0 && house.client.texts.isEmpty)
        }
    }

    @Test(arguments: 0..<8) func `a crash in the midst of it loses nothing else, and brings nothing twice`(steps: Int) {
        for committing in [0, 1, 5] {
            var house = House(seed: UInt64(steps))
            house.publish(0..<200, padding: steps % 2 * 300)
            house.broker.store?.mode = steps % 3 == 0 ? .paused : .prompt
            house.begin()
            house.step(2 * steps)
            house.crash(committing: committing)
            house.broker.store?.mode = .prompt
            house.connect()
            house.broker.settle()
            #expect(house.numbers == house.numbers.sorted() && house.numbers.filter { $0 % 3 != 1 } == numbers(0..<200))
            #expect(house.entryRows == 0 && house.broker.store?.rows[.message]?.isEmpty ?? true)
        }
    }

    @Test func `the answer waits until what was purged would not come back`() {
        for filter in [TopicFilter("t/1"), nil] {
            let house = House()
            house.publish(0..<100)
            house.broker.store?.mode = .paused
            house.begin(filter)
            house.broker.settle()
            #expect(house.results().isEmpty && house.core.nextDeadline != house.broker.now)
            house.broker.commit()
            house.broker.commit()
            #expect(house.results() == [.removed(filter == nil ? 100 : 33)])
        }
    }

    @Test func `the answer comes where all is undone before the store was given it`() {
        let house = House()
        house.broker.store?.mode = .paused
        house.publish(0..<1)
        // The store has the first one still.
        house.publisher.publish("u", "x", qos: .atLeastOnce, until: .sent)
        house.broker.settle()
        house.begin("u")
        house.broker.settle()
        #expect(house.results().isEmpty)
        house.broker.commit()
        #expect(house.results() == [.removed(1)] && house.entryRows == 1)
    }

    @Test(arguments: [SimulatedStore.Mode.full, .failed]) func `a store that takes nothing is told of`(mode: SimulatedStore.Mode) {
        let house = House()
        house.publish(0..<100)
        house.broker.store?.mode = mode
        house.begin()
        house.broker.settle()
        #expect(house.results() == [.removedInPart(33, .unstored)] && house.core.inspection.commands.isEmpty)
    }

    @Test func `a store that is given what there is now and then is not awaited`() {
        let house = House(Self.settings { $0.storesAtOnce = false })
        house.publish(0..<100)
        house.core.save()
        house.broker.settle()
        house.begin()
        house.broker.settle()
        #expect(house.results() == [.removed(33)])
    }

    private func lose(_ keys: some Collection<UInt64>, of house: House) {
        let batch = JournalBatch()
        for key in keys {
            batch.append(JournalRecord(.delete, .entry, key: key, body: UnsafeRawBufferPointer(start: nil, count: 0)))
        }
        house.broker.store?.write(batch)
    }

    @Test func `a row that cannot be read stays in its place, and is told of`() {
        let house = House()
        house.publish(0..<100)
        let keys = (house.broker.store?.rows[.entry] ?? [:]).keys.sorted()
        lose([keys[30], keys[31]], of: house)
        #expect(house.broker.perform(.purgeQueue(of: "away", matching: "t/1")) == .removedInPart(32, .unreadable(2)))
        #expect(house.session?.queue.waiting == 68)
        house.connect()
        #expect(house.numbers == numbers(0..<100).filter { $0 != 30 })
        #expect(house.broker.logLines.count { $0.contains("cannot be read from the store") } == 2)
    }

    @Test func `where much cannot be read, the rest is left alone`() {
        let house = House()
        house.publish(0..<500)
        lose((house.broker.store?.rows[.entry] ?? [:]).keys.sorted().dropFirst(100), of: house)
        guard case .removedInPart(33, .unreadable(let count))? = house.broker.perform(.purgeQueue(of: "away", matching: "t/1"))
        else {
            return #expect(Bool(false), "the command has another outcome")
        }
        #expect((101...132).contains(count))
        #expect(house.session?.queue.waiting == 467)
        house.session?.queue.checkInvariants()
        // Another one begins anew.
        #expect(house.broker.perform(.purgeQueue(of: "away", matching: "t/0")) != nil && house.core.inspection.commands.isEmpty)
    }

    @Test func `what gives way in a full queue while it is read is no message that cannot be read`() {
        let house = House(
            Self.settings {
                $0.queuedMessagesMax = 60
                $0.queueOverflow = .dropsOldest
            })
        house.publish(0..<60)
        house.begin()
        while house.broker.step() {}
        #expect(house.session?.queue.paged?.isSifting == true)
        for number in 60..<90 { house.publisher.publish("t/\(number % 3)", "\(number)", qos: .atLeastOnce, until: .sent) }
        while house.broker.step() {}
        // The rows of the oldest ones go before the store has read them.
        house.broker.commit()
        guard case .removed(let removed)? = house.results().first else { return #expect(Bool(false), "there is no outcome") }
        #expect(removed < 20)
        house.connect()
        #expect(house.numbers == house.numbers.sorted())
        #expect(house.numbers.filter { $0 < 60 } == numbers(30..<60).filter { house.numbers.contains($0) })
        #expect(house.numbers.filter { $0 >= 60 } == Array(60..<90) && house.entryRows == 0)
    }

    @Test func `expired messages are purged with the others, or left to expire`() {
        let house = House()
        for number in 0..<120 {
            house.publisher.publish(
                "t/\(number % 3)", "\(number)", qos: .atLeastOnce,
                properties: .having { if number % 2 == 0 { $0.messageExpiryInterval = 10 } }, until: .sent)
        }
        house.broker.settle()
        house.broker.advance(seconds: 20)
        #expect(house.broker.perform(.purgeQueue(of: "away", matching: "t/1")) == .removed(40))
        house.connect()
        #expect(house.numbers == numbers(0..<120).filter { $0 % 2 == 1 })
        #expect(house.entryRows == 0)
    }

    @Test func `what a share group has given keeps its place among what stays`() {
        let house = House()
        house.connect()
        house.client.unsubscribe("#")
        house.client.subscribe("t/+", qos: .atLeastOnce)
        house.client.subscribe("$share/g/shared", qos: .atLeastOnce)
        house.client.disconnect()
        for number in 0..<90 {
            house.publisher.publish(
                number % 5 == 0 ? "shared" : "t/\(number % 3)", "\(number)", qos: .atLeastOnce, until: .sent)
        }
        house.broker.settle()
        let expected = (0..<90).filter { $0 % 5 == 0 || $0 % 3 != 1 }
        #expect(house.broker.perform(.purgeQueue(of: "away", matching: "t/1")) == .removed(90 - expected.count))
        house.session?.queue.checkInvariants()
        house.connect()
        #expect(house.numbers == expected)
        #expect(house.entryRows == 0)
    }
}
