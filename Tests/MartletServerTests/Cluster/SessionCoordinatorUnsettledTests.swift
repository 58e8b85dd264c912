import BrokerCore
import Cluster
import Configuration
import Testing

@testable import ClusterGateway
@testable import MartletServer
@testable import ServerLoops

/// Clients that begin anew while the node that has kept their session does not answer, and holds its lease.
@Suite struct SessionCoordinatorUnsettledTests {
    private static let second = SessionRecord.Owner(node: .second, leaseSequence: 3)

    private func claim(_ orders: [FromCluster]) -> (origin: SessionOrigin, epoch: UInt64)? {
        for case .sessionClaimed(_, let origin, let epoch) in orders { return (origin, epoch) }
        return nil
    }

    private func asks(_ node: PlayedCoordinator) -> [SessionMessage] {
        node.nodeMessages(to: .second).filter { if case .ask = $0.kind { true } else { false } }
    }

    @Test func `a client that begins anew comes in by its claim, and who had its session is asked until it has stopped`() throws {
        let node = try PlayedCoordinator(.left(), beside: .second)
        let come = claim(node.come(expiry: 0, cleanStart: true) + node.take())
        #expect(come?.origin == .nowhere && come?.epoch == 1001)
        // Whoever claims it next asks both; what it was is not there any more.
        #expect(node.record?.owners == [node.me, Self.second])
        #expect(node.record?.expiryInterval == 0 && node.record?.saved == nil)
        let before = asks(node).count
        node.run(ticks: 5)
        #expect(asks(node).count > before)
        // It does not give its session away, but ends it.
        #expect(asks(node).allSatisfy { $0.kind == .ask(cleanStart: true) && $0.epoch == 1001 })
        node.secondStops(1001)
        let after = asks(node).count
        node.saves(1001, 1)
        node.run(ticks: 5)
        #expect(asks(node).count == after && node.record?.owners == [node.me] && !node.coordinator.sessions.has(.unsettled))
    }

    @Test func `it waits for nobody whose lease has ended`() throws {
        let node = try PlayedCoordinator(.left(), beside: .second)
        _ = claim(node.come(expiry: 60, cleanStart: true) + node.take())
        node.lease()
        node.saves(1001, 1)
        _ = node.take()
        #expect(node.record?.owners == [node.me] && !node.coordinator.sessions.has(.unsettled))
    }

    @Test func `a session that ends before the other node has stopped leaves its record behind that`() throws {
        let node = try PlayedCoordinator(.left(), beside: .second)
        _ = node.come(expiry: 60, cleanStart: true) + node.take()
        node.saves(1001, 1)
        node.run()
        node.send(.sessionEnded(identifier: node.session))
        node.run()
        // Somebody else asks the other node, and takes up nothing.
        #expect(node.record?.owners == [node.me, Self.second] && node.record?.expiryInterval == 0 && node.record?.saved == nil)
        node.secondStops(1001)
        node.run()
        #expect(node.record == nil && !node.coordinator.sessions.has(.unsettled))
    }

    @Test func `who comes behind the end of such a session begins another one by another claim`() throws {
        let node = try PlayedCoordinator(.left(), beside: .second)
        _ = node.come(expiry: 60, cleanStart: true) + node.take()
        node.send(.sessionEnded(identifier: node.session))
        node.run()
        let come = claim(node.come(expiry: 60, cleanStart: false) + node.take())
        #expect(come?.origin == .nowhere && come?.epoch == 1002)
        node.saves(1002, 1)
        node.secondStops(1002)
        node.run(ticks: 5)
        #expect(node.record?.epoch == 1002 && !node.coordinator.sessions.has(.unsettled))
    }

    @Test func `what a client that goes on, or one with a will, needs of the other node is waited for`() throws {
        for (record, cleanStart) in [(.left(), false), (.left([.named(1000, 1)]), true)] as [(SessionRecord, Bool)] {
            let node = try PlayedCoordinator(record, beside: .second)
            #expect(claim(node.come(expiry: 60, cleanStart: cleanStart) + node.take() + node.take()) == nil)
            #expect(!node.coordinator.sessions.has(.unsettled))
        }
    }

    @Test func `while the other node holds its lease and does not answer, its client is not connected here for ever`() throws {
        let node = try PlayedCoordinator(.left(), beside: .second)
        _ = node.come(expiry: 60, cleanStart: true) + node.take()
        node.run(ticks: 8)
        let isGone = [2, 6].map { node.take(ticks: $0).contains { if case .sessionGone = $0 { true } else { false } } }
        #expect(isGone == [false, true])
        #expect(
            node.record?.owners == [node.me, Self.second] && !node.isKept)
    }

    @Test func `an offer that comes late makes nobody forget a session that was not let in without it`() throws {
        let node = try PlayedCoordinator(.left(), beside: .second)
        _ = node.come(expiry: 60, cleanStart: false)
        node.run(ticks: 20)
        #expect(node.coordinator.counters.refused == 1)
        let offer = SessionAnswer.Offer(number: 1, epoch: 1000)
        node.secondStops(1001, offer: offer)
        node.run()
        #expect(!node.nodeMessages(to: .second).contains { $0.kind == .drop })
    }

    @Test func `of clients that wait for one node the first is told of by itself, and the others by their number`() throws {
        let node = try PlayedCoordinator()
        var told: [Bool] = []
        for _ in 0..<3 {
            node.put(.left(state: [1]))
            node.comes()
            node.run(ticks: 1)
            for case .claimFailed(_, let words, let isTold) in node.take(ticks: 0) {
                #expect(words.contains("is not there; it is waited for"))
                told.append(isTold)
            }
        }
        #expect(told == [true, false, false] && node.coordinator.counters.refused == 3)
    }
}
