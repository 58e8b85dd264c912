import Bytes
import MartletTesting
import TestBasics
import Testing

/// A client with an outbox on a disk crashes again and again, and so does the broker.
@Suite(.serialized) struct OutboxSeedTests {
    @Test(arguments: Seeds.ofOracles) func `what enqueue has returned arrives, once at QoS 2, in order`(seeds: ClosedRange<UInt64>)
        async throws
    {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.play($0) } }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let seed = world.seed
        var random = SeededGenerator(seed: seed &+ 1000)
        let wire = WireOracle(world)
        let broker = world.broker(isPersistent: true)
        let crashesBroker = random.oneIn(2)
        let receiver = try world.client("receiver", of: broker) { $0.session = .kept(.seconds(1_000_000)) }
        let messages = receiver.messages("t/#")
        receiver.start()
        try await messages.granted()
        let got = Got()
        let collector = Task {
            for try await message in messages { got.all.append((message.topic.description, "\(message.payload)")) }
        }
        world.faults = .rough
        let disk = world.disk("disk")
        wire.mayPublish = { [unowned world] client, message in
            guard client == "shop" else { return true }
            // Of QoS 2 also under which identifier: by that the server knows it again after a crash.
            return world.isStored(message, in: "outbox", on: "disk")
                && (message.qos != .exactlyOnce
                    || world.stored(in: "outgoing", on: "disk").contains {
                        $0.body.withUnsafeBytes { FlightRow(fields: $0) }?.identifier == message.packetIdentifier
                    })
        }
        let (returned, statuses) = (Sent(), StatusOracle())
        func open() throws -> Client {
            let client = try world.client("shop", of: broker) {
                $0.session = .kept(.seconds(1_000_000))
                $0.store = disk
                $0.inFlight = Int.random(in: 1...8, using: &random)
            }
            client.start()
            return client
        }
        var shop = try open()
        for life in 0..<Int.random(in: 2...5, using: &random) {
            let client = shop
            // It waits for ever when its client crashes.
            Task {
                for number in 0..<8 {
                    let qos: QoS = number.isMultiple(of: 3) ? .exactlyOnce : .atLeastOnce
                    guard let topic = TopicName("t/\(qos.rawValue)") else { continue }
                    let delivery = try await client.enqueue(Payload("\(life)-\(number)"), to: topic, qos: qos)
                    returned.all.append((topic.description, "\(life)-\(number)", qos))
                    statuses.follow(delivery)
                    if number.isMultiple(of: 2) { await world.advance(by: .milliseconds(500)) }
                }
            }
            await world.disturb({ [client, receiver] }, for: .seconds(Int.random(in: 0...60, using: &random)), &random)
            if crashesBroker, random.oneIn(2) { broker.crash(for: .milliseconds(Int.random(in: 0...5000, using: &random))) }
            world.crash(shop)
            shop = try open()
        }
        for delivery in try await shop.outbox.open() { statuses.follow(delivery) }
        await world.advance(by: .seconds(60))
        world.heal()
        await world.advance(by: .seconds(900))

        #expect(!returned.all.isEmpty, "seed \(seed)")
        #expect(try await shop.outbox.open().isEmpty, "seed \(seed)")
        #expect(ArrivalOracle(expected: returned.all).problems(in: got.all, others: true) == [], "seed \(seed): the receiver")
        #expect(statuses.problems == [], "seed \(seed)")
        #expect(wire.problems == [], "seed \(seed)")
        #expect(wire.unanswered == [], "seed \(seed)")
        let twice = Dictionary(grouping: got.all.filter { $0.topic == "t/2" }, by: \.payload).filter { $0.value.count > 1 }.keys
        #expect(twice.sorted() == [], "seed \(seed): also what enqueue has not returned comes once")
        collector.cancel()
        _ = await collector.result
        return wire.fingerprint
    }
}

/// What somebody got, in order.
final class Got: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    var all: [(topic: String, payload: String)] = []
}

/// Statuses only go forward.
final class StatusOracle: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private(set) var problems: [String] = []

    func follow(_ delivery: Delivery) {
        Task {
            var last = DeliveryStatus.queued(ahead: .max)
            for await status in delivery.statuses {
                if Self.rank(status) < Self.rank(last) { problems.append("\(delivery.id): \(status) after \(last)") }
                if last.isFinal { problems.append("\(delivery.id): \(status) after the last status") }
                last = status
            }
            if case .failed(let error) = last { problems.append("\(delivery.id): \(error)") }
        }
    }

    private static func rank(_ status: DeliveryStatus) -> Int {
        switch status {
        case .queued: 0
        case .sent: 1
        case .received: 2
        case .acknowledged, .failed, .expired: 3
        }
    }
}

/// What a row of a client's store says of a message in flight, as far as the test asks for it.
private struct FlightRow: FieldCoded {
    var identifier: UInt16 = 0

    static let blank = FlightRow()

    mutating func code(_ coder: inout some FieldCoder) { coder.field(2, &identifier) }
}
