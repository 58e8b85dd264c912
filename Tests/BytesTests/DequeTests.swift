import Testing

@testable import Bytes

@Suite struct DequeTests {
    private final class Thing {
        let number: Int
        init(_ number: Int) { self.number = number }
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func `what is done to it leaves it as an array would be`(seed: UInt64) {
        var (random, deque, model, next) = (SeededGenerator(seed: seed), Deque<Int>(), [Int](), 0)
        for _ in 0..<2_000 {
            switch Int.random(in: 0..<12, using: &random) {
            case 0..<4:
                deque.append(next)
                model.append(next)
            case 4:
                deque.prepend(next)
                model.insert(next, at: 0)
            case 5:
                let more = (0..<Int.random(in: 0..<9, using: &random)).map { next + $0 }
                deque.append(contentsOf: more)
                model += more
            case 6:
                let more = (0..<Int.random(in: 0..<9, using: &random)).map { next + $0 }
                deque.prepend(contentsOf: more)
                model.insert(contentsOf: more, at: 0)
            case 7:
                let number = Int.random(in: 0...model.count, using: &random) / 2
                deque.removeFirst(number)
                model.removeFirst(number)
            case 8 where !model.isEmpty:
                let index = Int.random(in: model.indices, using: &random)
                deque[index] += 1
                model[index] += 1
            case 9 where Bool.random(using: &random):
                deque.removeAll { $0 % 3 == 0 }
                model.removeAll { $0 % 3 == 0 }
            default: #expect(deque.popFirst() == (model.isEmpty ? nil : model.removeFirst()))
            }
            next += 10
            #expect(Array(deque) == model)
            #expect(deque.first == model.first)
            #expect(deque.last == model.last)
        }
    }

    @Test func `it goes around its end without growing`() {
        var deque: Deque = [0, 1, 2, 3]
        for number in 4..<100 {
            #expect(deque.popFirst() == number - 4)
            deque.append(number)
        }
        #expect(deque.capacity == 4)
        #expect(deque == [96, 97, 98, 99])
    }

    @Test func `what is taken out is released at once`() {
        var deque = Deque<Thing>()
        for number in 0..<8 { deque.append(Thing(number)) }
        weak let first = deque.first
        #expect(first?.number == 0)
        deque.popFirst()
        #expect(first == nil)
        weak let last = deque.last
        deque.removeAll { $0.number == 7 }
        #expect(last == nil)
    }

    @Test func `memory is given back with the last element, but for what is kept`() {
        var deque = Deque(0..<1_000)
        #expect(deque.capacity == 1_024)
        for _ in 0..<999 { deque.popFirst() }
        #expect(deque.capacity == 1_024)
        deque.popFirst()
        #expect(deque.capacity == 0)
        deque.append(contentsOf: 0..<1_000)
        for _ in 0..<1_000 { deque.popFirst(keepingCapacity: 2_000) }
        #expect(deque.capacity == 1_024)
        deque.trim()
        #expect(deque.capacity == 0)
        deque = [1]
        #expect(deque.popFirst() == 1)
        #expect(deque.capacity == 4)
    }

    @Test func `of two copies each has its own elements`() {
        var deque: Deque = [1, 2, 3]
        let copy = deque
        deque[1] = 5
        deque.append(4)
        #expect(copy == [1, 2, 3])
        #expect(deque == [1, 5, 3, 4])
    }
}
