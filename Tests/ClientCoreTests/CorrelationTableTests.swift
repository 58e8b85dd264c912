import ClientCore
import Testing

@Suite struct CorrelationTableTests {
    private typealias Table = CorrelationTable<String>

    private func data(_ number: UInt64) -> [UInt8] { Table.correlationData(number) }

    @Test func `an answer finds who waits for it`() {
        var table = Table()
        let one = table.open("first", deadline: .seconds(1)) ?? 0
        let two = table.open("second", deadline: .seconds(1)) ?? 0
        #expect(table.answer(data(two)) == "second")
        #expect(table.isOpen(one) && !table.isOpen(two))
        #expect(table.answer(data(one)) == "first")
        #expect(table.count == 0)
        #expect(table.lateCount == 0 && table.strangeCount == 0)
    }

    @Test func `a request ends once, and answers that come later are counted`() {
        var table = Table()
        let number = table.open("me", deadline: .seconds(1)) ?? 0
        #expect(table.end(number) == "me")
        #expect(table.end(number) == nil)
        #expect(table.answer(data(number)) == nil)
        #expect(table.answer(data(number)) == nil)
        #expect(table.lateCount == 2)
    }

    @Test(
        arguments: [nil, [], [1], [0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 2], Array(repeating: 255, count: 8)] as [[UInt8]?]
    )
    func `an answer to nothing that was asked is strange`(correlationData: [UInt8]?) {
        var table = Table()
        let number = table.open("me", deadline: .seconds(1)) ?? 0
        #expect(table.answer(correlationData) == nil)
        #expect(table.strangeCount == 1)
        #expect(table.isOpen(number))
    }

    @Test func `all end in the order in which they began`() {
        var table = Table()
        let names = (0..<100).map { "\($0)" }
        for name in names { _ = table.open(name, deadline: .seconds(1)) }
        #expect(table.end(7) == "6")
        #expect(table.endAll() == names.filter { $0 != "6" })
        #expect(table.count == 0)
    }

    @Test func `not more than so many are open`() {
        var table = Table()
        for _ in 0..<Table.openMax { _ = table.open("me", deadline: .seconds(1)) }
        #expect(table.open("me", deadline: .seconds(1)) == nil)
        _ = table.end(1)
        #expect(table.open("me", deadline: .seconds(1)) == UInt64(Table.openMax) + 1)
    }

    @Test func `requests whose deadline has come end, the others stay`() {
        var table = Table()
        #expect(table.nextDeadline == nil)
        for (name, seconds) in [("a", 3), ("b", 1), ("c", 2), ("d", 1)] { _ = table.open(name, deadline: .seconds(seconds)) }
        #expect(table.nextDeadline == .seconds(1))
        #expect(table.endDue(now: .milliseconds(999)).isEmpty)
        #expect(table.endDue(now: .seconds(1)) == ["b", "d"])
        #expect(table.nextDeadline == .seconds(2))
        #expect(table.end(3) == "c")
        #expect(table.endDue(now: .seconds(5)) == ["a"])
        #expect(table.answer(data(1)) == nil)
        #expect(table.lateCount == 1)
    }

    @Test func `open requests have so many bytes together, and one alone any number`() {
        var table = CorrelationTable<Int>(bytesMax: 100)
        #expect(table.open(1, deadline: .zero, byteCount: 200) == 1)
        #expect(table.open(2, deadline: .zero, byteCount: 1) == nil)
        #expect(table.end(1) == 1)
        #expect(table.open(3, deadline: .zero, byteCount: 60) == 2)
        #expect(table.open(4, deadline: .zero, byteCount: 41) == nil)
        #expect(table.open(5, deadline: .zero, byteCount: 40) == 3)
        #expect(table.endAll() == [3, 5])
        #expect(table.byteCount == 0)
    }
}
