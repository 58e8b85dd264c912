import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore

@Suite struct SessionQueueTests {
    @Test(.statement("MQTT-2.2.1-4", .v5), .statement("MQTT-4.9.0-2", .v5), arguments: [UInt64(51), 52, 53, 54])
    func `random conversations agree with an array`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var model = SessionQueueModel()
        for step in 0..<8000 {
            let growing = (step / 1000) % 2 == 0
            switch random.below(100) {
            case 0..<(growing ? 40 : 12):
                let qos = Self.qos(&random)
                if qos > .atMostOnce, model.waiting.isEmpty, model.sent.count < 60, random.oneIn(2) {
                    model.appendSent(qos: qos, size: random.below(50))
                } else {
                    model.append(qos: qos, size: random.below(50), group: UInt32(random.below(3)))
                }
            case 40..<70 where model.sent.count < 60: model.send()
            case 70..<80 where !model.sent.isEmpty: model.release(random.below(model.sent.count))
            case 80..<95 where !model.sent.isEmpty: model.complete(random.oneIn(3) ? 0 : random.below(model.sent.count))
            case 95: model.drop()
            case 96: model.rewind()
            case 97 where random.oneIn(5):
                model.rewind()
                model.takeShared(of: random.oneIn(2) ? [1] : nil)
            case 98 where random.oneIn(20): model.removeAll()
            default: continue
            }
            if random.oneIn(25) { model.check() }
            guard random.oneIn(50) else { continue }
            let identifier = UInt16.random(in: 1...UInt16.max, using: &random)
            let isKnown = model.sent.contains { $0.packetIdentifier == identifier }
            #expect((model.queue.position(of: identifier) != nil) == isKnown)
        }
        model.check()
        model.removeAll()
        model.check()
    }

    @Test func `a store that says that more messages were sent than there are identifiers is taken at no more than those`() {
        var queue = SessionQueue()
        for number in 1...UInt64(65_600) {
            var entry = QueueEntry(stored: number, byteCount: 1, detail: nil, qos: .atLeastOnce, retain: false)
            if number == 65_600 { entry.packetIdentifier = 1 }
            queue.append(entry)
        }
        _ = queue.arrange([:], inFlightMax: 0)
        #expect(Set((0..<65_535).map { queue[$0].packetIdentifier }) == Set(1...UInt16.max))
        queue.removeAll(nil)
    }

    @Test(.statement("MQTT-2.3.1-3", .v311))
    func `identifiers go around past 65,535 and pass by one that is stuck`() {
        var queue = SessionQueue()
        let message = StructureMessage.make("t", ledger: MessageLedger())
        let send = { (queue: inout SessionQueue) in
            queue.append(QueueEntry(message: message, detail: nil, qos: .atLeastOnce, retain: false))
            return queue.markSent()
        }
        let stuck = send(&queue)
        var seen: Set<UInt16> = []
        var missing = 0
        var longest = 0
        for _ in 0..<66_000 {
            let identifier = send(&queue)
            seen.insert(identifier)
            longest = max(longest, queue.count)
            if let position = queue.position(of: identifier) { queue.complete(position, nil) } else { missing += 1 }
        }
        #expect(missing == 0)
        #expect(seen.count == 65_534)
        #expect(!seen.contains(0))
        #expect(!seen.contains(stuck))
        #expect(longest < 128, "vacant places behind a stuck head are given up")
        #expect(queue.position(of: stuck) == 0)
        queue.complete(0, nil)
        #expect(queue.isEmpty)
        queue.removeAll(nil)
    }

    @Test func `65,535 messages in flight have all identifiers there are`() {
        var queue = SessionQueue()
        let ledger = MessageLedger()
        let message = StructureMessage.make("t", ledger: ledger)
        var seen: Set<UInt16> = []
        for _ in 0..<65_535 {
            queue.append(QueueEntry(message: message, detail: nil, qos: .atLeastOnce, retain: false))
            seen.insert(queue.markSent())
        }
        #expect(seen.count == 65_535)
        #expect(!seen.contains(0))
        #expect(queue.inFlightBytes == 131_070)
        var missing = 0
        for identifier in UInt16(1)...UInt16.max {
            guard let position = queue.position(of: identifier) else {
                missing += 1
                continue
            }
            queue.complete(position, nil)
        }
        #expect(missing == 0)
        #expect(queue.isEmpty)
        #expect(queue.capacity == 0, "a large ring goes when it is empty")
    }

    @Test(.statement("MQTT-4.4.0-1", .v5), .statement("MQTT-4.6.0-1", .v5), .statement("MQTT-3.3.1-1", .v5))
    func `what was in flight is sent again in the same order with the same identifiers`() {
        var model = SessionQueueModel()
        for number in 0..<10 { model.append(qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce, size: number) }
        for _ in 0..<7 { model.send() }
        model.release(1)
        model.complete(2)
        model.complete(3)
        let before = model.sent.map { $0.packetIdentifier }
        for _ in 0..<3 {
            model.rewind()
            model.check()
            for _ in before { model.send() }
            model.check()
            #expect(model.sent.map { $0.packetIdentifier } == [1, 0, 2, 3, 4].map { before[$0] })
        }
        #expect(model.sent.map { $0.wasSent } == [false, true, true, true, true])
        while !model.waiting.isEmpty { model.send() }
        while !model.sent.isEmpty { model.complete(model.sent.count - 1) }
        model.check()
    }

    @Test func `places of messages dropped behind a stuck head are given up`() {
        var model = SessionQueueModel()
        model.append(qos: .atLeastOnce, size: 1)
        model.send()
        for _ in 0..<10_000 {
            model.append(qos: .atMostOnce, size: 1)
            model.send()
        }
        #expect(model.queue.count < 128)
        model.check()
        model.complete(0)
        #expect(model.queue.isEmpty)
    }

    @Test func `a session's end gives all memory back`() {
        var model = SessionQueueModel()
        model.append(qos: .atLeastOnce, size: 1)
        #expect(model.queue.capacity > 0)
        model.removeAll()
        #expect(model.queue.capacity == 0)
        model.check()
        model.append(qos: .exactlyOnce, size: 1)
        model.send()
        model.check()
        model.removeAll()
    }

    private static func qos(_ random: inout SeededGenerator) -> QoS {
        switch random.below(5) {
        case 0: .atMostOnce
        case 1...2: .atLeastOnce
        default: .exactlyOnce
        }
    }
}

