import BrokerCore
import Synchronization

/// How many bytes of shard messages are on their way between the loops: to each, and from each to each. The senders add
/// to it, the receivers take from it.
///
/// A loop that has more than `bytesAheadMax` on its way to another is ahead: it lets clients wait that bring many shard
/// messages, for a moment. What they send meanwhile comes with one read, and goes to each receiver with one write.
/// While more than `bytesMax` wait for a loop in all, the others read nothing from any client, so that memory stays
/// bounded:
///
///     waiting for one loop ≤ bytesMax + what each of the other loops makes of one turn
///
/// Whether that is so is known from one word, whatever the number of loops: which loops are full, and for each sender
/// which loops it is ahead of. A word changes only when a sum crosses its bound.
///
///     bit r of full = waiting(r) > bytesMax           bit r of ahead(s) = from s to r > bytesAheadMax
package final class ShardMessageBacklog: Sendable {
    private let loops: Int
    private let bytesMax: UInt64
    private let bytesAheadMax: UInt64
    /// One word.
    private let full = SpreadAtomics(count: 1)
    /// By receiver: bytes that wait for it.
    private let waiting: SpreadAtomics
    /// By receiver, and for each by sender.
    private let parts: SpreadAtomics
    /// By sender.
    private let ahead: SpreadAtomics
    /// By sender: 1 if it wants to hear when it is no longer ahead of anybody.
    private let awaited: SpreadAtomics

    init(loops: Int, bytesMax: Int = Limits.shardMessageBytesMax, bytesAheadMax: Int = Limits.shardMessageBytesAheadMax) {
        precondition((1...UInt64.bitWidth).contains(loops), "a loop for each bit of a word")
        self.loops = loops
        self.bytesMax = UInt64(bytesMax)
        self.bytesAheadMax = UInt64(bytesAheadMax)
        waiting = SpreadAtomics(count: loops)
        parts = SpreadAtomics(count: loops * loops)
        ahead = SpreadAtomics(count: loops)
        awaited = SpreadAtomics(count: loops)
    }

    /// Mail is on its way. For the sender.
    package func add(_ byteCount: Int, from sender: Int, to receiver: Int) {
        let bytes = UInt64(byteCount)
        let inAll = waiting.add(receiver, bytes)
        if inAll > bytesMax, inAll - bytes <= bytesMax { updateFull(receiver) }
        let mine = parts.add(receiver * loops + sender, bytes)
        if mine > bytesAheadMax, mine - bytes <= bytesAheadMax { updateAhead(sender, of: receiver) }
    }

    /// Mail is worked off. Returns whether the sender is to be woken: it has asked, and is no longer ahead of any loop.
    /// For the receiver.
    package func remove(_ byteCount: Int, from sender: Int, to receiver: Int) -> Bool {
        let bytes = UInt64(byteCount)
        let inAll = waiting.subtract(receiver, bytes)
        if inAll <= bytesMax, inAll + bytes > bytesMax { updateFull(receiver) }
        let left = parts.subtract(receiver * loops + sender, bytes)
        guard left <= bytesAheadMax, left + bytes > bytesAheadMax else { return false }
        updateAhead(sender, of: receiver)
        return ahead.load(sender) == 0 && awaited.exchange(sender, 0) == 1
    }

    /// Whether another loop is so far behind that this one must not bring it more.
    func isHeldUp(_ loop: Int) -> Bool { full.load(0) & ~(1 << UInt64(loop)) != 0 }

    /// Whether a loop should wait with what is not urgent. For that loop.
    package func isAhead(_ sender: Int) -> Bool { ahead.load(sender) != 0 }

    /// Asks that `remove` tells when the sender is no longer ahead. False when that is so already. For the sender.
    func askToHear(_ sender: Int) -> Bool {
        guard isAhead(sender) else { return false }
        // Looked at again once the receivers can see the question: what they have removed in between they do not tell.
        _ = awaited.exchange(sender, 1)
        return isAhead(sender)
    }

    private func updateFull(_ receiver: Int) {
        record(receiver, in: full, 0) { waiting.load(receiver) > bytesMax }
    }

    private func updateAhead(_ sender: Int, of receiver: Int) {
        record(receiver, in: ahead, sender) { parts.load(receiver * loops + sender) > bytesAheadMax }
    }

    /// Makes a bit say what is so. Two who have crossed the bound, one in each direction, may come here in either
    /// order: so each looks again once its word is written, and whoever finds that the bit is wrong puts it right.
    @inline(never)
    private func record(_ bit: Int, in words: borrowing SpreadAtomics, _ index: Int, _ isSo: () -> Bool) {
        var wanted: Bool
        repeat {
            wanted = isSo()
            if wanted { words.setBits(index, 1 << UInt64(bit)) } else { words.clearBits(index, 1 << UInt64(bit)) }
        } while isSo() != wanted
    }
}

