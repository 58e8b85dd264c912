import BrokerCore

/// What all loops hold for their clients together, in bytes, as each has told at the end of its last turn. For any thread.
package final class HeldMemory: Sendable {
    private let sum = SpreadAtomics(count: 1)

    /// A loop holds so many bytes more, or less, than it has told before.
    fileprivate func add(_ difference: Int) { _ = sum.add(0, UInt64(bitPattern: Int64(difference))) }

    fileprivate var inAll: Int { Int(Int64(bitPattern: sum.load(0))) }
}

/// One loop's part in it: before a turn its shard hears what the others hold, and after it they can hear what it holds.
struct HeldMemoryPart {
    private let memory: HeldMemory
    private var told = 0

    init(of memory: HeldMemory) { self.memory = memory }

    func beginTurn(of shard: BrokerShard) {
        if shard.boundsMemory { shard.recordHeld(elsewhere: max(0, memory.inAll - told)) }
    }

    mutating func endTurn(of shard: BrokerShard) {
        guard shard.boundsMemory else { return }
        let held = shard.limitedBytes
        guard held != told else { return }
        memory.add(held - told)
        told = held
    }
}
