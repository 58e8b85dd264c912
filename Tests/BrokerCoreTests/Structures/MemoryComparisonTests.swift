import Testing

@testable import BrokerModel

@Suite struct MemoryComparisonTests {
    @Test func `bytes are equal when each one is, however many there are and wherever they begin`() {
        let left = (0..<80).map { UInt8($0) }
        for count in 0...60 {
            for start in 0..<9 {
                #expect(isEqual(left, left, start, count))
                for index in 0..<80 {
                    var right = left
                    right[index] ^= 0x80
                    let isInside = (start..<start + count).contains(index)
                    #expect(isEqual(left, right, start, count) != isInside)
                }
            }
        }
    }

    @Test func `the order of bytes is that of their first difference, and a beginning stands before what goes on`() {
        let texts = [
            "", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgi", "abcdefgh\u{ff}", "b", "abcdefghabcdefgh", "abcdefghabcdefgg",
        ]
        for left in texts.map({ Array($0.utf8) }) {
            for right in texts.map({ Array($0.utf8) }) {
                let found = left.withUnsafeBytes { left in right.withUnsafeBytes { MemoryComparison.precedes(left, $0) } }
                #expect(found == left.lexicographicallyPrecedes(right))
            }
        }
    }

    private func isEqual(_ left: [UInt8], _ right: [UInt8], _ start: Int, _ count: Int) -> Bool {
        left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                MemoryComparison.equal(
                    UnsafeRawBufferPointer(rebasing: left[start..<start + count]),
                    UnsafeRawBufferPointer(rebasing: right[start..<start + count]))
            }
        }
    }
}
