internal import Bytes

/// Numbered elements, the first of them in memory and the rest in a store only.
///
/// ```
///       taken │ in memory          │ in the store only
///   ──────────┼────────────────────┼──────────────────────► numbers
///             first       readThrough       lastNumber
/// ```
/// An element that is added stays in memory if all before it are there and there is room. When those in memory become
/// few, more are asked for (`nextReading`). Only what the store has is given out. Invariant: every number up to
/// `readThrough` is in memory or taken.
struct NumberedQueue<Element: Sendable>: Sendable {
    struct Item: Sendable {
        let number: UInt64
        let element: Element
        /// In the store.
        let byteCount: Int
    }

    private var items = Deque<Item>()
    /// Of those in memory.
    private(set) var byteCount = 0
    private(set) var lastNumber: UInt64
    private(set) var readThrough: UInt64
    /// Elements up to this number are in the store, but for those that were taken back.
    private(set) var storedThrough: UInt64
    /// The last number when a reading was asked for that has not been answered.
    private var readingThrough: UInt64?
    /// Taken back since, though the answer may have them.
    private var removedSince: Set<UInt64> = []

    /// - Parameter stored: the numbers from the first element in the store to the last; nil for none.
    init(stored: ClosedRange<UInt64>? = nil) {
        lastNumber = stored?.upperBound ?? 0
        storedThrough = lastNumber
        readThrough = (stored?.lowerBound ?? 1) - 1
    }

    /// How many are in memory.
    var countInMemory: Int { items.count }

    /// Whether some are in the store only.
    var hasMoreInStore: Bool { readThrough < lastNumber }

    /// Gives the next element its number.
    mutating func append(_ element: (UInt64) -> (Element, byteCount: Int)) -> Item {
        let (element, byteCount) = element(lastNumber + 1)
        let item = Item(number: lastNumber + 1, element: element, byteCount: byteCount)
        if readThrough == lastNumber, hasRoom {
            keep(item)
            readThrough += 1
        }
        lastNumber += 1
        return item
    }

    /// The store has all up to a number.
    mutating func stored(through number: UInt64) { storedThrough = max(storedThrough, number) }

    /// The first element, if the store has it.
    var first: Item? {
        items.first.flatMap { $0.number <= storedThrough ? $0 : nil }
    }

    mutating func popFirst() -> Item? {
        guard let item = first else { return nil }
        byteCount -= item.byteCount
        items.popFirst()
        return item
    }

    /// The elements in memory that the store has as well, beyond a number.
    func stored(after number: UInt64 = 0) -> some Sequence<Item> {
        let start = items.lastIndex { $0.number <= number }.map { $0 + 1 } ?? 0
        return items[start...].prefix { $0.number <= storedThrough }
    }

    /// Takes the first of these that is so. Linear in those in memory.
    mutating func popFirst(where isSo: (Element) -> Bool) -> Item? {
        guard
            let index = items.firstIndex(where: { $0.number > storedThrough || isSo($0.element) }),
            items[index].number <= storedThrough
        else { return nil }
        byteCount -= items[index].byteCount
        return items.remove(at: index)
    }

    /// Takes back an element. Returns whether it was there, as far as that is known without a look into the store.
    mutating func remove(_ number: UInt64) -> Bool {
        if number > readThrough {
            recordRemoval(number)
            return number <= lastNumber
        }
        guard let index = items.firstIndex(where: { $0.number == number }) else { return false }
        byteCount -= items[index].byteCount
        items.remove(at: index)
        return true
    }

    /// An element that is not among these went, though the store may still give it.
    mutating func recordRemoval(_ number: UInt64) {
        if readingThrough != nil, number > readThrough { removedSince.insert(number) }
    }

    /// Whether an element is there, as far as that is known without a look into the store.
    func contains(_ number: UInt64) -> Bool {
        if number > readThrough { return number <= lastNumber && !removedSince.contains(number) }
        return items.contains { $0.number == number }
    }

    /// From which number on, and how many elements, are to be read now; nil for none. Each is to be answered by `read`.
    mutating func nextReading() -> (from: UInt64, count: Int)? {
        guard readingThrough == nil, hasMoreInStore, countInMemory <= Limits.queueWindowMax / 2, hasRoom else { return nil }
        readingThrough = lastNumber
        return (readThrough + 1, Limits.queueWindowMax - countInMemory)
    }

    /// What the store had.
    ///
    /// - Parameters:
    ///   - read: elements in their order, without those that are damaged.
    ///   - through: the last number that was looked at; nil if that was the end.
    mutating func read(_ read: [Item], through: UInt64?) {
        guard let end = readingThrough else { return }
        readingThrough = nil
        readThrough = through ?? end
        for item in read where item.number <= readThrough && !removedSince.contains(item.number) {
            guard hasRoom else {
                readThrough = item.number - 1
                break
            }
            keep(item)
        }
        removedSince = []
    }

    private var hasRoom: Bool {
        countInMemory == 0 || (countInMemory < Limits.queueWindowMax && byteCount < Limits.queueWindowBytesMax)
    }

    private mutating func keep(_ item: Item) {
        items.append(item)
        byteCount += item.byteCount
    }
}

extension Deque {
    /// Takes an element out. O(index).
    @discardableResult
    fileprivate mutating func remove(at index: Int) -> Element {
        for place in stride(from: index, to: 0, by: -1) { swapAt(place, place - 1) }
        guard let element = popFirst() else { preconditionFailure("an index has an element") }
        return element
    }
}

extension Limits {
    /// Bytes of a queue's messages that are in memory at its front, but for one message that is larger alone.
    static let queueWindowBytesMax = 1 << 20
}
