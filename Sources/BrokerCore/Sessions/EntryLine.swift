/// Messages in a row, first in, first out. Whoever takes one out owns what it holds.
struct EntryLine {
    private var line: [OutboxEntry] = []
    private var head = 0

    var entries: ArraySlice<OutboxEntry> { line[head...] }
    var count: Int { line.count - head }
    var isEmpty: Bool { head == line.count }
    var first: OutboxEntry? { head < line.count ? line[head] : nil }
    var capacity: Int { line.capacity }

    mutating func append(_ entry: OutboxEntry) { line.append(entry) }

    /// Gives each to `body`, oldest first.
    mutating func change(_ body: (inout OutboxEntry) -> Void) {
        for place in head..<line.count { body(&line[place]) }
    }

    mutating func popFirst() -> OutboxEntry? {
        guard head < line.count else { return nil }
        defer {
            head += 1
            if head == line.count {
                line.removeAll(keepingCapacity: line.count <= 64)
                head = 0
            } else if head > 1024, head > line.count / 2 {
                line.removeFirst(head)
                head = 0
            }
        }
        return line[head]
    }
}
