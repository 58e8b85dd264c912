import TestBasics
import Testing

@testable import Cluster

struct LogCursorTests {
    @Test func `a cursor stands at the first record that has something left`() {
        var cursor = LogCursor(at: 5)
        #expect(cursor.position == 5)
        cursor.read(5, count: 0)
        cursor.read(6, count: 2)
        cursor.read(9, count: 1)
        #expect(cursor.position == 6 && cursor.next == 10 && cursor.openCount == 3)
        cursor.done(9)
        cursor.done(6)
        #expect(cursor.position == 6)
        cursor.done(6)
        #expect(cursor.position == 10)
        cursor.done(6)
        cursor.done(7)
        #expect(cursor.position == 10 && cursor.openCount == 0)
    }

    @Test func `what is done more often than it was read stops no cursor`() {
        var cursor = LogCursor(at: 6)
        cursor.read(6, count: 1)
        cursor.read(7, count: 1)
        for sequence: UInt64 in [7, 7, 6] { cursor.done(sequence) }
        #expect(cursor.position == 8 && cursor.openCount == 0)
    }

    @Test(arguments: Seeds.parts(20, perPart: 20))
    func `nothing before the cursor is open, whatever is done first`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            var random = SeededGenerator(seed: seed)
            var cursor = LogCursor(at: 1)
            var open: [UInt64] = []
            for step in 1...400 {
                let count = random.below(3)
                cursor.read(UInt64(step), count: count)
                open += Array(repeating: UInt64(step), count: count)
                while !open.isEmpty, random.below(open.count + 4) > 6 { cursor.done(open.remove(at: random.below(open.count))) }
                #expect(cursor.position == open.min() ?? cursor.next, "\(Seeds.replay(seed))")
                #expect(cursor.openCount == open.count, "\(Seeds.replay(seed))")
            }
        }
    }
}
