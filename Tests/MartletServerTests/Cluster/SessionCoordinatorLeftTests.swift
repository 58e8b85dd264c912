import Administration
import BrokerCore
import BrokerModel
import Cluster
import Configuration
import MQTTCodec
import NetworkTestKit
import Testing

@testable import ClusterGateway
@testable import MartletServer
@testable import NATSClient
@testable import ServerLoops

/// Clients that stay over the end of a lease, and sessions that nobody keeps: conversations of one node's desk.
@Suite struct SessionCoordinatorLeftTests {
    // MARK: Clients that stay

    /// A node with a client that has stayed without a lease, in which another one has looked after its session.
    private func stayed(away: UInt64 = 5) throws -> (PlayedCoordinator, epoch: UInt64, record: SessionRecord) {
        let node = try PlayedCoordinator(detached: .local)
        let epoch = try node.claimWithWill()
        node.coordinator.leaseEnded()
        var record = try #require(node.record)
        record.epoch += 1
        record.owners.insert(SessionRecord.Owner(node: .second, leaseSequence: 3), at: 0)
        (record.wills, record.awaySince) = ([], away)
        node.put(record)
        node.lease(.second)
        let isTold = node.take().contains { if case .leaseBegins = $0 { true } else { false } }
        #expect(isTold)
        node.shardHas = (true, WillName(epoch: epoch, number: 1))
        return (node, epoch, record)
    }

    private func adoption(_ orders: [FromCluster]) -> UInt64? {
        orders.lazy.compactMap { if case .sessionAssumed(_, let epoch, _) = $0 { epoch } else { nil } }.first
    }

    private func isGone(_ orders: [FromCluster]) -> Bool {
        orders.contains { if case .sessionGone = $0 { true } else { false } }
    }

    @Test func `a client that has stayed has its session again, though another node has looked after it`() throws {
        let (node, epoch, record) = try stayed()
        node.send(.wakes(identifier: node.session, epoch: epoch, isConnected: true))
        node.run()
        node.secondStops(record.epoch + 1, hasSettledWills: false)
        #expect(adoption(node.take()) == record.epoch + 1)
        #expect(
            node.coordinator.owner?.epoch(of: node.session) == record.epoch + 1 && node.wills.isEmpty
                && node.coordinator.left.isEmpty)
        // What changes from now on is stored.
        node.saves(record.epoch + 1, 2)
        #expect(node.takeSaved() == [2] && node.record?.saved?.epoch == record.epoch + 1)
    }

    @Test func `a client that has stayed is closed when another one has come for its session elsewhere`() throws {
        for isThere in [false, true] {
            let (node, epoch, record) = try stayed(away: isThere ? 0 : 5)
            node.send(.wakes(identifier: node.session, epoch: epoch, isConnected: true))
            node.run()
            if !isThere {
                let offer = SessionAnswer.Offer(number: 1, epoch: epoch + 1)
                node.secondStops(record.epoch + 1, offer: offer, hasSettledWills: false)
            }
            let orders = node.take()
            #expect(isGone(orders) && adoption(orders) == nil && !node.isKept)
        }
    }

    @Test func `a client that has stayed has its session again, though that has ended elsewhere`() throws {
        let (node, epoch, _) = try stayed()
        node.servers.remove(node.subject)
        node.send(.wakes(identifier: node.session, epoch: epoch, isConnected: true))
        #expect(adoption(node.take()) == epoch + 1 && node.isKept)
    }

    // MARK: Sessions that are left

    @Test func `a session is adopted though another of its owners lives`() throws {
        let node = try PlayedCoordinator(beside: .second)
        var record = SessionRecord.left([.named(1000, 1)])
        record.owners = [
            SessionRecord.Owner(node: NodeID(store: 9, incarnation: 1), leaseSequence: 3),
            SessionRecord.Owner(node: .second, leaseSequence: 4),
        ]
        node.put(record)
        node.coordinator.consider(record)
        node.run(ticks: 12)
        node.secondStops(1001, hasSettledWills: false)
        node.run()
        #expect(node.wills.count == 1)
    }

    @Test func `a session whose node is gone is adopted; its will is published, and it ends when its time is over`() throws {
        let node = try PlayedCoordinator()
        node.find(.left([.named(1000, 1)], expiry: 20))
        #expect(node.wills.count == 1 && node.record?.wills == [] && node.record?.awaySince ?? 0 > 0)
        #expect(node.record?.owners.map(\.node) == [node.me.node, NodeID(store: 2, incarnation: 1)])
        #expect(node.coordinator.counters.leftWills == 1 && !node.isKept)
        #expect(node.coordinator.nextDeadline != nil)
        node.run(ticks: 10)
        #expect(node.record != nil)
        node.run(ticks: 15)
        #expect(node.record == nil && node.coordinator.counters.leftEnded == 1)
    }

    @Test func `a client that comes in the moment in which its session was adopted gets it from the copy`() throws {
        let node = try PlayedCoordinator()
        let record = SessionRecord.left(state: [1])
        node.put(record)
        node.coordinator.consider(record)
        for _ in 0..<20 where !node.isKept { node.run(ticks: 1) }
        // The servers have stored the claim, and nobody has taken note of it yet.
        #expect(node.coordinator.left.isHandling(node.session) && !node.coordinator.leftNews.isEmpty)
        var origins: [SessionOrigin] = []
        for _ in 0..<20 where origins.isEmpty {
            for case .sessionClaimed(_, let origin, _) in node.come() { origins.append(origin) }
        }
        #expect(origins == [.arriving] && node.coordinator.counters.restored == 1)
    }

    @Test func `records that the servers have lost are written down anew`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claim()
        node.saves(epoch, 1)
        #expect(node.takeSaved() == [1])
        let record = try #require(node.record)
        node.servers.loseBucket(madeAt: "2023-11-14T23:30:00Z")
        // A change of the session finds it out at once, and a session without a change when the bucket is looked at.
        node.saves(epoch, 2)
        #expect(node.takeSaved() == [2] && node.record?.saved == record.saved)
        node.servers.loseBucket(madeAt: "2023-11-14T23:40:00Z")
        node.run(ticks: 12)
        #expect(node.record?.saved == record.saved && node.record?.owners == record.owners && node.record?.epoch == epoch)
        // What has changed since is stored behind that.
        node.saves(epoch, 3, state: [3])
        #expect(node.takeSaved() == [3] && node.record?.saved?.state == [3])
    }

    @Test func `what lives elsewhere is let be, and so is what has nothing due`() throws {
        let node = try PlayedCoordinator()
        node.lease(NodeID(store: 2, incarnation: 1))
        node.coordinator.consider(.left([.named(1000, 1)]))
        #expect(node.coordinator.left.isEmpty)
        node.lease()
        node.coordinator.consider(.left(expiry: .max))
        #expect(node.coordinator.left.isEmpty)
        node.coordinator.consider(.left([.named(1000, 1)]))
        #expect(node.coordinator.left.count == 1)
        // A client comes for it first: its will waits no more.
        let epoch = try node.claimLeft(.left([.named(1000, 1, delay: 30)]))
        #expect(epoch > 1000 && node.wills.isEmpty && node.record?.wills == [] && node.coordinator.left.isEmpty)
    }
}
