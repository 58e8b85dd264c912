/// The last entries of something, bounded in entries and in bytes: the oldest go for the next one.
///
/// Invariants: at most `countMax` entries, and they hold at most `bytesMax` bytes.
public struct RecentEntries<Entry> {
    fileprivate struct Slot {
        package let entry: Entry
        package let byteCount: Int
    }

    /// A ring that grows to twice its size while it may.
    private var slots: [Slot?] = []
    private var first = 0
    public private(set) var count = 0
    /// The bytes that the entries hold.
    public private(set) var byteCount = 0
    public let countMax: Int
    public let bytesMax: Int

    public init(countMax: Int, bytesMax: Int) { (self.countMax, self.bytesMax) = (max(1, countMax), bytesMax) }

    public var isEmpty: Bool { count == 0 }

    /// Adds the newest one. One that has no room even alone is not kept, and the others stay.
    ///
    /// - Parameters:
    ///   - entry: what has just happened.
    ///   - textBytes: what the entry holds beside its own slot.
    public mutating func add(_ entry: Entry, textBytes: Int) {
        let byteCount = textBytes + MemoryLayout<Slot?>.stride
        guard byteCount <= bytesMax else { return }
        while count == countMax || self.byteCount + byteCount > bytesMax { removeOldest() }
        if count == slots.count { grow() }
        slots[(first + count) % slots.count] = Slot(entry: entry, byteCount: byteCount)
        count += 1
        self.byteCount += byteCount
    }

    /// - Parameter age: 0 for the newest, below `count`.
    public func entry(ofAge age: Int) -> Entry? {
        age < count ? slots[(first + count - 1 - age) % slots.count]?.entry : nil
    }

    /// The oldest first. O(all).
    public var all: [Entry] { last(count) }

    /// The newest ones, the oldest of them first. O(countMax).
    public func last(_ countMax: Int) -> [Entry] {
        (0..<min(max(0, countMax), count)).reversed().compactMap { entry(ofAge: $0) }
    }

    private mutating func removeOldest() {
        byteCount -= slots[first]?.byteCount ?? 0
        slots[first] = nil
        first = (first + 1) % slots.count
        count -= 1
    }

    private mutating func grow() {
        let entries = (0..<count).map { slots[(first + $0) % slots.count] }
        let size = min(countMax, max(16, 2 * count))
        slots = entries + Array(repeating: nil, count: size - count)
        first = 0
    }
}

extension RecentEntries: Sendable where Entry: Sendable {}
extension RecentEntries.Slot: Sendable where Entry: Sendable {}
