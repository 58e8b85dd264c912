import Bytes
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Up to where is done what a shard has dispatched.
@Suite struct OpenDispatchesTests {
    private func read(_ places: [UInt64]) -> LogPositions {
        var read = LogPositions(partitions: places.count)
        read.places = places.map { LogPositions.Place(sequence: $0, stream: 1) }
        return read
    }

    @Test(arguments: 0..<20 as Range<UInt64>) func `the first record that is not done is known, whatever order they end in`(
        seed: UInt64
    ) {
        var random = SeededGenerator(seed: seed)
        let places = OpenDispatches(partitions: 1)
        var open: [UInt64] = []
        var next: UInt64 = 1
        for _ in 0..<5000 {
            if Int.random(in: 0..<9, using: &random) < 5 {
                next += UInt64.random(in: 0...1, using: &random)
                places.begin(OpenDispatches.Place(partition: 0, sequence: next))
                open.append(next)
            } else if !open.isEmpty {
                // The oldest ones seldom.
                let index = Int.random(in: open.count > 3 ? open.count / 3..<open.count : 0..<open.count, using: &random)
                places.end(OpenDispatches.Place(partition: 0, sequence: open.remove(at: index)))
            }
            #expect(places.firstOpen(0) == open.min() && places.last(0) == (open.isEmpty && next == 1 ? places.last(0) : next))
        }
    }

    @Test func `one that is open for ever holds no memory of those that are done`() {
        let places = OpenDispatches(partitions: 1)
        places.begin(OpenDispatches.Place(partition: 0, sequence: 1))
        for sequence in 2...50_000 as ClosedRange<UInt64> {
            places.begin(OpenDispatches.Place(partition: 0, sequence: sequence))
            places.end(OpenDispatches.Place(partition: 0, sequence: sequence))
        }
        #expect(places.firstOpen(0) == 1 && places.heldCount < 2100)
    }

    @Test func `a partition is done no further than it was read when the oldest open message of any was dispatched`() {
        let places = OpenDispatches(partitions: 2)
        places.record(read: read([10, 20]))
        #expect(places.bound(1) == nil)
        places.begin(OpenDispatches.Place(partition: 0, sequence: 11))
        places.record(read: read([500, 600]))
        places.begin(OpenDispatches.Place(partition: 1, sequence: 601))
        #expect(places.bound(0) == 10 && places.bound(1) == 20)
        places.end(OpenDispatches.Place(partition: 0, sequence: 11))
        #expect(places.bound(0) == 500 && places.bound(1) == 600)
        // However long it takes: at the earlier one of two that were remembered.
        for second in 1...10_000 as ClosedRange<UInt64> { places.record(read: read([500 + second, 600 + second])) }
        #expect(places.bound(0) == 500 && places.snapshotCount <= 64)
        places.end(OpenDispatches.Place(partition: 1, sequence: 601))
        #expect(places.bound(0) == nil)
    }

    @Test func `a partition that ends earlier has nothing open behind its end`() {
        let places = OpenDispatches(partitions: 2)
        places.record(read: read([10, 20]))
        for sequence in [11, 15, 19] as [UInt64] { places.begin(OpenDispatches.Place(partition: 0, sequence: sequence)) }
        places.end(OpenDispatches.Place(partition: 0, sequence: 15))
        places.cut(0, at: 12)
        places.cut(1, at: 5)
        #expect(places.firstOpen(0) == 11 && places.last(0) == 12 && places.bound(0) == 10 && places.bound(1) == 5)
        places.begin(OpenDispatches.Place(partition: 0, sequence: 13))
        places.end(OpenDispatches.Place(partition: 0, sequence: 11))
        #expect(places.firstOpen(0) == 13 && places.last(0) == 13)
    }

    @Test func `a log of one partition needs none of that`() {
        let places = OpenDispatches(partitions: 1)
        places.record(read: read([10]))
        places.begin(OpenDispatches.Place(partition: 0, sequence: 11))
        #expect(places.bound(0) == nil && places.snapshotCount == 0)
    }
}
