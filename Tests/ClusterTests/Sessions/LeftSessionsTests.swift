import BrokerModel
import Testing

@testable import Cluster

/// Conversations of one node about sessions that nobody keeps, with the log and the records played by the test.
@Suite struct LeftSessionsTests {
    private final class Sink: LeftSessionsSink {
        var lines: [String] = []

        func adopt(_ session: [UInt8]) { lines.append("adopt \(session[0])") }
        func publish(_ will: SavedWill, of session: [UInt8]) {
            lines.append("publish \(session[0]) \(will.name.number)")
        }
        func remove(_ wills: Set<WillName>, of session: [UInt8]) {
            lines.append("remove \(session[0]) \(wills.map(\.number).sorted())")
        }
        func end(_ session: [UInt8]) { lines.append("end \(session[0])") }
        func letGo(_ session: [UInt8]) { lines.append("let go \(session[0])") }

        func take() -> [String] {
            defer { lines = [] }
            return lines
        }
    }

    private let sink = Sink()
    private let session: [UInt8] = [7]
    private static let now: UInt64 = 1_700_000_000_000

    private func record(expiry: UInt32, away: UInt64 = now, _ wills: (number: UInt64, delay: UInt32)...) -> SessionRecord {
        var record = SessionRecord(
            epoch: 9, owners: [SessionRecord.Owner(node: NodeID(1), leaseSequence: 1)], identifier: session,
            expiryInterval: expiry)
        record.awaySince = away
        record.wills = wills.map {
            SavedWill(name: WillName(epoch: 8, number: $0.number), delayInterval: $0.delay, message: [])
        }
        return record
    }

    private func name(_ number: UInt64) -> WillName { WillName(epoch: 8, number: number) }

    /// One that was assumed with a record.
    private func taken(_ record: SessionRecord, at now: UInt64 = now) -> LeftSessions {
        var left = LeftSessions()
        left.step(wallClock: now - 1000, sink)
        left.record(session, dutyAt: 0)
        left.step(wallClock: now, sink)
        #expect(sink.take() == ["adopt 7"] && left.isHandling(session))
        left.restored(session, record)
        left.step(wallClock: now, sink)
        return left
    }

    @Test func `what is due in a long time takes no place of what is due before`() {
        var left = LeftSessions()
        left.step(wallClock: Self.now, sink)
        left.record([1], dutyAt: Self.now + 86_400_000)
        #expect(left.isEmpty)
        // One that has put it off is found again as well.
        left.record([2], dutyAt: Self.now + 500_000)
        #expect(left.count == 1)
        left.record([2], dutyAt: Self.now + 86_400_000)
        #expect(left.isEmpty)
        left.step(wallClock: Self.now + 500_000, sink)
        #expect(sink.take() == [])
    }

    @Test func `a will leaves the record when it is in the log, and the session waits for its end`() {
        var left = taken(record(expiry: 60, (1, 0)))
        #expect(sink.take() == ["publish 7 1"])
        left.published(session, name(1))
        left.step(wallClock: Self.now, sink)
        #expect(sink.take() == ["remove 7 [1]"])
        left.saved(session, record(expiry: 60))
        left.step(wallClock: Self.now, sink)
        #expect(sink.take() == ["let go 7"] && !left.isHandling(session) && left.count == 1)
        left.step(wallClock: Self.now + 59_000, sink)
        #expect(sink.take() == [])
        left.step(wallClock: Self.now + 61_000, sink)
        #expect(sink.take() == ["adopt 7"])
        left.restored(session, record(expiry: 60))
        left.step(wallClock: Self.now + 61_000, sink)
        #expect(sink.take() == ["end 7"] && left.isEmpty)
    }

    @Test func `wills that are due go one after the other, the earlier first; what waits for its delay stays`() {
        var left = taken(record(expiry: 600, (3, 0), (2, 0), (4, 30)))
        #expect(sink.take() == ["publish 7 2"])
        left.published(session, name(3))
        left.step(wallClock: Self.now, sink)
        #expect(sink.take() == [])
        left.published(session, name(2))
        left.step(wallClock: Self.now, sink)
        #expect(sink.take() == ["publish 7 3"])
        left.published(session, name(3))
        left.step(wallClock: Self.now, sink)
        #expect(sink.take() == ["remove 7 [2, 3]"])
        left.saved(session, record(expiry: 600, (4, 30)))
        left.step(wallClock: Self.now, sink)
        #expect(sink.take() == ["let go 7"])
        left.step(wallClock: Self.now + 29_000, sink)
        #expect(sink.take() == [])
        left.step(wallClock: Self.now + 31_000, sink)
        #expect(sink.take() == ["adopt 7"])
    }

    @Test func `a will that waits is published when the session ends`() {
        var left = taken(record(expiry: 5, away: Self.now - 5000, (1, 3600)))
        #expect(sink.take() == ["publish 7 1"])
        left.published(session, name(1))
        left.step(wallClock: Self.now, sink)
        // With its record the will goes too.
        #expect(sink.take() == ["end 7"])
    }

