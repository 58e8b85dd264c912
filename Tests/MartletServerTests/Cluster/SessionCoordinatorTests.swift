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

/// What stands in the records of a node's sessions: conversations of its desk, with shards and servers played by the
/// test.
@Suite struct SessionCoordinatorTests {
    // MARK: Saves

    @Test func `what a shard gives stands in the record before the shard is told`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claim()
        node.saves(epoch, 1, state: [1, 2, 3])
        #expect(node.takeSaved() == [1])
        #expect(node.record?.saved == SessionRecord.Saved(epoch: epoch, state: [1, 2, 3], places: [2]))
        // Places alone leave the rest as it was.
        node.saves(epoch, 2, state: nil)
        #expect(node.takeSaved() == [2] && node.record?.saved?.state == [1, 2, 3])
        // Of an earlier claim it is of no use, and nobody waits for it any more.
        node.saves(epoch - 1, 3)
        #expect(node.takeSaved() == [] && node.record?.saved?.state == [1, 2, 3])
    }

    @Test func `one change is on its way at a time, and the next has all of those that came meanwhile`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claim()
        let before = node.servers.published.count
        node.saves(epoch, 1)
        node.saves(epoch, 2, state: [5], will: .named(epoch, 1))
        node.saves(epoch, 3, state: nil)
        #expect(node.takeSaved() == [1, 3] && node.servers.published.count == before + 2)
        #expect(node.record?.saved?.state == [5] && node.record?.wills.count == 1)
    }

    @Test func `a session that is too large for the servers is confirmed, and is not in the record; its will is`() throws {
        let node = try PlayedCoordinator(payloadBytesMax: 100 << 10)
        let epoch = try node.claim()
        node.saves(epoch, 1)
        node.saves(epoch, 2, state: Array(repeating: 0, count: 30 << 10), will: .named(epoch, 1))
        #expect(node.takeSaved() == [1, 2])
        #expect(
            node.record?.saved == nil && node.record?.wills.count == 1 && node.coordinator.unsavable[node.session] != nil)
        // Smaller again, it is.
        node.saves(epoch, 3, state: [4])
        #expect(node.takeSaved() == [3] && node.record?.saved?.state == [4])
    }

    @Test(arguments: [DetachedConduct.refuse, .local])
    func `without a lease what is given is confirmed for this node alone, if clients may stay`(detached: DetachedConduct) throws {
        let node = try PlayedCoordinator(detached: detached)
        let epoch = try node.claim()
        node.saves(epoch, 1)
        node.coordinator.leaseEnded()
        // What was on its way.
        #expect(node.takeSaved() == (detached == .local ? [1] : []))
        node.saves(epoch, 2)
        #expect(node.takeSaved() == (detached == .local ? [2] : []))
        node.send(.will(identifier: node.session, .named(epoch, 1)))
        let isPublished = node.take().contains { if case .publishAlone = $0 { true } else { false } }
        #expect(isPublished == (detached == .local) && node.wills.isEmpty)
    }

    @Test func `a client whose record cannot be read is refused`() throws {
        let node = try PlayedCoordinator()
        node.servers.put([9, 9, 9], to: node.subject)
        node.comes()
        #expect(node.take().refusal?.contains("cannot be read") == true && node.coordinator.counters.refused == 1)
    }

    @Test func `what a record has of a session and cannot be read is lost, and said to be`() throws {
        let node = try PlayedCoordinator(.left(state: [99]))
        node.shell.network.now += 60_000
        for _ in 0..<20 {
            node.comes()
            let orders = node.take()
            guard case .sessionClaimed(_, .arriving, _)? = orders.first else { continue }
            #expect(node.coordinator.counters.restored == 1)
            guard case .sessionArrives(_, let piece)? = orders.last else { break }
            #expect(piece.bytes == [0])
            node.send(.illegible(identifier: node.session))
            guard case .sessionClaimed(_, .nowhere, _)? = node.take().first else { break }
            #expect(node.coordinator.counters.lost == 1)
            return
        }
        Issue.record("it does not begin anew")
    }

    // MARK: Wills

    @Test func `a will is in the log before anything else is said of its session`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claimWithWill()
        node.send(.will(identifier: node.session, .named(epoch, 1)))
        node.saves(epoch, 2, away: 5)
        #expect(node.record?.wills.count == 1 && node.coordinator.publishesWill(of: node.session))
        #expect(node.takeSaved() == [2])
        #expect(node.wills.count == 1 && node.record?.wills == [] && node.record?.awaySince == 5)
        // The same of one that ends.
        node.send(.will(identifier: node.session, .named(epoch, 2)))
        node.send(.sessionEnded(identifier: node.session))
        #expect(node.record != nil)
        _ = node.take()
        #expect(node.wills.count == 2 && node.record == nil)
    }

    @Test func `a retained will is retained first, by a name that all who publish it give it`() throws {
        var identifiers: [String?] = []
        for _ in 0..<2 {
            let node = try PlayedCoordinator()
            node.find(.left([.named(1000, 1, retain: true)], away: 1))
            let subjects = node.servers.published.map(\.subject).filter { !$0.hasPrefix("$KV") }
            #expect(subjects == ["martlet.c.r.t.t", "martlet.c.l.0"])
            identifiers.append(node.wills.first)
        }
        #expect(identifiers[0] == identifiers[1])
    }

    @Test func `a will of which the record would be too large stays with its node, and nobody waits for it`() throws {
        let node = try PlayedCoordinator(payloadBytesMax: 100 << 10)
        let epoch = try node.claim()
        var large = SavedWill.named(epoch, 1)
        large.message += Array(repeating: 1, count: 99 << 10)
        node.saves(epoch, 1, state: [1, 2], will: large)
        #expect(node.takeSaved() == [1])
        #expect(
            node.record?.wills == [] && node.record?.saved?.state == [1, 2]
                && node.coordinator.unsavable[node.session] != nil)
        // The next one fits.
        node.saves(epoch, 2, state: [1, 2], will: .named(epoch, 2))
        #expect(node.takeSaved() == [2] && node.record?.wills.count == 1)
    }

    @Test func `a record that is larger than the servers take is answered at once`() throws {
        let node = try PlayedCoordinator(.left(state: Array(repeating: 1, count: 110 << 10)), payloadBytesMax: 100 << 10)
        #expect(node.come().refusal?.contains("max_payload") == true && node.coordinator.owner?.writtenEpoch(of: node.session) == 0)
        // Nor does a shard wait.
        let other = try PlayedCoordinator(payloadBytesMax: 100 << 10)
        let epoch = try other.claim()
        var places = SavedSession(
            identifier: node.session, epoch: epoch, number: 1, expiryInterval: 60, state: [1],
            places: Array(repeating: 0, count: 110 << 10))
        other.send(.saves(places))
        #expect(other.takeSaved() == [1] && other.record?.saved == nil)
        (places.number, places.places) = (2, [1])
        other.send(.saves(places))
        #expect(other.takeSaved() == [2] && other.record?.saved?.state == [1])
    }

    @Test func `no expiry that stands in a record is too long`() throws {
        let node = try PlayedCoordinator()
        let message = Array("t".utf8).withUnsafeBytes { bytes in
            LogMessage(
                topic: bytes, properties: UnsafeRawBufferPointer(rebasing: bytes[..<0]), payload: bytes, qos: .atLeastOnce,
                retain: true, millisecondsLeft: .max
            ).entry
        }
        var record = SessionRecord.left(away: 1)
        record.wills = [
            SavedWill(name: WillName(epoch: 1000, number: 1), delayInterval: .max, message: message)
        ]
        node.find(record)
        #expect(node.wills.count == 1 && node.record == nil)
    }
}
