import Platform
import TestBasics
import Testing

@testable import MartletClient

@Suite struct DeadlineHeapTests {
    /// Clients of a loop that does not run.
    private func clients(_ count: Int) throws -> [Client] {
        let loop = ClientLoop(try EventLoop(name: "test"))
        return try (0..<count).map { _ in try Client(ClientSettings(server: "mqtt://localhost"), loop: loop) }
    }

    @Test func `a client that connects again and again has one deadline, the earliest`() throws {
        var heap = DeadlineHeap()
        let engine = try clients(1)[0].engine
        heap.insert(engine, at: 60_000)
        for attempt in 0..<100 as Range<UInt64> {
            // The pause, then the attempt's time, then the Keep Alive.
            for deadline in [attempt + 100, 10_000, 60_000] { heap.insert(engine, at: deadline) }
            #expect(heap.next == attempt + 100)
            #expect(heap.popDue(now: attempt + 100) === engine)
            heap.insert(engine, at: 60_000)
        }
        #expect(heap.count == 1)
        heap.remove(engine)
        #expect(heap.count == 0)
        #expect(heap.popDue(now: .max) == nil)
    }

    @Test func `clients ring in the order of their deadlines, whoever comes and goes between`() throws {
        let clients = try clients(20)
        var random = SeededGenerator(seed: 1)
        for _ in 0..<200 {
            var heap = DeadlineHeap()
            var expected: [Int: UInt64] = [:]
            for _ in 0..<60 {
                let index = Int.random(in: 0..<clients.count, using: &random)
                if Int.random(in: 0..<4, using: &random) == 0 {
                    heap.remove(clients[index].engine)
                    expected[index] = nil
                } else {
                    let deadline = UInt64.random(in: 1...50, using: &random)
                    heap.insert(clients[index].engine, at: deadline)
                    expected[index] = min(expected[index] ?? .max, deadline)
                }
                #expect(heap.next == expected.values.min())
                #expect(heap.count == expected.count)
            }
            var rung: [UInt64] = []
            while let next = heap.next, let engine = heap.popDue(now: next) {
                let index = clients.firstIndex { $0.engine === engine }
                #expect(index.flatMap { expected.removeValue(forKey: $0) } == next)
                rung.append(next)
            }
            #expect(rung == rung.sorted() && expected.isEmpty)
        }
    }
}
