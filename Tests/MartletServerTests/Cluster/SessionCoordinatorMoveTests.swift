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

/// Sessions that come from other nodes, and go there: conversations of one node's desk.
@Suite struct SessionCoordinatorMoveTests {
    private func isArriving(_ orders: [FromCluster]) -> Bool {
        orders.contains { if case .sessionClaimed(_, .arriving, _) = $0 { true } else { false } }
    }

    @Test func `who has a session stays in its record until that is here, so that its client can go on to another node`() throws {
        let node = try PlayedCoordinator(.left([.named(1000, 1)]), beside: .second)
        #expect(isArriving(node.come((.second, 1000))))
        let record = try #require(node.record)
        #expect(record.wills == [] && record.owners.map(\.node) == [node.me.node, .second])
        // What is half here is no answer to a third.
        let third = try PlayedCoordinator(store: 3)
        third.lease(node.me.node, .second)
        third.put(record)
        #expect(isArriving(third.come((node.me.node, nil), (.second, 1000))))
        // All of it is here.
        node.saves(record.epoch, 1)
        #expect(node.takeSaved() == [1] && node.record?.owners.map(\.node) == [node.me.node])
    }

    @Test(arguments: [false, true])
    func `that wills are seen to is believed of who had the session, and not by what it has said of an earlier claim`(
        isLate: Bool
    ) throws {
        let node = try PlayedCoordinator(.left([.named(1000, 1)]), beside: .second)
        node.comes(cleanStart: true)
        node.run(ticks: 1)
        node.secondStops(isLate ? 1000 : 1001)
        // Its lease ends.
        node.lease()
        node.run(ticks: 10)
        #expect(node.wills.isEmpty == !isLate && node.record?.wills == [])
    }

    @Test(arguments: [false, true])
    func `of clients that fight over a session who comes again at once waits for the other node to get it`(
        cleanStart: Bool
    ) throws {
        let node = try PlayedCoordinator(beside: .second)
        let epoch = try node.claim()
        func isAsked(by claim: UInt64) {
            node.put(.claimed(claim, by: .second))
            node.secondAsks(cleanStart: cleanStart, epoch: claim)
        }
        func comes() {
            node.comes(cleanStart: cleanStart)
            node.servers.answer()
        }
        // Once, its client may just have gone there.
        isAsked(by: epoch + 1)
        comes()
        #expect(node.record?.epoch == epoch + 2 && node.record?.owners[0].node == node.me.node)
        // The next claim of the other node ends this one, which was on its way: they fight.
        for claim in [epoch + 3, epoch + 5] {
            isAsked(by: claim)
            comes()
            #expect(node.record?.epoch == claim)
            node.run(ticks: 2)
            #expect(node.record?.epoch == claim + 1 && node.record?.owners[0].node == node.me.node)
        }
        node.run(ticks: 6)
        isAsked(by: epoch + 7)
        comes()
        #expect(node.record?.epoch == epoch + 8)
    }

    @Test func `a session over which clients fight may be on its way to another node for ten seconds`() {
        var contested = ContestedSessions()
        contested.claimed([1], now: 0)
        #expect(!contested.waits([1], now: 0))
        contested.claimed([1], now: 4999)
        #expect(contested.waits([1], now: 5998) && !contested.waits([1], now: 5999) && !contested.waits([2], now: 5000))
        for now in stride(from: 5500, to: 15_000, by: 900) as StrideTo<UInt64> {
            contested.isGiven([1], now: now)
            #expect(contested.waits([1], now: min(now + 999, 14_998)))
        }
        #expect(!contested.waits([1], now: 14_999))
        // A while later it is no fight any more; and of what is no fight, nobody waits for what is given.
        contested.claimed([1], now: 20_000)
        contested.isGiven([1], now: 20_000)
        #expect(!contested.waits([1], now: 20_000))
    }

    @Test func `so many sessions over which clients fight are remembered, and others when these are over`() {
        var contested = ContestedSessions()
        func name(_ number: Int) -> [UInt8] { [UInt8(number & 0xff), UInt8(number >> 8)] }
        for _ in 0..<2 { for number in 0..<10_001 { contested.claimed(name(number), now: 1000) } }
        #expect(contested.waits(name(0), now: 1000) && !contested.waits(name(10_000), now: 1000))
        for _ in 0..<2 { contested.claimed(name(10_000), now: 7000) }
        #expect(contested.waits(name(10_000), now: 7000))
    }

