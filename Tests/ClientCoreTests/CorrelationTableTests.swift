import ClientCore
import Testing

@Suite struct CorrelationTableTests {
    private typealias Table = CorrelationTable<String>

    private func data(_ number: UInt64) -> [UInt8] { Table.correlationData(number) }

    @Test func `an answer finds who waits for it`() {
        var table = Table()
        let one = table.open("first") ?? 0
        let two = table.open("second") ?? 0
        #expect(table.answer(data(two)) == "second")
        #expect(table.isOpen(one) && !table.isOpen(two))
        #expect(table.answer(data(one)) == "first")
        #expect(table.count == 0)
        #expect(table.lateCount == 0 && table.strangeCount == 0)
    }

    @Test func `a request ends once, and answers that come later are counted`() {
        var table = Table()
        let number = table.open("me") ?? 0
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
        let number = table.open("me") ?? 0
        #expect(table.answer(correlationData) == nil)
        #expect(table.strangeCount == 1)
        #expect(table.isOpen(number))
    }

    @Test func `all end in the order in which they began`() {
        var table = Table()
        let names = (0..<100).map { "\($0)" }
        for name in names { _ = table.open(name) }
        #expect(table.end(7) == "6")
        #expect(table.endAll() == names.filter { $0 != "6" })
        #expect(table.count == 0)
    }

    @Test func `not more than so many are open`() {
        var table = Table()
        for _ in 0..<Table.openMax { _ = table.open("me") }
        #expect(table.open("me") == nil)
        _ = table.end(1)
        #expect(table.open("me") == UInt64(Table.openMax) + 1)
    }
}
