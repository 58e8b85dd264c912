import ClientCore
import MQTTCodec
import TestBasics
import Testing

@testable import ClientStore

@Suite struct SpillQueueTests {
    private func message(_ number: Int) -> ReceivedMessage {
        var message = ReceivedMessage(
            topic: "t", payload: Payload("\(number)"), qos: .atLeastOnce, retain: false, duplicate: false,
            token: AcknowledgementToken(number: UInt64(number)))
        message.properties.contentType = "text/plain"
        return message
    }

    @Test(arguments: UInt64(1)...100)
    func `what was taken in comes to the consumer in order, and is gone only when it is settled`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let disk = MemoryDisk()
        var store = try MemoryStore(disk)
        var spill = try SpillQueue("t", subscription: 3, in: store)
        var (next, settled) = (0, 0)
        var inHand: [ReceivedMessage] = []
        for _ in 0..<300 {
            switch random.below(7) {
            case 0...2:
                let (number, change) = spill.arrived(message(next))
                next += 1
                store.commit(StoreBatch([change])) { _ in }
                spill.stored(through: number)
            case 3, 4:
                while let query = spill.nextReading() { _ = spill.read(try store.rows(query), of: query) }
                guard let taken = spill.take() else { continue }
                #expect(taken.payload.text == "\(settled + inHand.count)", "seed \(seed)")
                #expect(taken.properties.contentType == "text/plain")
                inHand.append(taken)
            case 5:
                guard !inHand.isEmpty, let token = inHand.removeFirst().token else { continue }
                let change = spill.settled(token)
                store.commit(StoreBatch([try #require(change)])) { _ in }
                settled += 1
            default:
                guard random.oneIn(6) else { continue }
                store.crash()
                store = try MemoryStore(disk)
                spill = try SpillQueue("t", subscription: 4, in: store)
                inHand = []
            }
        }
        #expect(try store.measure(StoreQuery(.spill)).rows == next - settled, "seed \(seed)")
    }

    @Test func `of very many messages few are in memory`() throws {
        let store = try MemoryStore()
        var spill = try SpillQueue("t", subscription: 1, in: store)
        for number in 0..<5000 {
            let (stored, change) = spill.arrived(message(number))
            store.commit(StoreBatch([change])) { _ in }
            spill.stored(through: stored)
        }
        var count = 0
        while !spill.isEmpty {
            while let query = spill.nextReading() {
                #expect(query.limit <= Limits.queueWindowMax)
                _ = spill.read(try store.rows(query), of: query)
            }
            while let taken = spill.take() {
                #expect(taken.payload.text == "\(count)")
                count += 1
            }
        }
        #expect(count == 5000)
    }

    @Test func `tokens of stored messages are no others`() {
        let token = AcknowledgementToken(stored: 9, for: 3)
        #expect(token.isStored)
        #expect(token.storedNumber(for: 3) == 9)
        #expect(token.storedNumber(for: 4) == nil)
        #expect(!AcknowledgementToken(number: 9).isStored)
        #expect(AcknowledgementToken(number: 9).storedNumber(for: 0) == nil)
    }
}
