import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What is held until it is durable, against a plain list for each connection.
@Suite struct HeldQueueTests {
    private struct Expected {
        let sequence: UInt64
        let packetIdentifier: UInt16
        let dependency: DurabilityDependency
    }

    private static let shardCount = 4
    /// The shard whose queue it is.
    private static let shard = 1

    private static func connection(_ slot: Int, generation: UInt32 = 0) -> ConnectionID {
        ConnectionID(slot: UInt32(slot), generation: generation)
    }

    @Test(arguments: 0..<40) func `whatever may go goes, in its connection's order, and nothing else`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = HeldQueue(shard: Self.shard, receiverCount: Self.shardCount)
        var shardMessages = AwaitedShardMessages(receiverCount: Self.shardCount)
        var sentTo: [[UInt64]] = Array(repeating: [], count: Self.shardCount)
        var lists: [ConnectionID: [Expected]] = [:]
        var (sequence, persisted, number): (UInt64, UInt64, UInt16) = (0, 0, 0)

        func isReady(_ item: Expected) -> Bool {
            item.sequence <= persisted
                && !sentTo.indices.contains { shard in
                    item.dependency.shards >> UInt64(shard) & 1 == 1 && sentTo[shard].contains { $0 <= item.dependency.serial }
                }
        }

        for _ in 0..<600 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let connection = Self.connection(Int.random(in: 0..<6, using: &random))
                if random.oneIn(2) { sequence += 1 }
                var shards: UInt64 = 0
                for shard in 0..<Self.shardCount where shard != Self.shard && random.oneIn(4) {
                    shards |= 1 << UInt64(shard)
                    shardMessages.require(of: shard)
                    if sentTo[shard].last != shardMessages.serial { sentTo[shard].append(shardMessages.serial) }
                }
                number += 1
                let dependency = DurabilityDependency(shards: shards, serial: shardMessages.serial)
                queue.append(HeldPacket(.puback, after: sequence, connection, number), dependingOn: dependency)
                lists[connection, default: []].append(
                    Expected(sequence: sequence, packetIdentifier: number, dependency: dependency))
            case 5: shardMessages.posted()
            case 6: persisted = UInt64.random(in: persisted...sequence, using: &random)
            default:
                let shard = Int.random(in: 0..<Self.shardCount, using: &random)
                guard let serial = sentTo[shard].randomElement(using: &random) else { continue }
                sentTo[shard].removeAll { $0 <= serial }
                shardMessages.confirm(serial, by: shard)
                queue.confirmed(by: shard)
            }
            queue.checkInvariants()
            shardMessages.checkInvariants()
            guard random.oneIn(3) else { continue }
            while let released = queue.pop(persisted: persisted, shardMessages) {
                guard let first = lists[released.item.connection]?.first else {
                    Issue.record("something was released that was not held (seed \(seed))")
                    return
                }
                #expect(first.packetIdentifier == released.item.packetIdentifier)
                #expect(isReady(first))
                lists[released.item.connection]?.removeFirst()
            }
            #expect(lists.values.allSatisfy { $0.first.map { !isReady($0) } ?? true }, "nothing stays without a reason")
            #expect(queue.count == lists.values.reduce(0) { $0 + $1.count })
        }
    }

    @Test func `a line that an earlier connection has left behind holds up no later one in its slot`() {
        var queue = HeldQueue(shard: 0, receiverCount: 2)
        var shardMessages = AwaitedShardMessages(receiverCount: 2)
        shardMessages.require(of: 1)
        let late = DurabilityDependency(shards: 2, serial: shardMessages.serial)
        queue.append(HeldPacket(.puback, after: 1, Self.connection(3), 1), dependingOn: late)
        queue.append(
            .unsuback(UnsubackPacket(packetIdentifier: 2, reasonCodes: [])), HeldPacket(.answer, after: 1, Self.connection(3)))
        #expect(queue.pop(persisted: 1, shardMessages) == nil)
        shardMessages.posted()
        queue.append(HeldPacket(.puback, after: 2, Self.connection(3, generation: 1), 3))
        #expect(queue.pop(persisted: 2, shardMessages)?.item.packetIdentifier == 3)
        shardMessages.require(of: 1)
        queue.append(
            HeldPacket(.puback, after: 3, Self.connection(3, generation: 1), 4),
            dependingOn: DurabilityDependency(shards: 2, serial: shardMessages.serial))
        #expect(queue.pop(persisted: 3, shardMessages) == nil)
        queue.checkInvariants()
        #expect(queue.count == 1, "what was left behind is forgotten, with its answer")
        shardMessages.confirm(shardMessages.serial, by: 1)
        queue.confirmed(by: 1)
        #expect(queue.pop(persisted: 3, shardMessages)?.item.packetIdentifier == 4)
        #expect(queue.pop(persisted: 3, shardMessages) == nil)
        queue.checkInvariants()
    }

    @Test func `what relies on everything waits for all that was sent until it is at the front`() {
        var queue = HeldQueue(shard: 0, receiverCount: 3)
        var shardMessages = AwaitedShardMessages(receiverCount: 3)
        queue.append(HeldPacket(.pubrec, after: 1, Self.connection(0), 1), dependingOn: .everything)
        shardMessages.posted()
        shardMessages.require(of: 2)
        #expect(queue.pop(persisted: 1, shardMessages) == nil)
        shardMessages.posted()
        shardMessages.require(of: 1)
        shardMessages.confirm(2, by: 2)
        queue.confirmed(by: 2)
        #expect(queue.pop(persisted: 1, shardMessages)?.item.packetIdentifier == 1, "what was mailed later is nothing to it")
    }

    @Test func `a PUBREC that waits again stays before what its connection has behind it`() {
        var queue = HeldQueue(shard: 0, receiverCount: 2)
        var shardMessages = AwaitedShardMessages(receiverCount: 2)
        queue.append(HeldPacket(.pubrec, after: 1, Self.connection(0), 1))
        queue.append(HeldPacket(.puback, after: 1, Self.connection(0), 2))
        let first = queue.pop(persisted: 1, shardMessages)?.item
        #expect(first?.packetIdentifier == 1)
        shardMessages.require(of: 1)
        let again = HeldPacket(.pubrec, after: 2, Self.connection(0), 1)
        let isWaiting = queue.waitsAgain(
            again, dependingOn: DurabilityDependency(shards: 2, serial: shardMessages.serial), shardMessages, persisted: 1)
        #expect(isWaiting)
        #expect(queue.pop(persisted: 1, shardMessages) == nil)
        shardMessages.confirm(shardMessages.serial, by: 1)
        queue.confirmed(by: 1)
        #expect(queue.pop(persisted: 1, shardMessages) == nil, "its own change is not durable")
        #expect(queue.pop(persisted: 2, shardMessages)?.item.packetIdentifier == 1)
        #expect(queue.pop(persisted: 2, shardMessages)?.item.packetIdentifier == 2)
    }
}
