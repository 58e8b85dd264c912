import ClientCore
import MQTTCodec
import Testing

@Suite struct AnswerTableTests {
    private func key(_ request: String, scope: String = "") -> AnswerTable.Key {
        AnswerTable.Key(scope: scope, topic: "t", request: Payload(request))
    }

    @Test func `answers that were stored longest ago go when there are too many or too much`() {
        var table = AnswerTable(countMax: 2, bytesMax: 20)
        let gone1 = table.put(key("a"), .init("1", storedAt: 1))
        #expect(gone1 == [])
        let gone2 = table.put(key("b"), .init("2", storedAt: 2))
        #expect(gone2 == [])
        let gone3 = table.put(key("a"), .init("3", storedAt: 3))
        #expect(gone3 == [])
        let gone4 = table.put(key("c"), .init("4", storedAt: 4))
        #expect(gone4 == [key("b")])
        #expect(table.count == 2 && table.byteCount == 6 && table.answer(key("a"))?.payload == "3")
        let gone5 = table.put(key("d"), .init(Payload([UInt8](repeating: 0, count: 16)), storedAt: 5))
        #expect(gone5 == [key("a"), key("c")])
        let gone6 = table.put(key("e"), .init(Payload([UInt8](repeating: 0, count: 30)), storedAt: 6))
        #expect(gone6 == [key("d"), key("e")])
        #expect(table.count == 0 && table.byteCount == 0)
    }

    @Test func `a scope's answers are forgotten together`() {
        var table = AnswerTable(countMax: 10, bytesMax: 1000)
        _ = table.put(key("a", scope: "anna"), .init("1", storedAt: 1))
        _ = table.put(key("a", scope: "berta"), .init("2", storedAt: 1))
        table.removeAll(scope: "anna")
        #expect(table.answer(key("a", scope: "anna")) == nil && table.answer(key("a", scope: "berta"))?.payload == "2")
        let isGone = !table.remove(key("a", scope: "anna"))
        #expect(isGone)
    }
}
