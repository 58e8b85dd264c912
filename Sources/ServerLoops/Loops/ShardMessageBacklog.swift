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
/// Whether that is so is known from one word, whatever the number of loops: which loops are full, and for each sender which loops it is
/// ahead of. A word changes only when a sum crosses its bound.
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

    /// Mail is worked off. Returns whether the sender is to be woken: it has asked, and is no longer ahead of any loop. For the receiver.
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
        note(receiver, in: full, 0) { waiting.load(receiver) > bytesMax }
    }

    private func updateAhead(_ sender: Int, of receiver: Int) {
        note(receiver, in: ahead, sender) { parts.load(receiver * loops + sender) > bytesAheadMax }
    }

    /// Makes a bit say what is so. Two who have crossed the bound, one in each direction, may come here in either order: so each looks again
    /// once its word is written, and whoever finds that the bit is wrong puts it right.
    @inline(never)
    private func note(_ bit: Int, in words: borrowing SpreadAtomics, _ index: Int, _ isSo: () -> Bool) {
        var wanted: Bool
        repeat {
            wanted = isSo()
            if wanted { words.setBits(index, 1 << UInt64(bit)) } else { words.clearBits(index, 1 << UInt64(bit)) }
        } while isSo() != wanted
    }
}