    @Test(arguments: [false, true])
    func `who has started again is asked for a session, or to forget it, though its last lease lasts`(cleanStart: Bool) throws {
        let node = try PlayedCoordinator(.left(), beside: .second)
        _ = node.come(cleanStart: cleanStart, (.second, 1000))
        for incarnation in [NodeID(store: 2, incarnation: 0), NodeID(store: 2, incarnation: 9)] {
            node.lease(.second, incarnation)
            node.run(ticks: 6)
            let isAsked = node.nodeMessages(to: incarnation).contains {
                switch $0.kind {
                case .fetch: !cleanStart
                case .drop: cleanStart
                case .ask, .stay: false
                }
            }
            #expect(isAsked)
        }
    }

    @Test func `who has a session keeps it until all nodes know of its share groups here`() throws {
        let node = try PlayedCoordinator()
        (node.gateway.lastTicket, node.gateway.knownTicket) = (5, 4)
        node.lease(.second)
        node.put(.left())
        _ = node.come(cleanStart: true, (.second, 1000))
        #expect(node.coordinator.drops.waiting.map(\.asksAt) == [0])
        node.gateway.knownTicket = 5
        node.coordinator.sendDrops()
        #expect(node.coordinator.drops.waiting.contains { $0.asksAt == 0 } == false)
    }

    @Test func `a session that this node alone may have stays when another node has seen to its will`() throws {
        for isFetched in [false, true] {
            let node = try PlayedCoordinator(beside: .second)
            var record = SessionRecord.left()
            if !isFetched {
                record.owners.append(SessionRecord.Owner(node: NodeID(store: 1, incarnation: 4), leaseSequence: 2))
            }
            node.put(record)
            node.send(.wakes(identifier: node.session, epoch: 999, isConnected: false))
            switch node.take().first {
            case .sessionWillIsElsewhere: #expect(!isFetched)
            case .sessionIsElsewhere: #expect(isFetched)
            case let other: Issue.record("\(String(describing: other))")
            }
        }
    }

    @Test func `a session that nobody has any more is taken up from its record, though nobody is missing`() throws {
        let node = try PlayedCoordinator(store: 3)
        let first = NodeID(store: 1, incarnation: 2)
        node.lease(first, .second)
        var record = SessionRecord.left(state: [99])
        record.epoch += 1
        record.owners.append(SessionRecord.Owner(node: first, leaseSequence: 2))
        node.put(record)
        #expect(isArriving(node.come((.second, nil), (first, nil))) && node.coordinator.counters.restored == 1)
        // Who has saved it, and says that there is none, has ended it.
        let other = try PlayedCoordinator(.left(state: [99]), store: 3, beside: .second)
        #expect(other.come((.second, nil)).origin == .nowhere)
    }

    @Test(arguments: [false, true]) func `who is asked by an earlier claim keeps on with its own, and not if that is behind`(
        isBehind: Bool
    ) throws {
        let node = try PlayedCoordinator(beside: .second)
        var record = SessionRecord.left()
        record.owners.append(node.me)
        node.put(record)
        // This node's claim is stored, and it does not know that yet when the other asks by the claim before it.
        node.servers.holdsAnswers = true
        node.comes()
        node.servers.answer()
        #expect(node.record?.epoch == 1001)
        node.secondAsks(cleanStart: false, epoch: isBehind ? 1001 : 1000)
        node.send(.leaving(identifier: node.session, SessionChunk(number: 0, isLast: true, bytes: [])))
        node.servers.releaseAnswers()
        node.secondStops(1001)
        let isClaimed = node.take().contains { if case .sessionClaimed(_, _, epoch: 1001) = $0 { true } else { false } }
        #expect(isClaimed == !isBehind && node.coordinator.counters.refused == 0)
    }

    @Test(arguments: [false, true]) func `a client that is refused leaves its session as it was`(cleanStart: Bool) throws {
        let node = try PlayedCoordinator()
        // Without the lease of the other, or without a will that it has to see to, its client would be let in to a new
        // session.
        if cleanStart { node.lease(.second) }
        let wills: [SavedWill] = cleanStart ? [.named(1000, 1)] : []
        node.put(.left(wills, state: [1]))
        var orders = node.come(expiry: 0, cleanStart: cleanStart)
        if cleanStart {
            node.run(ticks: 20)
            orders = node.take()
        }
        #expect(orders.refusal != nil)
        node.run(ticks: 10)
        #expect(node.record?.expiryInterval == 60 && node.record?.saved != nil && node.coordinator.counters.leftEnded == 0)
    }

