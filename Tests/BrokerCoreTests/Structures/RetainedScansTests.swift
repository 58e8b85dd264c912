import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Whose turn it is among the sessions that are handed retained messages.
struct RetainedScansTests {
    private func query(session: UInt64, _ filter: String = "a/#", shard: Int = 0, credit: Int = 0) -> RetainedQuery {
        RetainedQuery(
            filter: Array(filter.utf8), shard: shard, sessionIndex: UInt32(session), sessionKey: session,
            terms: SubscriptionTerms(maximumQoS: .atMostOnce), stamp: 0, credit: credit)
    }

    private func scan(_ store: borrowing RetainedStore) -> RetainedScan {
        Array("a/#".utf8).withUnsafeBytes { RetainedScan(filter: $0, store: store) }
    }

    /// A table with a scan for each of the sessions 1 to `count`.
    private func table(_ count: UInt64, _ store: borrowing RetainedStore) -> RetainedScans {
        var scans = RetainedScans()
        for session in 1...count {
            let query = query(session: session)
            scans.open(query, scan(store), at: scans.makeSlot(for: query))
        }
        scans.checkInvariants()
        return scans
    }

    @Test func `each session is looked at once in a turn, and one whose last scan has ended goes`() {
        let store = RetainedStore(hashing: TopicHash(seed: 1))
        var scans = table(4, store)
        var turn = scans.beginTurn()
        #expect(!scans.hasReadyScan)
        var seen: [UInt64] = []
        while let slot = scans.nextSlot(in: &turn) {
            seen.append(scans[slot].sessionKey)
            if scans[slot].sessionKey % 2 == 0 { scans[slot].scans[0].isFinished = true }
            #expect(scans.takeFinished(at: slot).count == (seen.last.map { $0 % 2 == 0 } == true ? 1 : 0))
        }
        #expect(seen.sorted() == [1, 2, 3, 4])
        #expect(scans.sessions.map(\.sessionKey).sorted() == [1, 3])
        scans.checkInvariants()
    }

    @Test func `a turn whose steps are used up ends, and the next one goes on behind it`() {
        let store = RetainedStore(hashing: TopicHash(seed: 1))
        var scans = table(3, store)
        var order: [UInt64] = []
        for _ in 0..<6 {
            var turn = scans.beginTurn()
            while let slot = scans.nextSlot(in: &turn) {
                order.append(scans[slot].sessionKey)
                turn.steps = 0
            }
            #expect(scans.hasReadyScan)
            scans.checkInvariants()
        }
        #expect(order == [1, 2, 3, 1, 2, 3])
    }

    @Test(arguments: 0..<20 as Range<UInt64>) func `sessions are found at their places whatever comes and goes`(seed: UInt64) {
        var store = RetainedStore(hashing: TopicHash(seed: seed))
        var random = SeededGenerator(seed: seed)
        var scans = RetainedScans()
        var known: Set<UInt64> = []
        for _ in 0..<300 {
            let session = UInt64.random(in: 1...20, using: &random)
            if known.contains(session) {
                scans.remove(session, in: &store)
                known.remove(session)
            } else {
                scans.open(query(session: session), scan(store), at: scans.makeSlot(for: query(session: session)))
                known.insert(session)
            }
            scans.checkInvariants()
            #expect(Set(scans.sessions.map(\.sessionKey)) == known)
        }
    }

    @Test func `what another shard asks for is granted once, and to a session that is there only`() {
        let store = RetainedStore(hashing: TopicHash(seed: 1))
        var scans = table(1, store)
        scans.receivedRequest(of: 1, ScanGrant(shard: 2, scan: 7, count: 5))
        scans.receivedRequest(of: 99, ScanGrant(shard: 2, scan: 8, count: 5))
        #expect(scans.takeDue(at: 0).map(\.scan) == [7])
        #expect(scans.takeDue(at: 0).count == 0)
        scans.checkInvariants()
    }

    @Test func `a source is the next message's only, and its rights are known until the rules change`() {
        func source() -> RetainedSource {
            RetainedSource(clientIdentifier: "client", userName: nil, listener: 0, listenerName: "")
        }
        var scans = RetainedScans()
        let (one, other) = (source(), source())
        scans.announce(one)
        #expect(scans.takeAnnounced() === one)
        #expect(scans.takeAnnounced() == nil)
        scans.remember([], of: one)
        #expect(scans.knownPolicies(of: one) != nil)
        #expect(scans.knownPolicies(of: other) == nil)
        scans.forgetPolicies()
        #expect(scans.knownPolicies(of: one) == nil)
    }
}