    @Test func `a session that is claimed elsewhere is nothing to this node any more`() {
        var left = taken(record(expiry: 60, (1, 0)))
        _ = sink.take()
        left.notTaken(session)
        left.published(session, name(1))
        left.saved(session, record(expiry: 60))
        left.step(wallClock: Self.now + 100_000, sink)
        #expect(sink.take() == [] && left.isEmpty)
    }

    @Test func `few are worked off at a time, and each once`() {
        var left = LeftSessions()
        let count = UInt8(Limits.leftSessionsHandledMax + 10)
        left.step(wallClock: Self.now, sink)
        for number in 0..<count {
            left.record([number], dutyAt: Self.now + 500)
            left.record([number], dutyAt: Self.now + 900)
        }
        left.step(wallClock: Self.now + 2000, sink)
        #expect(sink.take().count == Limits.leftSessionsHandledMax)
        for number in 0..<count { left.notTaken([number]) }
        // What waited was another's by then.
        left.step(wallClock: Self.now + 3000, sink)
        #expect(sink.take() == [] && left.isEmpty)
    }

    @Test func `one that is due at another time is looked at then, and once`() {
        var left = LeftSessions()
        left.step(wallClock: Self.now, sink)
        left.record(session, dutyAt: Self.now + 1000)
        left.record(session, dutyAt: Self.now + 50_000)
        left.step(wallClock: Self.now + 20_000, sink)
        #expect(sink.take() == [])
        // The clock leaps.
        left.step(wallClock: Self.now + 90_000_000, sink)
        left.step(wallClock: Self.now + 90_001_000, sink)
        #expect(sink.take() == ["adopt 7"])
        left.record(session, dutyAt: nil)
        #expect(left.isHandling(session))
    }

    @Test func `what is claimed here does not wait beside that, and is restored once`() {
        var left = taken(record(expiry: 60, (1, 0)))
        #expect(sink.take() == ["publish 7 1"])
        left.record(session, dutyAt: 0)
        left.restored(session, record(expiry: 60, (1, 0)))
        left.saved(session, record(expiry: 60))
        left.step(wallClock: Self.now + 2000, sink)
        #expect(sink.take() == [] && left.count == 1)
        left.notTaken(session)
        left.restored(session, record(expiry: 60, (1, 0)))
        left.step(wallClock: Self.now + 4000, sink)
        #expect(sink.take() == [] && left.isEmpty)
    }

    @Test func `no more wait than there is room for, and those that do can put it off`() {
        var left = LeftSessions()
        left.step(wallClock: Self.now, sink)
        func name(_ number: Int) -> [UInt8] { [UInt8(number >> 16), UInt8(number >> 8 & 255), UInt8(number & 255)] }
        for number in 0...Limits.leftSessionsMax { left.record(name(number), dutyAt: Self.now + 1000) }
        #expect(left.count == Limits.leftSessionsMax)
        left.record(name(0), dutyAt: nil)
        left.record(name(Limits.leftSessionsMax), dutyAt: Self.now + 1000)
        #expect(left.count == Limits.leftSessionsMax)
    }

    @Test func `what is to be done about a session, and when`() {
        #expect(record(expiry: .max, away: 0).dutyAt == nil && record(expiry: .max).dutyAt == nil)
        #expect(record(expiry: .max, away: 0, (1, 5)).dutyAt == 0 && record(expiry: 60, away: 0).dutyAt == 0)
        #expect(record(expiry: 60).dutyAt == Self.now + 60_000 && record(expiry: 60, (1, 5)).dutyAt == Self.now + 5000)
        #expect(record(expiry: .max, (1, 5)).dutyAt == Self.now + 5000)
        #expect(!record(expiry: .max).hasEnded(now: .max) && !record(expiry: 0, away: 0).hasEnded(now: .max))
        #expect(record(expiry: 1).hasEnded(now: Self.now + 1000) && !record(expiry: 1).hasEnded(now: Self.now + 999))
    }

    @Test func `who comes back takes back a will that waits, and no other`() {
        func due(_ record: SessionRecord, cleanStart: Bool = false, at seconds: UInt64 = 0) -> [UInt64] {
            record.dueWills(atReturn: cleanStart, now: Self.now + seconds * 1000).map(\.name.number)
        }
        // Its connection has ended with its node, or with its coming.
        #expect(due(record(expiry: 60, away: 0, (1, 0), (2, 5))) == [1])
        #expect(due(record(expiry: 60, away: 0, (1, 5)), cleanStart: true) == [1] && due(record(expiry: 0, away: 0, (1, 5))) == [1])
        // It was away.
        #expect(due(record(expiry: 60, (1, 5)), at: 4) == [] && due(record(expiry: 60, (1, 5)), at: 5) == [1])
        #expect(due(record(expiry: 60, (1, 5)), cleanStart: true, at: 4) == [])
        #expect(due(record(expiry: 60, (1, 500)), at: 60) == [1])
    }
}