/// Dropping the oldest of a queue.
@Suite struct SessionQueueDropTests {
    @Test func `the oldest message that was never sent is dropped, and the others keep their order`() {
        for (sent, resent, waiting) in [(0, 0, 5), (3, 0, 5), (0, 4, 5), (2, 3, 4), (70, 0, 3), (0, 2, 0)] {
            let ledger = MessageLedger()
            var queue = SessionQueue()
            func append(_ number: Int) {
                let message = StructureMessage.make("\(number)", payload: [0], qos: .atLeastOnce, ledger: ledger)
                queue.append(QueueEntry(message: message, detail: nil, qos: .atLeastOnce, retain: false))
            }
            for number in 0..<(sent + resent) { append(number) }
            for _ in 0..<(sent + resent) { _ = queue.markSent() }
            if resent > 0 {
                queue.rewind()
                for _ in 0..<sent { _ = queue.markSent() }
            }
            for number in 0..<waiting { append(100 + number) }
            let (bytes, inFlight) = (queue.waitingBytes, queue.inFlight)
            func topics() -> [String] {
                (0..<queue.count).compactMap { queue[$0].message?.object }.map {
                    String(decoding: $0.topic, as: UTF8.self)
                }
            }
            #expect(queue.dropOldestUnsent(nil) == (waiting > 0))
            #expect(topics() == (0..<(sent + resent)).map { "\($0)" } + (1..<max(1, waiting)).map { "\(100 + $0)" })
            #expect(queue.inFlight == inFlight)
            #expect(queue.waitingBytes == bytes - (waiting > 0 ? 4 : 0))
            for identifier in 1...UInt16(max(1, sent)) where sent > 0 {
                #expect(queue.position(of: identifier) == Int(identifier) - 1)
            }
            queue.removeAll(nil)
            #expect(ledger.byteCount == 0)
        }
    }
}
