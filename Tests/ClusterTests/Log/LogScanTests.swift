import BrokerModel
import Cluster
import Testing

@Suite struct LogScanTests {
    private func given(_ scan: inout LogScan<String>, _ sequences: ClosedRange<UInt64>) -> [String] {
        var readers: [String] = []
        for sequence in sequences {
            _ = scan.passes(sequence) { readers.append("\($0)\(sequence)") }
        }
        return readers
    }

    @Test func `each is given what it wants, once, and is done then`() {
        var scan = LogScan([.init("a", after: 10, through: 12), .init("b", after: 11, through: 13)])
        #expect(scan.position == 10)
        #expect(scan.found(first: 1, last: 20) == 0)
        #expect(given(&scan, 9...12) == ["a11", "a12", "b12"])
        #expect(scan.takeDone() == ["a"] && scan.takeDone() == [])
        #expect(given(&scan, 12...12) == [])
        #expect(given(&scan, 13...14) == ["b13"] && scan.takeDone() == ["b"] && scan.wants.isEmpty)
    }

    @Test func `one that comes later is taken along where it is not too late for that`() {
        var scan = LogScan([.init("a", after: 10, through: 12)])
        _ = given(&scan, 11...11)
        let isLate = scan.add(.init("late", after: 10, through: 12))
        let isTaken = scan.add(.init("b", after: 11, through: 12))
        #expect(!isLate && isTaken && given(&scan, 12...12) == ["a12", "b12"])
        scan.forget("a")
        #expect(scan.takeDone() == ["b"])
    }

    @Test func `what was written after the stream was found is waited for by who came after that`() {
        var scan = LogScan([.init("a", after: 10, through: 20)])
        #expect(scan.found(first: 1, last: 20) == 0)
        scan.forget("a")
        // The session is back, and lacks what was stored meanwhile.
        let isTaken = scan.add(.init("a", after: 20, through: 21))
        #expect(isTaken && given(&scan, 11...20) == [])
        #expect(scan.caughtUp() == [] && scan.wants.count == 1)
        #expect(scan.found(first: 1, last: 21) == 0)
        #expect(given(&scan, 21...21) == ["a21"] && scan.takeDone() == ["a"])
    }

    @Test func `what has gone is not waited for`() {
        var scan = LogScan([
            .init("a", after: 10, through: 12), .init("b", after: 14, through: 30), .init("c", after: 30, through: 31),
        ])
        // Nobody wants the third.
        #expect(scan.found(first: 14, last: 20) == 2)
        #expect(scan.caughtUp() == ["a"])
        #expect(given(&scan, 14...20) == ["b15", "b16", "b17", "b18", "b19", "b20"])
        // The servers have lost the rest: it is looked for once more.
        #expect(scan.caughtUp() == [] && scan.wants.count == 2)
        #expect(scan.found(first: 14, last: 20) == 0)
        #expect(scan.caughtUp() == ["b", "c"] && scan.wants.isEmpty)
        // What was told before, or is read for safety alone, is not counted.
        var told = LogScan([
            .init("a", after: 10, through: 20), .init("b", after: 0, through: 30), .init("c", after: 12, through: 16),
        ])
        #expect(told.found(first: 19, last: 30, known: 14, counts: { $0 != "b" }) == 4 && told.position == 18)
        // One that has become empty has nothing to wait for.
        var emptied = LogScan([.init("a", after: 10, through: 12)])
        #expect(emptied.found(first: 14, last: 13) == 2 && emptied.caughtUp() == ["a"])
        // An empty stream has no first record.
        var other = LogScan([.init("a", after: 10, through: 12)])
        #expect(other.found(first: 0, last: 0) == 0 && other.caughtUp() == [])
    }
}

extension LogScan.Want {
    fileprivate init(_ reader: Reader, after: UInt64, through: UInt64) {
        self.init(reader, LogSpan(partition: 0, after: after, through: through))
    }
}
