import ClientCore
import TestBasics
import Testing

@Suite struct QueueTests {
    @Test func `what comes first goes first, whatever comes between`() {
        var random = SeededGenerator(seed: 1)
        var (queue, model, next) = (Queue<Int>(), [Int](), 0)
        for _ in 0..<10_000 {
            switch random.below(20) {
            case 0:
                #expect(queue.first == model.first && queue.count == model.count && queue.isEmpty == model.isEmpty)
                queue.trim()
            case 1 where model.count > 50:
                let all = queue.removeAll()
                #expect(all == model)
                model = []
            case 2...10:
                let popped = queue.popFirst()
                #expect(popped == (model.isEmpty ? nil : model.removeFirst()))
            default:
                queue.append(next)
                model.append(next)
                next += 1
            }
        }
    }
}
