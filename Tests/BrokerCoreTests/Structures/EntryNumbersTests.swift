import TestBasics
import Testing

@testable import BrokerCore

/// Which rows of the store a part of a queue is.
@Suite struct EntryNumbersTests {
    @Test(arguments: [UInt64(1), 2, 3, 4]) func `whatever goes in comes out in its order`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var numbers = EntryNumbers()
        var model: [EntryNumbers.Element] = []
        var last: UInt64 = 0
        for step in 0..<6000 {
            let growing = (step / 1500) % 2 == 0
            if random.below(10) < (growing ? 7 : 3) {
                let element = Self.element(&random, after: &last)
                numbers.append(element)
                model.append(element)
            } else {
                let first = numbers.first()
                let taken = numbers.popFirst()
                #expect(first == taken && taken == (model.isEmpty ? nil : model.removeFirst()))
            }
            #expect(numbers.count == model.count)
            if random.oneIn(500) { numbers.checkInvariants() }
        }
        while let element = numbers.popFirst() { #expect(element == model.removeFirst()) }
        #expect(model.isEmpty && numbers.isEmpty && numbers.byteCount == 0 && numbers.heldBytes == 0)
    }

    private static func element(_ random: inout SeededGenerator, after last: inout UInt64) -> EntryNumbers.Element {
        if random.oneIn(20) { return .pinned }
        switch random.below(20) {
        case 0: last &+= UInt64(random.below(1_000_000))
        // A damaged store may be read out of its order.
        case 1: last = UInt64(random.below(1 << 40))
        case 2: last = UInt64.random(in: 1..<1 << 56, using: &random)
        default: last &+= UInt64(random.below(3) + 1) << 8
        }
        let payload = random.oneIn(3) ? last &- 256 &+ UInt64(random.below(3)) * 512 : 0
        return .stored(PagedEntry(number: last, payload: payload, byteCount: UInt32(random.below(3) * 100)))
    }

    @Test func `a hundred thousand rows at equal distances take next to no memory, and others a few bytes each`() {
        var (even, uneven) = (EntryNumbers(), EntryNumbers())
        for number in UInt64(1)...100_000 {
            even.append(.stored(PagedEntry(number: number * 768, payload: number * 768 + 256, byteCount: 200)))
        }
        #expect(even.count == 100_000 && even.heldBytes < 10_000)
        var random = SeededGenerator(seed: 5)
        var last: UInt64 = 0
        for _ in 0..<20_000 {
            last += UInt64(random.below(60) + 1) << 8
            uneven.append(.stored(PagedEntry(number: last, payload: 0, byteCount: UInt32(random.below(1000)))))
        }
        #expect(uneven.heldBytes < 100_000)
    }
}
