/// First in, first out, in one array: memory is given back when half of it is taken, so that each element is moved once.
package struct Queue<Element> {
    @usableFromInline var elements: [Element] = []
    @usableFromInline var firstIndex = 0

    @inlinable
    package init() {}

    @inlinable
    package var count: Int { elements.count &- firstIndex }

    @inlinable
    package var isEmpty: Bool { firstIndex == elements.count }

    /// The one that waits longest.
    @inlinable
    package var first: Element? { isEmpty ? nil : elements[firstIndex] }

    @inlinable
    package mutating func append(_ element: Element) { elements.append(element) }

    @inlinable
    @discardableResult
    package mutating func popFirst() -> Element? {
        guard let element = first else { return nil }
        firstIndex &+= 1
        if firstIndex &* 2 >= elements.count {
            elements.removeFirst(firstIndex)
            firstIndex = 0
        }
        return element
    }

    /// All that wait, in order; nothing does then, and no memory is kept.
    @inlinable
    package mutating func removeAll() -> [Element] {
        defer { self = Queue() }
        return Array(elements[firstIndex...])
    }

    /// Gives the memory back when nothing waits.
    @inlinable
    package mutating func trim() {
        if isEmpty { self = Queue() }
    }
}

extension Queue: Sendable where Element: Sendable {}
