import BrokerModel
import MQTTCodec
import Testing

@testable import BrokerCore

/// What a shard has that waits until something is durable.
@Suite struct DurabilityTests {
    private let journal = Journal(shard: 0)
    private var durability: Durability

    init() { durability = Durability(shard: 0, shardCount: 3, journal: journal) }

    private mutating func commit() {
        if let batch = durability.takeBatch(storesAtOnce: true, isStopping: false, now: 0) {
            journal.committed(through: batch.lastSequence)
        }
    }

    @Test mutating func `a packet that changes nothing relies on nothing`() {
        durability.beginPacket()
        journal.insert(.subscription, key: 1, [1])
        _ = durability.requireConfirmation(of: 2)
        #expect(durability.hasChanged && durability.dependency.shards == 4)
        durability.beginPacket()
        #expect(!durability.hasChanged && durability.dependency.shards == 0)
        #expect(durability.mustHold(dependingOn: .nothing), "the change before is not durable")
        commit()
        #expect(!durability.mustHold(dependingOn: durability.dependency))
        #expect(durability.mustHold(dependingOn: .everything))
        durability.confirmed(durability.shardMessages.serial, by: 2)
        #expect(!durability.mustHold(dependingOn: .everything))
    }

    @Test mutating func `shard messages is confirmed when what came of it is durable here and where it was sent on`() {
        durability.beginPacket()
        journal.insert(.entry, key: 1 << 8, [1])
        durability.oweConfirmation(5, to: 1)
        durability.beginPacket()
        _ = durability.requireConfirmation(of: 2)
        durability.oweConfirmation(6, to: 1)
        durability.checkInvariants()
        #expect(durability.takeConfirmation(for: 1) == nil)
        commit()
        #expect(durability.takeConfirmation(for: 1) == 5)
        #expect(durability.takeConfirmation(for: 1) == nil)
        durability.confirmed(durability.shardMessages.serial, by: 2)
        #expect(durability.takeConfirmation(for: 1) == 6)
    }

    @Test mutating func `one confirmation stands for those before it`() {
        for serial in 1...3 as ClosedRange<UInt64> {
            durability.beginPacket()
            durability.oweConfirmation(serial, to: 1)
        }
        #expect(durability.takeConfirmation(for: 1) == 3)
        #expect(durability.takeConfirmation(for: 1) == nil)
    }

    @Test mutating func `rows of a message that was moved go when its new shard has it`() {
        journal.insert(.entry, key: 1 << 8, [1])
        commit()
        _ = durability.requireConfirmation(of: 1)
        durability.endEntry(1 << 8, hasFlow: false, sentTo: 1)
        durability.endMovedEntries()
        #expect(journal.isPersisted)
        durability.confirmed(durability.shardMessages.serial, by: 1)
        durability.endMovedEntries()
        #expect(!journal.isPersisted)
    }

    @Test mutating func `entries of a session that has ended go a part at a time`() {
        let count = Limits.entriesEndedPerTurn + 1
        for number in 1...UInt64(count) { durability.abandonEntry(number << 8, hasFlow: false) }
        commit()
        #expect(durability.hasWork(storesAtOnce: false, isStopping: false), "one is left")
        commit()
        #expect(!durability.hasWork(storesAtOnce: false, isStopping: false))
    }

    @Test mutating func `changes that wait for an interval are given when they are to be saved, or the broker stops`() {
        journal.insert(.subscription, key: 1, [1])
        #expect(durability.takeBatch(storesAtOnce: false, isStopping: false, now: 0) == nil)
        durability.save()
        #expect(durability.hasWork(storesAtOnce: false, isStopping: false))
        let batch = durability.takeBatch(storesAtOnce: false, isStopping: false, now: 0)
        #expect(batch != nil)
        journal.insert(.subscription, key: 2, [1])
        #expect(durability.takeBatch(storesAtOnce: true, isStopping: true, now: 0) == nil, "the store is busy")
        journal.committed(through: batch?.lastSequence ?? 0)
        #expect(durability.takeBatch(storesAtOnce: false, isStopping: true, now: 0) != nil)
    }
}
