/// When which client wants to be called, the earliest first. Times are milliseconds of the loop's clock.
///
/// A client's later deadline is not looked for: the earlier one rings in vain, and the client tells the time that holds.
struct DeadlineHeap {
    private var entries: [(deadline: UInt64, engine: ClientEngine)] = []

    /// The earliest, nil when there is none.
    var next: UInt64? { entries.first?.deadline }

    mutating func insert(_ engine: ClientEngine, at deadline: UInt64) {
        entries.append((deadline, engine))
        var index = entries.count - 1
        while index > 0, entries[(index - 1) / 2].deadline > entries[index].deadline {
            entries.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Takes out one that is due.
    mutating func popDue(now: UInt64) -> ClientEngine? {
        guard let first = entries.first, first.deadline <= now else { return nil }
        let last = entries.removeLast()
        if !entries.isEmpty {
            entries[0] = last
            sink()
        }
        return first.engine
    }

    private mutating func sink() {
        var index = 0
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < entries.count && entries[child].deadline < entries[smallest].deadline {
                smallest = child
            }
            if smallest == index { return }
            entries.swapAt(index, smallest)
            index = smallest
        }
    }
}