    @Test func `what a session was has left its record before a client begins one anew that does not last`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claim()
        node.saves(epoch, 1)
        _ = node.take()
        node.coordinator.leaseEnded()
        node.lease()
        _ = node.take()
        #expect(node.come(expiry: 0, cleanStart: true, hasSession: true, epoch: epoch).origin == .here)
        #expect(node.record?.expiryInterval == 0 && node.record?.saved == nil)
    }

    @Test func `nothing stays in the record of a session that was over, if the next one does not last`() throws {
        let node = try PlayedCoordinator(.left(away: 1, state: [1]))
        #expect(node.come(expiry: 0).origin == .nowhere)
        #expect(node.record?.expiryInterval == 0 && node.record?.saved == nil && node.record?.awaySince == 0)
    }

    /// As a shard gives it of a session that is a member of a share group.
    private var memberState: [UInt8] {
        func counted(_ bytes: [UInt8]) -> [UInt8] { [UInt8(bytes.count), 0, 0, 0] + bytes }
        let row = StoredSession(clientIdentifier: "client").encoded()
        return [1] + counted(row) + [2, 1, 0, 0, 0] + counted(Array("$share/g/a".utf8))
    }

    @Test(arguments: [0, 60] as [UInt32])
    func `a member's session that ends with Clean Start is taken up first, if its node is gone`(expiry: UInt32) throws {
        let node = try PlayedCoordinator(.left(state: memberState))
        // What the log says since of how far it has come counts.
        node.gateway.furtherPlaces = [5]
        let orders = node.come(expiry: expiry, cleanStart: true)
        #expect(isArriving(orders) && node.coordinator.counters.restored == 1 && node.coordinator.counters.refused == 0)
        #expect(orders.lastChunk == SavedSession.piece(state: memberState, places: SessionRecord.savedPlaces + [5], epoch: 1000))
        #expect((node.record?.saved == nil) == (expiry == 0))
        // Of one whose node is there, that sees to it.
        let other = try PlayedCoordinator(.left(state: memberState), beside: .second)
        #expect(!isArriving(other.come(expiry: expiry, cleanStart: true, (.second, nil))))
    }

    @Test func `a member's session whose time is over is taken up, and its record goes when it has ended here`() throws {
        let node = try PlayedCoordinator()
        node.find(.left(away: 1, state: memberState))
        let orders = node.take()
        #expect(isArriving(orders) && node.record != nil && node.coordinator.counters.leftEnded == 1)
        let whole = SavedSession.piece(state: memberState, places: SessionRecord.savedPlaces, epoch: 1000, isOver: true)
        #expect(orders.lastChunk == whole)
        node.send(.arrived(identifier: node.session, number: 0))
        node.send(.restored(identifier: node.session))
        node.send(.sessionEnded(identifier: node.session))
        #expect(node.take().isEmpty && node.record == nil)
        // What cannot be read ends at once.
        let other = try PlayedCoordinator()
        other.find(.left(away: 1, state: memberState))
        _ = other.take()
        other.send(.illegible(identifier: other.session))
        other.send(.sessionEnded(identifier: other.session))
        _ = other.take()
        #expect(other.record == nil)
    }

    @Test func `a session that is taken up because it is over, and does not arrive, is tried again, and nobody is refused`() throws
    {
        let node = try PlayedCoordinator()
        node.find(.left(away: 1, state: memberState))
        #expect(isArriving(node.take()))
        node.run(ticks: 40)
        #expect(isArriving(node.take()) && node.coordinator.counters.refused == 0 && node.coordinator.counters.leftEnded > 1)
    }

    @Test func `a session that is taken up because it is over goes on to the node that its client comes to`() throws {
        let node = try PlayedCoordinator()
        node.find(.left(away: 1, state: memberState))
        #expect(isArriving(node.take()))
        let epoch = try #require(node.record?.epoch)
        node.lease(.second)
        node.secondAsks(cleanStart: true, epoch: epoch + 1)
        let leaves = node.take().contains { if case .sessionLeaves = $0 { true } else { false } }
        #expect(leaves && node.coordinator.counters.refused == 0)
    }

    @Test(arguments: [false, true]) func `when the servers' bucket was made is known, though it was changed since`(differs: Bool)
        throws
    {
        let node = try PlayedCoordinator(bucketIsMadeMeanwhile: differs)
        #expect(node.coordinator.records.createdAt == 1_577_836_800_000)
        // So a record that is not there was removed.
        node.send(.wakes(identifier: node.session, epoch: 1_600_000_000_000, isConnected: false))
        guard case .sessionIsElsewhere? = node.take().first else {
            Issue.record("it is taken for lost")
            return
        }
    }

    @Test func `a client that stays without a lease is answered when another node has adopted its session`() throws {
        let node = try PlayedCoordinator(detached: .local)
        let epoch = try node.claim()
        node.saves(epoch, 1)
        _ = node.take()
        node.coordinator.leaseEnded()
        node.lease(.second)
        node.saves(epoch, 2)
        #expect(node.takeSaved() == [2])
    }

    @Test func `a session that begins once more has a higher epoch, whatever the clock says`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claim(expiry: 0)
        node.send(.sessionEnded(identifier: node.session))
        _ = node.take()
        #expect(node.record == nil)
        node.gateway.startedAt -= 60_000 + node.shell.network.now
        let next = try node.claim(expiry: 0)
        #expect(next == epoch + 1)
    }

    @Test(arguments: [false, true]) func `a will that was published without the cluster is not published by its record again`(
        isClientBackFirst: Bool
    ) throws {
        let node = try PlayedCoordinator(detached: .local)
        let epoch = try node.claimWithWill()
        node.coordinator.leaseEnded()
        node.send(.will(identifier: node.session, .named(epoch, 1)))
        let record = try #require(node.record)
        #expect(record.wills.count == 1)
        node.lease()
        if isClientBackFirst {
            let isClaimed = node.come().contains { if case .sessionClaimed = $0 { true } else { false } }
            #expect(isClaimed)
        } else {
            node.coordinator.consider(record)
            node.run(ticks: 8)
        }
        #expect(node.wills.isEmpty && node.record?.wills == [])
    }

    @Test(arguments: [false, true]) func `a client that says DISCONNECT without the servers has its will in no log later`(
        isHere: Bool
    ) throws {
        for isBeforeTheEnd in [false, true] {
            let node = try PlayedCoordinator()
            let epoch = try node.claimWithWill()
            if !isBeforeTheEnd { node.coordinator.leaseEnded() }
            node.send(.willEnds(identifier: node.session, WillName(epoch: epoch, number: 1)))
            node.saves(epoch, 2, away: 5)
            if isBeforeTheEnd { node.coordinator.leaseEnded() }
            // What was under way did not get there.
            let record = try #require(node.record)
            #expect(record.wills.count == 1)
            node.shardHas = (isHere, nil)
            node.lease()
            node.coordinator.consider(record)
            node.run(ticks: 8)
            #expect(node.wills.isEmpty)
        }
    }

    @Test func `a will that is over is remembered until no record has it`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claimWithWill()
        node.send(.willEnds(identifier: node.session, WillName(epoch: epoch, number: 1)))
        #expect(node.coordinator.wills.ended.count == 1)
        node.saves(epoch, 2, away: 5)
        _ = node.take()
        #expect(node.coordinator.wills.ended.count == 0)
        node.send(.willEnds(identifier: node.session, WillName(epoch: epoch, number: 2)))
        node.send(.sessionEnded(identifier: node.session))
        _ = node.take()
        #expect(node.coordinator.wills.ended.count == 0)
    }

    @Test func `a will waits for what its client has published before`() throws {
        let node = try PlayedCoordinator()
        node.gateway.isPublishing = true
        let epoch = try node.claim()
        node.send(.will(identifier: node.session, .named(epoch, 1)))
        node.run()
        #expect(node.wills.isEmpty)
        node.gateway.isPublishing = false
        node.coordinator.goOnWithWills()
        node.servers.answer()
        #expect(node.wills.count == 1)
    }

    @Test(arguments: [false, true]) func `a client is let in behind the will of its earlier connection`(isInRecord: Bool) throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claim()
        node.saves(epoch, 1, will: isInRecord ? .named(epoch, 1) : nil)
        _ = node.take()
        node.servers.isElecting = true
        node.send(.will(identifier: node.session, .named(epoch, 1)))
        #expect(node.come(hasSession: true, epoch: epoch).isEmpty && node.wills.isEmpty)
        node.servers.isElecting = false
        guard case .sessionClaimed(_, .here, let next)? = node.take().first else {
            Issue.record("it is not let in")
            return
        }
        #expect(next > epoch && node.wills.count == 1 && node.record?.wills == [])
    }

    @Test func `a will for which there is no room is published when there is, and the stream is told of`() throws {
        let node = try PlayedCoordinator()
        let epoch = try node.claim()
        node.saves(epoch, 1, will: .named(epoch, 1))
        node.servers.lacksRoom = true
        node.send(.will(identifier: node.session, .named(epoch, 1)))
        node.run()
        #expect(node.wills.isEmpty && Set(node.gateway.refused) == ["martlet_c_log_0 10002"])
        node.servers.lacksRoom = false
        node.run()
        #expect(node.wills.count == 1)
    }
}
