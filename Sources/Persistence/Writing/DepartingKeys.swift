/// Keys of one table that are to be deleted, and the runs that they form.
///
/// A key is a number in its upper 56 bits and its shard in the lowest byte, so the keys of one shard's run are 256 apart:
///
///     0x0501 0x0502 0x0601 0x0701   the runs 0x0501 to 0x0701 of shard 1, 0x0502 of shard 2
struct DepartingKeys {
    private var keys: [UInt64] = []
    private var highest: UInt64 = 0

    var isEmpty: Bool { keys.isEmpty }

    mutating func add(_ key: UInt64) {
        keys.append(key)
        highest = max(highest, key)
    }

    /// Whether the key could be among them; certain if it is not.
    func mayHold(_ key: UInt64) -> Bool { !keys.isEmpty && key <= highest }

    mutating func removeAll() {
        keys.removeAll(keepingCapacity: true)
        highest = 0
    }

    /// Calls `body` with the first and the last key of each run: all keys with their lowest byte that lie between them are to be deleted.
    /// Two keys form none, since a run costs what two keys do.
    mutating func forEachRun<Failure>(_ body: (UInt64, UInt64) throws(Failure) -> Void) throws(Failure) {
        sort()
        var start = 0
        while start < keys.count {
            var end = start + 1
            while end < keys.count, keys[end] == keys[end - 1] &+ Self.step, Self.followsInSQL(keys[end]) { end += 1 }
            if end - start > 2 {
                try body(keys[start], keys[end - 1])
            } else {
                for key in keys[start..<end] { try body(key, key) }
            }
            start = end
        }
    }

    /// By shard, then by number.
    private mutating func sort() {
        var isSorted = true
        for index in keys.indices.dropFirst() where Self.place(keys[index]) < Self.place(keys[index - 1]) {
            isSorted = false
            break
        }
        if !isSorted { keys.sort { Self.place($0) < Self.place($1) } }
    }

    private static func place(_ key: UInt64) -> UInt64 { key >> 8 | key << 56 }

    /// SQLite's integers are signed: the first of the upper half is less than all of the lower.
    private static func followsInSQL(_ key: UInt64) -> Bool { key >> 8 != 1 << 55 }

    private static let step: UInt64 = 256
}
