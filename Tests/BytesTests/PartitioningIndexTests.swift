import Bytes
import Testing

@Suite struct PartitioningIndexTests {
    @Test func `the first element behind a point is found, wherever that is`() {
        for count in 0...9 {
            for point in 0...count {
                let found = Array(0..<count).partitioningIndex { $0 >= point }
                #expect(found == point)
                // Of a slice, by its own places.
                let inside = ([-1] + Array(0..<count))[1...].partitioningIndex { $0 >= point }
                #expect(inside == point + 1)
            }
        }
    }
}
