import ClientCore
import Testing

@testable import MartletClient

@Suite struct HoldingSubscriptionsTests {
    /// Looks, where nobody has the first message. Returns what is new.
    private func look(_ holding: inout HoldingSubscriptions, _ now: UInt64, owners: [UInt32] = []) -> [UInt32]? {
        holding.look(now: now) { _ in owners } ? holding.reported : nil
    }

    @Test func `a backlog that is full for five seconds is told, and when it is not any more`() {
        var holding = HoldingSubscriptions()
        #expect(holding.deadline == nil)
        holding.becameFull(7, now: 1000)
        holding.becameFull(3, now: 2000)
        // Once more full without having been anything else.
        holding.becameFull(7, now: 3000)
        #expect(holding.deadline == 6000)
        #expect(look(&holding, 5999) == nil)
        #expect(look(&holding, 6000) == [7])
        #expect(holding.deadline == 7000)
        #expect(look(&holding, 7000) == [3, 7])
        #expect(holding.deadline == nil)
        holding.hasRoom(7)
        #expect(look(&holding, 7001) == [3])
        holding.hasRoom(3)
        #expect(look(&holding, 7002) == [])
        #expect(look(&holding, 7003) == nil)
    }

    @Test func `a backlog that is full now and then is not told`() {
        var holding = HoldingSubscriptions()
        for now: UInt64 in stride(from: 0, through: 60_000, by: 1000) {
            holding.becameFull(1, now: now)
            #expect(look(&holding, now + 999) == nil)
            holding.hasRoom(1)
        }
    }

    @Test func `who does not acknowledge the first of many messages is told`() {
        let tokens = (1...2).map { AcknowledgementToken(number: UInt64($0) << 16) }
        var holding = HoldingSubscriptions()
        holding.isFirst(tokens[0], count: 9, now: 0)
        #expect(holding.deadline == nil)
        holding.isFirst(tokens[0], count: 10, now: 3000)
        #expect(holding.deadline == 5000)
        #expect(look(&holding, 5000, owners: [4]) == [4])
        #expect(holding.deadline == nil)
        // The next one's time begins when it is the first.
        holding.isFirst(tokens[1], count: 10, now: 9000)
        #expect(look(&holding, 9000, owners: [5]) == [])
        #expect(holding.deadline == 14_000)
        holding.isFirst(nil, count: 0, now: 10_000)
        #expect(holding.deadline == nil)
    }
}
