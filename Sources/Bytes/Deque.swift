/// A row with two ends: what waits is appended at the back and taken from the front, each in O(1).
///
///     slots  [ e f · · a b c d ]    6 elements; the number of slots is a power of two
///                      ▲ head
///
/// What is taken out is released at once. Memory grows by doubling, and is given back when the last element is taken:
/// but for what `popFirst` keeps. A value: a copy is made when one of two is changed.
///
/// Public, though only the house's own targets use it: what is inlinable is inlined into other targets if it is public.
///
/// Invariant: exactly the `count` slots from `head` on, around the end, hold an element.
public struct Deque<Element> {
    @usableFromInline var slots: [Element?] = []
    @usableFromInline var head = 0
    @usableFromInline var size = 0

    @inlinable
    public init() {}

    /// The elements of a sequence, the first in front.
    @inlinable
    public init(_ elements: some Sequence<Element>) { append(contentsOf: elements) }

    /// How many elements there are.
    @inlinable
    public var count: Int { size }

    // Said here, as a collection's own would go through its indexes.
    /// Whether there is none.
    @inlinable
    public var isEmpty: Bool { size == 0 }

    /// The element in front; nil if there is none.
    @inlinable
    public var first: Element? { size == 0 ? nil : slots[head] }

    /// How many elements there is memory for.
    @inlinable
    public var capacity: Int { slots.count }

    /// Adds an element at the back.
    @inlinable
    public mutating func append(_ element: Element) {
        if size == slots.count { grow(to: size + 1) }
        slots[(head &+ size) & (slots.count &- 1)] = element
        size &+= 1
    }

    /// Adds elements at the back, in their order.
    @inlinable
    public mutating func append(contentsOf elements: some Sequence<Element>) {
        grow(to: count + elements.underestimatedCount)
        for element in elements { append(element) }
    }

    /// Adds an element in front.
    @inlinable
    public mutating func prepend(_ element: Element) {
        if size == slots.count { grow(to: size + 1) }
        head = (head &- 1) & (slots.count &- 1)
        slots[head] = element
        size &+= 1
    }

    /// Adds elements in front, so that their first is the first of all.
    @inlinable
    public mutating func prepend(contentsOf elements: some BidirectionalCollection<Element>) {
        grow(to: count + elements.count)
        for element in elements.reversed() { prepend(element) }
    }

    /// Takes the element in front; nil if there is none.
    ///
    /// - Parameter kept: for how many elements memory is kept when this was the last one.
    @inlinable
    @discardableResult
    public mutating func popFirst(keepingCapacity kept: Int = 64) -> Element? {
        guard size > 0 else { return nil }
        let element = slots[head].take()
        size &-= 1
        head = size == 0 ? 0 : (head &+ 1) & (slots.count &- 1)
        if size == 0, slots.count > kept { slots = [] }
        return element
    }

    /// Takes so many elements away in front.
    @inlinable
    public mutating func removeFirst(_ number: Int) {
        precondition(number <= size, "there are not so many")
        for _ in 0..<number { popFirst() }
    }

    /// Takes all elements away, and gives their memory back.
    @inlinable
    public mutating func removeAll() { self = Deque() }

    /// Takes all elements, in their order; no memory is kept.
    @inlinable
    public mutating func takeAll() -> [Element] {
        defer { self = Deque() }
        return Array(self)
    }

    /// Takes away the elements of which this is true. O(n).
    @inlinable
    public mutating func removeAll(where isUnwanted: (Element) throws -> Bool) rethrows {
        self = Deque(try filter { try !isUnwanted($0) })
    }

    /// Gives the memory back if there is no element.
    @inlinable
    public mutating func trim() { if size == 0 { slots = [] } }

    @inlinable
    mutating func grow(to wanted: Int) {
        guard wanted > slots.count else { return }
        var larger: [Element?] = []
        let room = Swift.max(4, 1 << (Int.bitWidth - (wanted - 1).leadingZeroBitCount))
        larger.reserveCapacity(room)
        for index in 0..<size { larger.append(slots[slot(of: index)].take()) }
        for _ in size..<room { larger.append(nil) }
        (slots, head) = (larger, 0)
    }

    @inlinable
    func slot(of index: Int) -> Int {
        precondition(index >= 0 && index < size, "no element has this index")
        return (head &+ index) & (slots.count &- 1)
    }
}

/// Index 0 is the front. An index moves with what is taken away in front of it.
extension Deque: RandomAccessCollection, MutableCollection {
    @inlinable
    public var startIndex: Int { 0 }

    @inlinable
    public var endIndex: Int { count }

    @inlinable
    public subscript(index: Int) -> Element {
        get {
            guard let element = slots[slot(of: index)] else { preconditionFailure("an index has an element") }
            return element
        }
        _modify {
            let place = slot(of: index)
            guard var element = slots[place].take() else { preconditionFailure("an index has an element") }
            defer { slots[place] = element }
            yield &element
        }
    }
}

extension Deque: ExpressibleByArrayLiteral {
    @inlinable
    public init(arrayLiteral elements: Element...) { self.init(elements) }
}

extension Deque: Sendable where Element: Sendable {}
extension Deque: Equatable where Element: Equatable {
    @inlinable
    public static func == (left: Deque, right: Deque) -> Bool { left.elementsEqual(right) }
}
