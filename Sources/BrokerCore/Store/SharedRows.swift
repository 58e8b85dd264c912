/// How many references there are to rows of messages that several queues share: the row goes with the last of them.
///
/// A reference is a `StoredPayload` in memory, or a message in a queue that only the store has. Most rows have one, which nobody writes down:
///
///     references(number): 1 where `blocks` says nothing
///     a block: the rows of one shard whose serial numbers agree but for the lowest 16 bits, those bits rising
///
/// While a broker starts, every row is counted from 0 (`note`) until `settle`. Belongs to a `Journal`.
struct SharedRows {
    fileprivate struct Block {
        var serials: [UInt16] = []
        /// Of the serial at the same place. Outside a start, 1 is one that is not written down any more.
        var counts: [UInt32] = []
        var live = 0
    }

    private var blocks: [UInt64: Block] = [:]

    /// How many rows have other than one reference.
    var count: Int { blocks.values.reduce(0) { $0 + $1.live } }

    /// There is one reference more.
    mutating func hold(_ number: UInt64) {
        let serial = Self.serial(number)
        var block = blocks.removeValue(forKey: Self.block(number)) ?? Block()
        let place = block.place(of: serial)
        if place < block.serials.count, block.serials[place] == serial {
            if block.counts[place] == 1 { block.live += 1 }
            block.counts[place] += 1
        } else {
            block.serials.insert(serial, at: place)
            block.counts.insert(2, at: place)
            block.live += 1
        }
        blocks[Self.block(number)] = block
    }

    /// A reference is gone; whether it was the last one.
    mutating func letGo(_ number: UInt64) -> Bool {
        guard !blocks.isEmpty, var block = blocks.removeValue(forKey: Self.block(number)) else { return true }
        defer { if block.live > 0 { blocks[Self.block(number)] = block } }
        let place = block.place(of: Self.serial(number))
        guard place < block.serials.count, block.serials[place] == Self.serial(number), block.counts[place] > 1 else { return true }
        block.counts[place] -= 1
        if block.counts[place] == 1 {
            block.live -= 1
            block.shrink()
        }
        return false
    }

    // MARK: A start

    /// A row is there, with no reference yet.
    mutating func note(_ number: UInt64) {
        var block = blocks.removeValue(forKey: Self.block(number)) ?? Block()
        let place = block.place(of: Self.serial(number))
        block.serials.insert(Self.serial(number), at: place)
        block.counts.insert(0, at: place)
        block.live += 1
        blocks[Self.block(number)] = block
    }

    /// A row that was noted has one reference more; false if there is no such row.
    mutating func claim(_ number: UInt64) -> Bool {
        guard var block = blocks.removeValue(forKey: Self.block(number)) else { return false }
        defer { blocks[Self.block(number)] = block }
        let place = block.place(of: Self.serial(number))
        guard place < block.serials.count, block.serials[place] == Self.serial(number) else { return false }
        block.counts[place] += 1
        return true
    }

    /// All references are known: forgets the rows that have one.
    ///
    /// - Returns: the numbers of those that have none, rising.
    mutating func settle() -> [UInt64] {
        var unused: [UInt64] = []
        for (name, block) in blocks {
            var left = Block()
            for (serial, count) in zip(block.serials, block.counts) {
                if count == 0 { unused.append(Self.number(name, serial)) }
                guard count > 1 else { continue }
                left.serials.append(serial)
                left.counts.append(count)
                left.live += 1
            }
            blocks[name] = left.live > 0 ? left : nil
        }
        return unused.sorted()
    }

    // Numbers are below 2^56, a serial with its shard in the lowest byte.
    private static func block(_ number: UInt64) -> UInt64 { (number >> 24) << 8 | number & 0xff }
    private static func serial(_ number: UInt64) -> UInt16 { UInt16(truncatingIfNeeded: number >> 8) }
    private static func number(_ block: UInt64, _ serial: UInt16) -> UInt64 {
        (block >> 8) << 24 | UInt64(serial) << 8 | block & 0xff
    }

    func checkInvariants() {
        for block in blocks.values {
            precondition(zip(block.serials, block.serials.dropFirst()).allSatisfy { $0 < $1 }, "serials rise")
            precondition(block.serials.count == block.counts.count && block.live > 0, "a block has rows")
            precondition(block.counts.count { $0 > 1 } == block.live, "a block knows how many rows it has")
        }
    }
}

extension SharedRows.Block {
    /// Where a serial stands, or would.
    fileprivate func place(of serial: UInt16) -> Int {
        // They mostly come in order.
        guard let last = serials.last, last >= serial else { return serials.count }
        var (low, high) = (0, serials.count)
        while low < high {
            let middle = (low + high) / 2
            if serials[middle] < serial { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Gives up what is not written down any more: from the end at once, else when it is more than half.
    fileprivate mutating func shrink() {
        while counts.last == 1 {
            counts.removeLast()
            serials.removeLast()
        }
        guard serials.count > 64, live < serials.count / 2 else { return }
        var kept = 0
        for place in serials.indices where counts[place] > 1 {
            (serials[kept], counts[kept]) = (serials[place], counts[place])
            kept += 1
        }
        serials.removeLast(serials.count - kept)
        counts.removeLast(counts.count - kept)
    }
}
