/// When which client wants to be called, the earliest first. Times are milliseconds of the loop's clock.
///
/// Each client is in it once at most, and knows its place, so that one that connects again and again leaves nothing behind. A later deadline
/// is not moved: the earlier one rings in vain, and the client tells the time that holds.
struct DeadlineHeap {
    private var entries: [(deadline: UInt64, engine: ClientEngine)] = []

    var count: Int { entries.count }

    /// The earliest, nil when there is none.
    var next: UInt64? { entries.first?.deadline }

    /// Has a client called at that time, or before.
    mutating func insert(_ engine: ClientEngine, at deadline: UInt64) {
        if let index = engine.deadlineIndex {
            guard deadline < entries[index].deadline else { return }
            entries[index].deadline = deadline
            rise(index)
        } else {
            entries.append((deadline, engine))
            rise(entries.count - 1)
        }
    }

    /// A client waits for nothing.
    mutating func remove(_ engine: ClientEngine) {
        guard let index = engine.deadlineIndex else { return }
        engine.deadlineIndex = nil
        let last = entries.removeLast()
        guard index < entries.count else { return }
        entries[index] = last
        rise(index)
        sink(last.engine.deadlineIndex ?? index)
    }

    /// Takes out one that is due.
    mutating func popDue(now: UInt64) -> ClientEngine? {
        guard let first = entries.first, first.deadline <= now else { return nil }
        remove(first.engine)
        return first.engine
    }

    private mutating func rise(_ start: Int) {
        var index = start
        while index > 0, entries[(index - 1) / 2].deadline > entries[index].deadline {
            entries.swapAt(index, (index - 1) / 2)
            entries[index].engine.deadlineIndex = index
            index = (index - 1) / 2
        }
        entries[index].engine.deadlineIndex = index
    }

    private mutating func sink(_ start: Int) {
        var index = start
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < entries.count && entries[child].deadline < entries[smallest].deadline {
                smallest = child
            }
            if smallest == index { return }
            entries.swapAt(index, smallest)
            entries[index].engine.deadlineIndex = index
            entries[smallest].engine.deadlineIndex = smallest
            index = smallest
        }
    }
}