/// Numbers that different threads write to, each alone on a cache line: who writes to one does not slow down who reads
/// another.
///
/// All operations are sequentially consistent.
struct SpreadAtomics: ~Copyable, Sendable {
    nonisolated(unsafe) private let memory: UnsafeMutableRawPointer
    private let count: Int

    /// As many numbers, all of them 0.
    init(count: Int) {
        self.count = count
        memory = .allocate(byteCount: count * Self.lineBytes, alignment: Self.lineBytes)
        for index in 0..<count { cell(index).initialize(to: Atomic(0)) }
    }

    deinit {
        for index in 0..<count { cell(index).deinitialize(count: 1) }
        memory.deallocate()
    }

    func load(_ index: Int) -> UInt64 { cell(index).pointee.load(ordering: .sequentiallyConsistent) }

    /// Puts a value in place of the one that was there, which is returned.
    func exchange(_ index: Int, _ value: UInt64) -> UInt64 {
        cell(index).pointee.exchange(value, ordering: .sequentiallyConsistent)
    }

    /// Returns the sum.
    func add(_ index: Int, _ summand: UInt64) -> UInt64 {
        cell(index).pointee.wrappingAdd(summand, ordering: .sequentiallyConsistent).newValue
    }

    /// Returns the difference.
    func subtract(_ index: Int, _ subtrahend: UInt64) -> UInt64 {
        cell(index).pointee.wrappingSubtract(subtrahend, ordering: .sequentiallyConsistent).newValue
    }

    func setBits(_ index: Int, _ bits: UInt64) { cell(index).pointee.bitwiseOr(bits, ordering: .sequentiallyConsistent) }

    func clearBits(_ index: Int, _ bits: UInt64) { cell(index).pointee.bitwiseAnd(~bits, ordering: .sequentiallyConsistent) }

    private func cell(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        assert((0..<count).contains(index))
        return (memory + index * Self.lineBytes).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    /// Two lines of 64 bytes: processors fetch them in pairs.
    private static let lineBytes = 128
}

/// What all loops hold for their clients together, in bytes, as each has told at the end of its last turn. For any
/// thread.
package final class HeldMemory: Sendable {
    private let sum = SpreadAtomics(count: 1)

    /// A loop holds so many bytes more, or less, than it has told before.
    fileprivate func add(_ difference: Int) { _ = sum.add(0, UInt64(bitPattern: Int64(difference))) }

    fileprivate var inAll: Int { Int(Int64(bitPattern: sum.load(0))) }
}

/// One loop's part in it: before a turn its shard hears what the others hold, and after it they can hear what it holds.
struct HeldMemoryPart {
    private let memory: HeldMemory
    private var reported = 0

    init(of memory: HeldMemory) { self.memory = memory }

    func beginTurn(of shard: BrokerShard) {
        if shard.boundsMemory { shard.recordHeld(elsewhere: max(0, memory.inAll - reported)) }
    }

    mutating func endTurn(of shard: BrokerShard) {
        guard shard.boundsMemory else { return }
        let held = shard.limitedBytes
        guard held != reported else { return }
        memory.add(held - reported)
        reported = held
    }
}

extension Limits {
    /// Bytes of shard messages that wait for a loop; beyond them the other loops read nothing from any client.
    static let shardMessageBytesMax = 8 << 20

    /// Bytes of one loop's shard messages on their way to another; beyond them it lets clients wait that bring many
    /// shard messages, for a moment.
    static let shardMessageBytesAheadMax = 4 << 10
}
