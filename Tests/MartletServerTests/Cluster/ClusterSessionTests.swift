import BrokerCore
import BrokerModel
import Cluster
import Testing

@testable import ClusterGateway

@Suite struct ClusterSessionTests {
    private let one: [UInt8] = [1]
    private let two: [UInt8] = [2]

    private func incoming() -> IncomingSession {
        let claim = SessionClaim(identifier: one, expiryInterval: 60, cleanStart: false, hasSession: false)
        return IncomingSession(claim: claim, stage: .waiting, now: 1)
    }

    @Test func `a session has a place while something of it is under way, and is found by what that is`() {
        var table = SessionTable()
        let hasAny = ClusterSession.Part.allCases.contains { table.has($0) }
        #expect(!hasAny && table[one].isEmpty)
        table[two].coming = incoming()
        table[one].coming = incoming()
        table[one].saves.underWay = 5
        #expect(table.names(with: .coming) == [one, two] && table.names(with: .saves) == [one] && !table.has(.going))
        let number = table.take(\.saves.underWay, of: one)
        let again = table.take(\.saves.underWay, of: one)
        #expect(number == 5 && again == nil && !table.has(.saves) && !table[one].isEmpty)
        for session in [one, two] { table[session].coming = nil }
        #expect(!table.has(.coming) && table[one].isEmpty)
    }

    @Test func `what a session does when the lease ends is given up, but what leaves and what ends`() {
        var table = SessionTable()
        table[one].coming = incoming()
        table[one].ending = SessionEnding(found: nil)
        table[one].adoption.oldest = 3
        table[two].wills.endsSession = true
        table.endLease()
        #expect(table.names(with: .ending) == [one] && table[one].adoption.isEmpty && table[two].isEmpty)
        #expect(!table.has(.coming) && !table.has(.wills))
    }

    @Test func `sessions whose wills are to be sent have their turns, no more at once than may be`() {
        var queue = WillQueue()
        for number in 0..<Limits.willsUnderWayMax + 2 { queue.append([UInt8(number)]) }
        while queue.next() != nil { queue.underWayCount += 1 }
        #expect(queue.underWayCount == Limits.willsUnderWayMax)
        queue.underWayCount -= 1
        #expect(queue.next() == [UInt8(Limits.willsUnderWayMax)])
        queue.retries.append([0])
        queue.retry()
        queue.forget()
        #expect(queue.next() == nil)
    }

    @Test func `what others are to forget is asked for once until the answer is late, and the oldest is given up`() {
        var drops = SessionDrops()
        func drop(_ number: Int) -> SessionDrop {
            SessionDrop(session: Array("\(number)".utf8), epoch: 1, store: UInt32(number % 2), ticket: 0)
        }
        drops.add((0..<Limits.sessionDropsMax).map(drop))
        drops.add([drop(Limits.sessionDropsMax)])
        #expect(drops.waiting.count == Limits.sessionDropsMax && drops.waiting.first?.session == Array("1".utf8))
        let last = drops.due(now: 10, last: 1) { _ in true }
        let others = drops.due(now: 10) { $0.store == 0 }
        let late = drops.due(now: 10 + Limits.sessionMessageMillisecondsMax, last: 1) { _ in true }
        #expect(last.count == 1 && others.count == Limits.sessionDropsMax / 2 - 1 && late.count == 1)
        drops.remove(Array("2".utf8))
        drops.remove(Array("4".utf8), epoch: 2, store: 0)
        #expect(drops.waiting.count == Limits.sessionDropsMax - 1)
    }
}
