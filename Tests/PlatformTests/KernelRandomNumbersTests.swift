import Testing

@testable import Platform

@Suite struct KernelRandomNumbersTests {
    @Test func `each number is given once, also to who has another source`() {
        var (first, second) = (KernelRandomNumbers(), KernelRandomNumbers())
        let count = KernelRandomNumbers.blockCount * 10 + 1
        let numbers = (0..<count).flatMap { _ in [first.next(), second.next()] }
        #expect(Set(numbers).count == numbers.count)
    }
}
