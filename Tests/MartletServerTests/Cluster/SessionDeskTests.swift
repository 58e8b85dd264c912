import Administration
import BrokerCore
import Cluster
import Configuration
import MQTTCodec
import NetworkTestKit
import Testing

@testable import MartletServer
@testable import NATSClient

/// Conversations of one node's desk, with the shards and the servers played by the test.
@Suite struct SessionDeskTests {
    fileprivate final class Node {
        let shell: SimulatedShell
        let servers: PlayedServers
        let desk: SessionDesk
        private(set) var orders: [SessionOrder] = []
        /// Sessions of which the shard is to say whether it has them.
        private var asked: [[UInt8]] = []
        /// What it says.
        var shardHas: (isHere: Bool, will: SavedWill.Name?) = (false, nil)
        let me: SessionRecord.Keeper

        init(
            store: UInt32 = 1, detached: DetachedConduct = .refuse, payloadBytesMax: Int = 1 << 20,
            bucketIsMadeMeanwhile: Bool = false
        ) throws {
            me = SessionRecord.Keeper(node: NodeID(store: store, run: 5), leaseSequence: 10)
            var configuration = BrokerConfiguration.default()
            configuration.cluster.servers = ["nats://a"]
            configuration.cluster.name = "c"
            configuration.cluster.detached = detached
            configuration.persistence.isEnabled = true
            configuration.general.nodeName = "n"
            let plan = try #require(try ClusterPlan(configuration))
            shell = try SimulatedShell(loops: 1)
            servers = PlayedServers(plan, on: shell.loops[0], payloadBytesMax: payloadBytesMax)
            desk = SessionDesk(plan, NodeRuns(me.node), on: shell.loops[0], servers.connection)
            servers.receive = { [unowned self] in _ = desk.answered($0, $1) }
            desk.readWallClock = { [unowned self] in 1_700_000_000_000 + shell.network.now }
            desk.deliver = { [unowned self] order, _ in
                orders.append(order)
                if case .adopted(let session, _, _) = order { asked.append(session) }
            }
            servers.bucketIsMadeMeanwhile = bucketIsMadeMeanwhile
            servers.connect()
            desk.attached()
            servers.answer()
            lease()
        }

        func lease(_ others: NodeID...) {
            desk.live([me.node] + others, through: 100, me: me)
            run()
        }

        /// Answers, and lets ticks pass.
        func run(ticks: Int = 3) {
            for _ in 0..<ticks {
                servers.answer()
                for session in asked { note(.adopted(identifier: session, isHere: shardHas.isHere, will: shardHas.will)) }
                asked = []
                shell.network.now += 1000
                shell.turn(0)
                desk.advance(now: desk.now)
                servers.answer()
            }
        }

        func take() -> [SessionOrder] {
            run()
            defer { orders = [] }
            return orders
        }

        func note(_ note: ClusterNote) { desk.received(note, from: 0) }

        var subject: String {
            "$KV.martlet_c_sessions." + String(decoding: SubjectSpace.digest(SessionDeskTests.name), as: UTF8.self)
        }

        /// What stands in the bucket; nil for nothing, or the mark of an end.
        var record: SessionRecord? {
            servers.entries[subject].flatMap { $0.isDeletion ? nil : SessionRecord($0.payload) }
        }

        /// The session is this node's.
        func claim(expiry: UInt32 = 60) throws -> UInt64 {
            note(
                .claim(
                    SessionClaim(identifier: SessionDeskTests.name, expiryInterval: expiry, cleanStart: false, hasSession: false)))
            for case .claimed(_, .here, let epoch) in take() { return epoch }
            Issue.record("it is not claimed")
            return 0
        }

        /// A client comes, whose session the shard does not have, and the others that are asked stop.
        func come(
            expiry: UInt32 = 60, cleanStart: Bool = false, hasSession: Bool = false, epoch: UInt64 = 0,
            _ stops: (node: NodeID, keptBy: UInt64?)...
        ) -> [SessionOrder] {
            let found = record?.epoch ?? 0
            note(
                .claim(
                    SessionClaim(
                        identifier: SessionDeskTests.name, expiryInterval: expiry, cleanStart: cleanStart, hasSession: hasSession,
                        epoch: epoch)))
            run(ticks: 1)
            for stop in stops {
                let offer = stop.keptBy.map { SessionAnswer.Offer(number: 4, epoch: $0) }
                desk.stopped(SessionDeskTests.name, offer: offer, hasSettledWills: true, epoch: found + 1, by: stop.node)
            }
            return take()
        }

        /// A letter comes from another node.
        func take(_ letter: SessionLetter) {
            let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
            desk.space.sessions(to: me.node).withUnsafeBytes { subject in
                Array("_INBOX.x".utf8).withUnsafeBytes { reply in
                    letter.encoded.withUnsafeBytes { payload in
                        let message = MessageView(
                            subscription: 1, subject: subject, reply: reply, headers: nothing, payload: payload)
                        #expect(desk.received(message))
                    }
                }
            }
        }

        func letters(to other: NodeID) -> [SessionLetter] {
            let subject = desk.space.sessions(to: other)
            return servers.published.filter { Array($0.subject.utf8) == subject }
                .compactMap { $0.payload.withUnsafeBytes { SessionLetter(reading: $0) } }
        }

        var wills: [String] { servers.published.compactMap { $0.subject.contains(".l.") ? $0.identifier : nil } }
    }

    fileprivate static let name = Array("client".utf8)

    private func saved(_ epoch: UInt64, _ number: UInt64, state: [UInt8]? = [1], will: SavedWill? = nil, away: UInt64 = 0)
        -> ClusterNote
    {
        var saved = SavedSession(
            identifier: Self.name, epoch: epoch, number: number, expiryInterval: 60, state: state, places: state == nil ? nil : [2])
        (saved.will, saved.awaySince) = (will, away)
        return .saves(saved)
    }

    private func will(_ epoch: UInt64, _ number: UInt64, delay: UInt32 = 0, retain: Bool = false) -> SavedWill {
        SavedWill(
            name: SavedWill.Name(epoch: epoch, number: number), delayInterval: delay, topic: Array("t".utf8),
            payload: [UInt8(number)], qos: .atLeastOnce, retain: retain, publisher: 7)
    }

    private func numbers(_ orders: [SessionOrder]) -> [UInt64] {
        orders.compactMap { if case .saved(_, let number) = $0 { number } else { nil } }
    }

    // MARK: Saves

    @Test func `what a shard gives stands in the record before the shard is told`() throws {
        let node = try Node()
        let epoch = try node.claim()
        node.note(saved(epoch, 1, state: [1, 2, 3]))
        #expect(numbers(node.take()) == [1])
        #expect(node.record?.saved == SessionRecord.Saved(epoch: epoch, state: [1, 2, 3], places: [2]))
        // Places alone leave the rest as it was.
        node.note(saved(epoch, 2, state: nil))
        #expect(numbers(node.take()) == [2] && node.record?.saved?.state == [1, 2, 3])
        // Of an earlier claim it is of no use, and nobody waits for it any more.
        node.note(saved(epoch - 1, 3))
        #expect(numbers(node.take()) == [] && node.record?.saved?.state == [1, 2, 3])
    }

    @Test func `one change is on its way at a time, and the next has all of those that came meanwhile`() throws {
        let node = try Node()
        let epoch = try node.claim()
        let before = node.servers.published.count
        node.note(saved(epoch, 1))
        node.note(saved(epoch, 2, state: [5], will: will(epoch, 1)))
        node.note(saved(epoch, 3, state: nil))
        #expect(numbers(node.take()) == [1, 3] && node.servers.published.count == before + 2)
        #expect(node.record?.saved?.state == [5] && node.record?.wills.count == 1)
    }

    @Test func `a session that is too large for the servers is confirmed, and is not in the record; its will is`() throws {
        let node = try Node(payloadBytesMax: 100 << 10)
        let epoch = try node.claim()
        node.note(saved(epoch, 1))
        node.note(saved(epoch, 2, state: Array(repeating: 0, count: 30 << 10), will: will(epoch, 1)))
        #expect(numbers(node.take()) == [1, 2])
        #expect(node.record?.saved == nil && node.record?.wills.count == 1 && node.desk.unsavable == [Self.name])
        // Smaller again, it is.
        node.note(saved(epoch, 3, state: [4]))
        #expect(numbers(node.take()) == [3] && node.record?.saved?.state == [4])
    }

    @Test(arguments: [DetachedConduct.refuse, .local])
    func `without a lease what is given is confirmed for this node alone, if clients may stay`(detached: DetachedConduct) throws {
        let node = try Node(detached: detached)
        let epoch = try node.claim()
        node.note(saved(epoch, 1))
        node.desk.leaseEnded()
        // What was on its way.
        #expect(numbers(node.take()) == (detached == .local ? [1] : []))
        node.note(saved(epoch, 2))
        #expect(numbers(node.take()) == (detached == .local ? [2] : []))
        node.note(.will(identifier: Self.name, will(epoch, 1)))
        let isPublished = node.take().contains { if case .publishAlone = $0 { true } else { false } }
        #expect(isPublished == (detached == .local) && node.wills.isEmpty)
    }

    @Test func `a client whose record cannot be read is refused`() throws {
        let node = try Node()
        node.servers.put([9, 9, 9], to: node.subject)
        node.note(.claim(SessionClaim(identifier: Self.name, expiryInterval: 60, cleanStart: false, hasSession: false)))
        guard case .failed(_, let words)? = node.take().first else {
            Issue.record("it is not refused")
            return
        }
        #expect(words.contains("cannot be read") && node.desk.counters.refused == 1)
    }

    /// The record of a session that a node has kept which is gone.
    private func left(_ wills: [SavedWill] = [], expiry: UInt32 = 60, away: UInt64 = 0, state: [UInt8] = []) -> SessionRecord {
        var record = SessionRecord(
            epoch: 1000, keepers: [SessionRecord.Keeper(node: NodeID(store: 2, run: 1), leaseSequence: 3)], identifier: Self.name,
            expiryInterval: expiry)
        (record.wills, record.awaySince) = (wills.map { SessionRecord.LastWill($0) }, away)
        if !state.isEmpty { record.saved = SessionRecord.Saved(epoch: 1000, state: state, places: [1]) }
        return record
    }

    @Test func `what a record has of a session and cannot be read is lost, and said to be`() throws {
        let node = try Node()
        node.servers.put(left(state: [99]).encoded, to: node.subject)
        node.shell.network.now += 60_000
        for _ in 0..<20 {
            node.note(.claim(SessionClaim(identifier: Self.name, expiryInterval: 60, cleanStart: false, hasSession: false)))
            let orders = node.take()
            guard case .claimed(_, .arriving, _)? = orders.first else { continue }
            #expect(node.desk.counters.restored == 1)
            guard case .arrives(_, let piece)? = orders.last else { break }
            #expect(piece.bytes == [0])
            node.note(.illegible(identifier: Self.name))
            guard case .claimed(_, .nowhere, _)? = node.take().first else { break }
            #expect(node.desk.counters.lost == 1)
            return
        }
        Issue.record("it does not begin anew")
    }

    // MARK: Wills

    @Test func `a will is in the log before anything else is said of its session`() throws {
        let node = try Node()
        let epoch = try node.claim()
        node.note(saved(epoch, 1, will: will(epoch, 1)))
        _ = node.take()
        node.note(.will(identifier: Self.name, will(epoch, 1)))
        node.note(saved(epoch, 2, away: 5))
        #expect(node.record?.wills.count == 1 && node.desk.publishesWill(of: Self.name))
        #expect(numbers(node.take()) == [2])
        #expect(node.wills.count == 1 && node.record?.wills == [] && node.record?.awaySince == 5)
        // The same of one that ends.
        node.note(.will(identifier: Self.name, will(epoch, 2)))
        node.note(.sessionEnded(identifier: Self.name))
        #expect(node.record != nil)
        _ = node.take()
        #expect(node.wills.count == 2 && node.record == nil)
    }

    @Test func `a retained will is retained first, by a name that all who publish it give it`() throws {
        var identifiers: [String?] = []
        for _ in 0..<2 {
            let node = try Node()
            node.servers.put(left([will(1000, 1, retain: true)], away: 1).encoded, to: node.subject)
            node.desk.consider(left([will(1000, 1, retain: true)], away: 1))
            node.run(ticks: 8)
            let subjects = node.servers.published.map(\.subject).filter { !$0.hasPrefix("$KV") }
            #expect(subjects == ["martlet.c.r.t.t", "martlet.c.l.0"])
            identifiers.append(node.wills.first)
        }
        #expect(identifiers[0] == identifiers[1])
    }

    @Test func `a will of which the record would be too large stays with its node, and nobody waits for it`() throws {
        let node = try Node(payloadBytesMax: 100 << 10)
        let epoch = try node.claim()
        var large = will(epoch, 1)
        large.payload = Array(repeating: 1, count: 99 << 10)
        node.note(saved(epoch, 1, state: [1, 2], will: large))
        #expect(numbers(node.take()) == [1])
        #expect(node.record?.wills == [] && node.record?.saved?.state == [1, 2] && node.desk.unsavable == [Self.name])
        // The next one fits.
        node.note(saved(epoch, 2, state: [1, 2], will: will(epoch, 2)))
        #expect(numbers(node.take()) == [2] && node.record?.wills.count == 1)
    }

    @Test func `a record that is larger than the servers take is answered at once`() throws {
        let node = try Node(payloadBytesMax: 100 << 10)
        node.servers.put(left(state: Array(repeating: 1, count: 110 << 10)).encoded, to: node.subject)
        guard case .failed(_, let words)? = node.come().first else {
            Issue.record("its client waits")
            return
        }
        #expect(words.contains("max_payload") && node.desk.keeper?.count == 0)
        // Nor does a shard wait.
        let other = try Node(payloadBytesMax: 100 << 10)
        let epoch = try other.claim()
        var places = SavedSession(
            identifier: Self.name, epoch: epoch, number: 1, expiryInterval: 60, state: [1],
            places: Array(repeating: 0, count: 110 << 10))
        other.note(.saves(places))
        #expect(numbers(other.take()) == [1] && other.record?.saved == nil)
        (places.number, places.places) = (2, [1])
        other.note(.saves(places))
        #expect(numbers(other.take()) == [2] && other.record?.saved?.state == [1])
    }

    @Test func `no expiry that stands in a record is too long`() throws {
        let node = try Node()
        let message = Array("t".utf8).withUnsafeBytes { bytes in
            BusMessage(
                topic: bytes, properties: UnsafeRawBufferPointer(rebasing: bytes[..<0]), payload: bytes, qos: .atLeastOnce,
                retain: true, millisecondsLeft: .max
            ).entry
        }
        var record = left(away: 1)
        record.wills = [
            SessionRecord.LastWill(name: WillName(epoch: 1000, number: 1), delayInterval: .max, message: message)
        ]
        node.servers.put(record.encoded, to: node.subject)
        node.desk.consider(record)
        node.run(ticks: 8)
        #expect(node.wills.count == 1 && node.record == nil)
    }

    // MARK: Sessions of others

    private let second = NodeID(store: 2, run: 1)

    private func isArriving(_ orders: [SessionOrder]) -> Bool {
        orders.contains { if case .claimed(_, .arriving, _) = $0 { true } else { false } }
    }

    @Test func `who has a session stays in its record until that is here, so that its client can go on to another node`() throws {
        let node = try Node()
        node.lease(second)
        node.servers.put(left([will(1000, 1)]).encoded, to: node.subject)
        #expect(isArriving(node.come((second, 1000))))
        let record = try #require(node.record)
        #expect(record.wills == [] && record.keepers.map(\.node) == [node.me.node, second])
        // What is half here is no answer to a third.
        let third = try Node(store: 3)
        third.lease(node.me.node, second)
        third.servers.put(record.encoded, to: third.subject)
        #expect(isArriving(third.come((node.me.node, nil), (second, 1000))))
        // All of it is here.
        node.note(saved(record.epoch, 1))
        #expect(numbers(node.take()) == [1] && node.record?.keepers.map(\.node) == [node.me.node])
    }

    @Test(arguments: [false, true])
    func `who has started again is asked for a session, or to forget it, though its last lease lasts`(cleanStart: Bool) throws {
        let node = try Node()
        node.lease(second)
        node.servers.put(left().encoded, to: node.subject)
        _ = node.come(cleanStart: cleanStart, (second, 1000))
        for run in [NodeID(store: 2, run: 0), NodeID(store: 2, run: 9)] {
            node.lease(second, run)
            node.run(ticks: 6)
            let isAsked = node.letters(to: run).contains {
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
        let node = try Node()
        var known: UInt64 = 4
        node.desk.lastTicket = { 5 }
        node.desk.isInForce = { $0 <= known }
        node.lease(second)
        node.servers.put(left().encoded, to: node.subject)
        _ = node.come(cleanStart: true, (second, 1000))
        #expect(node.desk.drops.map(\.asksAt) == [0])
        known = 5
        node.desk.sendDrops()
        #expect(node.desk.drops.contains { $0.asksAt == 0 } == false)
    }

    @Test func `a session that this node alone may have stays when another node has seen to its will`() throws {
        for isFetched in [false, true] {
            let node = try Node()
            node.lease(second)
            var record = left()
            if !isFetched {
                record.keepers.append(SessionRecord.Keeper(node: NodeID(store: 1, run: 4), leaseSequence: 2))
            }
            node.servers.put(record.encoded, to: node.subject)
            node.note(.wakes(identifier: Self.name, epoch: 999, isConnected: false))
            switch node.take().first {
            case .willIsElsewhere: #expect(!isFetched)
            case .isElsewhere: #expect(isFetched)
            case let other: Issue.record("\(String(describing: other))")
            }
        }
    }

    @Test func `a session that nobody has any more is taken up from its record, though nobody is missing`() throws {
        let node = try Node(store: 3)
        let first = NodeID(store: 1, run: 2)
        node.lease(first, second)
        var record = left(state: [99])
        record.epoch += 1
        record.keepers.append(SessionRecord.Keeper(node: first, leaseSequence: 2))
        node.servers.put(record.encoded, to: node.subject)
        #expect(isArriving(node.come((second, nil), (first, nil))) && node.desk.counters.restored == 1)
        // Who has saved it, and says that there is none, has ended it.
        let other = try Node(store: 3)
        other.lease(second)
        other.servers.put(left(state: [99]).encoded, to: other.subject)
        guard case .claimed(_, .nowhere, _)? = other.come((second, nil)).first else {
            Issue.record("it comes back")
            return
        }
    }

    @Test(arguments: [false, true]) func `who is asked by an earlier claim keeps on with its own, and not if that is behind`(
        isBehind: Bool
    ) throws {
        let node = try Node()
        node.lease(second)
        var record = left()
        record.keepers.append(node.me)
        node.servers.put(record.encoded, to: node.subject)
        // This node's claim is stored, and it does not know that yet when the other asks by the claim before it.
        node.servers.holdsAnswers = true
        node.note(.claim(SessionClaim(identifier: Self.name, expiryInterval: 60, cleanStart: false, hasSession: false)))
        node.servers.answer()
        #expect(node.record?.epoch == 1001)
        node.take(SessionLetter(.ask(cleanStart: false), node: second, epoch: isBehind ? 1001 : 1000, identifier: Self.name))
        node.note(.leaving(identifier: Self.name, SessionPiece(number: 0, isLast: true, bytes: [])))
        node.servers.releaseAnswers()
        node.desk.stopped(Self.name, offer: nil, hasSettledWills: true, epoch: 1001, by: second)
        let isClaimed = node.take().contains { if case .claimed(_, _, epoch: 1001) = $0 { true } else { false } }
        #expect(isClaimed == !isBehind && node.desk.counters.refused == 0)
    }

    @Test(arguments: [false, true]) func `a client that is refused leaves its session as it was`(cleanStart: Bool) throws {
        let node = try Node()
        // Without the lease of the other its client would be let in to a new session.
        if cleanStart { node.lease(second) }
        node.servers.put(left(state: [1]).encoded, to: node.subject)
        var orders = node.come(expiry: 0, cleanStart: cleanStart)
        if cleanStart {
            node.run(ticks: 20)
            orders = node.take()
        }
        guard case .failed? = orders.first else {
            Issue.record("it is not refused")
            return
        }
        node.run(ticks: 10)
        #expect(node.record?.expiryInterval == 60 && node.record?.saved != nil && node.desk.counters.leftEnded == 0)
    }

    @Test func `what a session was has left its record before a client begins one anew that does not last`() throws {
        let node = try Node()
        let epoch = try node.claim()
        node.note(saved(epoch, 1))
        _ = node.take()
        node.desk.leaseEnded()
        node.lease()
        _ = node.take()
        guard case .claimed(_, .here, _)? = node.come(expiry: 0, cleanStart: true, hasSession: true, epoch: epoch).first else {
            Issue.record("it is not claimed")
            return
        }
        #expect(node.record?.expiryInterval == 0 && node.record?.saved == nil)
    }

    @Test func `nothing stays in the record of a session that was over, if the next one does not last`() throws {
        let node = try Node()
        node.servers.put(left(away: 1, state: [1]).encoded, to: node.subject)
        guard case .claimed(_, .nowhere, _)? = node.come(expiry: 0).first else {
            Issue.record("it does not begin anew")
            return
        }
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
        let node = try Node()
        node.servers.put(left(state: memberState).encoded, to: node.subject)
        let orders = node.come(expiry: expiry, cleanStart: true)
        #expect(isArriving(orders) && node.desk.counters.restored == 1 && node.desk.counters.refused == 0)
        guard case .arrives(_, let piece)? = orders.last else {
            Issue.record("nothing of it arrives")
            return
        }
        #expect(piece == SavedSession.piece(state: memberState, places: [1]))
        #expect((node.record?.saved == nil) == (expiry == 0))
        // Of one whose node is there, that sees to it.
        let other = try Node()
        other.lease(second)
        other.servers.put(left(state: memberState).encoded, to: other.subject)
        #expect(!isArriving(other.come(expiry: expiry, cleanStart: true, (second, nil))))
    }

    @Test func `a member's session whose time is over is taken up, and its record goes when it has ended here`() throws {
        let node = try Node()
        node.servers.put(left(away: 1, state: memberState).encoded, to: node.subject)
        node.desk.consider(left(away: 1, state: memberState))
        node.run(ticks: 8)
        let orders = node.take()
        #expect(isArriving(orders) && node.record != nil && node.desk.counters.leftEnded == 1)
        guard case .arrives(_, let piece)? = orders.last else {
            Issue.record("nothing of it arrives")
            return
        }
        #expect(piece == SavedSession.piece(state: memberState, places: [1], isOver: true))
        node.note(.arrived(identifier: Self.name, number: 0))
        node.note(.restored(identifier: Self.name))
        node.note(.sessionEnded(identifier: Self.name))
        #expect(node.take().isEmpty && node.record == nil)
        // What cannot be read ends at once.
        let other = try Node()
        other.servers.put(left(away: 1, state: memberState).encoded, to: other.subject)
        other.desk.consider(left(away: 1, state: memberState))
        other.run(ticks: 8)
        _ = other.take()
        other.note(.illegible(identifier: Self.name))
        other.note(.sessionEnded(identifier: Self.name))
        _ = other.take()
        #expect(other.record == nil)
    }

    @Test func `a session that is taken up because it is over, and does not arrive, is tried again, and nobody is refused`() throws
    {
        let node = try Node()
        node.servers.put(left(away: 1, state: memberState).encoded, to: node.subject)
        node.desk.consider(left(away: 1, state: memberState))
        node.run(ticks: 8)
        #expect(isArriving(node.take()))
        node.run(ticks: 40)
        #expect(isArriving(node.take()) && node.desk.counters.refused == 0 && node.desk.counters.leftEnded > 1)
    }

    @Test func `a session that is taken up because it is over goes on to the node that its client comes to`() throws {
        let node = try Node()
        node.servers.put(left(away: 1, state: memberState).encoded, to: node.subject)
        node.desk.consider(left(away: 1, state: memberState))
        node.run(ticks: 8)
        #expect(isArriving(node.take()))
        let epoch = try #require(node.record?.epoch)
        node.lease(second)
        node.take(SessionLetter(.ask(cleanStart: true), node: second, epoch: epoch + 1, identifier: Self.name))
        let leaves = node.take().contains { if case .leaves = $0 { true } else { false } }
        #expect(leaves && node.desk.counters.refused == 0)
    }

    @Test(arguments: [false, true]) func `when the servers' bucket was made is known, though it was changed since`(differs: Bool)
        throws
    {
        let node = try Node(bucketIsMadeMeanwhile: differs)
        #expect(node.desk.records.createdAt == 1_577_836_800_000)
        // So a record that is not there was removed.
        node.note(.wakes(identifier: Self.name, epoch: 1_600_000_000_000, isConnected: false))
        guard case .isElsewhere? = node.take().first else {
            Issue.record("it is taken for lost")
            return
        }
    }

    @Test func `a client that stays without a lease is answered when another node has adopted its session`() throws {
        let node = try Node(detached: .local)
        let epoch = try node.claim()
        node.note(saved(epoch, 1))
        _ = node.take()
        node.desk.leaseEnded()
        node.lease(second)
        node.note(saved(epoch, 2))
        #expect(numbers(node.take()) == [2])
    }

    @Test func `a session that begins once more has a higher epoch, whatever the clock says`() throws {
        let node = try Node()
        let epoch = try node.claim(expiry: 0)
        node.note(.sessionEnded(identifier: Self.name))
        _ = node.take()
        #expect(node.record == nil)
        node.desk.readWallClock = { 1_700_000_000_000 - 60_000 }
        let next = try node.claim(expiry: 0)
        #expect(next == epoch + 1)
    }

    @Test(arguments: [false, true]) func `a will that was published without the cluster is not published by its record again`(
        isClientBackFirst: Bool
    ) throws {
        let node = try Node(detached: .local)
        let epoch = try node.claim()
        node.note(saved(epoch, 1, will: will(epoch, 1)))
        _ = node.take()
        node.desk.leaseEnded()
        node.note(.will(identifier: Self.name, will(epoch, 1)))
        let record = try #require(node.record)
        #expect(record.wills.count == 1)
        node.lease()
        if isClientBackFirst {
            let isClaimed = node.come().contains { if case .claimed = $0 { true } else { false } }
            #expect(isClaimed)
        } else {
            node.desk.consider(record)
            node.run(ticks: 8)
        }
        #expect(node.wills.isEmpty && node.record?.wills == [])
    }

    @Test(arguments: [false, true]) func `a client that says DISCONNECT without the servers has its will in no log later`(
        isHere: Bool
    ) throws {
        for isBeforeTheEnd in [false, true] {
            let node = try Node()
            let epoch = try node.claim()
            node.note(saved(epoch, 1, will: will(epoch, 1)))
            _ = node.take()
            if !isBeforeTheEnd { node.desk.leaseEnded() }
            node.note(.willEnds(identifier: Self.name, SavedWill.Name(epoch: epoch, number: 1)))
            node.note(saved(epoch, 2, away: 5))
            if isBeforeTheEnd { node.desk.leaseEnded() }
            // What was under way did not get there.
            let record = try #require(node.record)
            #expect(record.wills.count == 1)
            node.shardHas = (isHere, nil)
            node.lease()
            node.desk.consider(record)
            node.run(ticks: 8)
            #expect(node.wills.isEmpty)
        }
    }

    @Test func `a will that is over is remembered until no record has it`() throws {
        let node = try Node()
        let epoch = try node.claim()
        node.note(saved(epoch, 1, will: will(epoch, 1)))
        _ = node.take()
        node.note(.willEnds(identifier: Self.name, SavedWill.Name(epoch: epoch, number: 1)))
        #expect(node.desk.endedWills.count == 1)
        node.note(saved(epoch, 2, away: 5))
        _ = node.take()
        #expect(node.desk.endedWills.count == 0)
        node.note(.willEnds(identifier: Self.name, SavedWill.Name(epoch: epoch, number: 2)))
        node.note(.sessionEnded(identifier: Self.name))
        _ = node.take()
        #expect(node.desk.endedWills.count == 0)
    }

    @Test func `a will waits for what its client has published before`() throws {
        let node = try Node()
        var isAhead = true
        node.desk.isAhead = { _ in isAhead }
        let epoch = try node.claim()
        node.note(.will(identifier: Self.name, will(epoch, 1)))
        node.run()
        #expect(node.wills.isEmpty)
        isAhead = false
        node.desk.goOnWithWills()
        node.servers.answer()
        #expect(node.wills.count == 1)
    }

    @Test(arguments: [false, true]) func `a client is let in behind the will of its earlier connection`(isInRecord: Bool) throws {
        let node = try Node()
        let epoch = try node.claim()
        node.note(saved(epoch, 1, will: isInRecord ? will(epoch, 1) : nil))
        _ = node.take()
        node.servers.isElecting = true
        node.note(.will(identifier: Self.name, will(epoch, 1)))
        #expect(node.come(hasSession: true, epoch: epoch).isEmpty && node.wills.isEmpty)
        node.servers.isElecting = false
        guard case .claimed(_, .here, let next)? = node.take().first else {
            Issue.record("it is not let in")
            return
        }
        #expect(next > epoch && node.wills.count == 1 && node.record?.wills == [])
    }

    // MARK: Clients that stay

    /// A node with a client that has stayed without a lease, in which another one has looked after its session.
    private func stayed(away: UInt64 = 5) throws -> (Node, epoch: UInt64, record: SessionRecord) {
        let node = try Node(detached: .local)
        let epoch = try node.claim()
        node.note(saved(epoch, 1, will: will(epoch, 1)))
        _ = node.take()
        node.desk.leaseEnded()
        var record = try #require(node.record)
        record.epoch += 1
        record.keepers.insert(SessionRecord.Keeper(node: second, leaseSequence: 3), at: 0)
        (record.wills, record.awaySince) = ([], away)
        node.servers.put(record.encoded, to: node.subject)
        node.lease(second)
        let isTold = node.take().contains { if case .leaseBegins = $0 { true } else { false } }
        #expect(isTold)
        node.shardHas = (true, SavedWill.Name(epoch: epoch, number: 1))
        return (node, epoch, record)
    }

    private func adoption(_ orders: [SessionOrder]) -> UInt64? {
        orders.lazy.compactMap { if case .adopted(_, let epoch, _) = $0 { epoch } else { nil } }.first
    }

    private func isGone(_ orders: [SessionOrder]) -> Bool {
        orders.contains { if case .gone = $0 { true } else { false } }
    }

    @Test func `a client that has stayed has its session again, though another node has looked after it`() throws {
        let (node, epoch, record) = try stayed()
        node.note(.wakes(identifier: Self.name, epoch: epoch, isConnected: true))
        node.run()
        node.desk.stopped(Self.name, offer: nil, hasSettledWills: false, epoch: record.epoch + 1, by: second)
        #expect(adoption(node.take()) == record.epoch + 1)
        #expect(node.desk.keeper?.epoch(of: Self.name) == record.epoch + 1 && node.wills.isEmpty && node.desk.left.isEmpty)
        // What changes from now on is stored.
        node.note(saved(record.epoch + 1, 2))
        #expect(numbers(node.take()) == [2] && node.record?.saved?.epoch == record.epoch + 1)
    }

    @Test func `a client that has stayed is closed when another one has come for its session elsewhere`() throws {
        for isThere in [false, true] {
            let (node, epoch, record) = try stayed(away: isThere ? 0 : 5)
            node.note(.wakes(identifier: Self.name, epoch: epoch, isConnected: true))
            node.run()
            if !isThere {
                let offer = SessionAnswer.Offer(number: 1, epoch: epoch + 1)
                node.desk.stopped(Self.name, offer: offer, hasSettledWills: false, epoch: record.epoch + 1, by: second)
            }
            let orders = node.take()
            #expect(isGone(orders) && adoption(orders) == nil && node.desk.keeper?.keeps(Self.name) == false)
        }
    }

    @Test func `a client that has stayed has its session again, though that has ended elsewhere`() throws {
        let (node, epoch, _) = try stayed()
        node.servers.remove(node.subject)
        node.note(.wakes(identifier: Self.name, epoch: epoch, isConnected: true))
        #expect(adoption(node.take()) == epoch + 1 && node.desk.keeper?.keeps(Self.name) == true)
    }

    // MARK: Sessions that are left

    @Test func `a session is adopted though another of its keepers lives`() throws {
        let node = try Node()
        node.lease(second)
        var record = left([will(1000, 1)])
        record.keepers = [
            SessionRecord.Keeper(node: NodeID(store: 9, run: 1), leaseSequence: 3),
            SessionRecord.Keeper(node: second, leaseSequence: 4),
        ]
        node.servers.put(record.encoded, to: node.subject)
        node.desk.consider(record)
        node.run(ticks: 12)
        node.desk.stopped(Self.name, offer: nil, hasSettledWills: false, epoch: 1001, by: second)
        node.run()
        #expect(node.wills.count == 1)
    }

    @Test func `a session whose node is gone is adopted; its will is published, and it ends when its time is over`() throws {
        let node = try Node()
        let record = left([will(1000, 1)], expiry: 20)
        node.servers.put(record.encoded, to: node.subject)
        node.desk.consider(record)
        node.run(ticks: 8)
        #expect(node.wills.count == 1 && node.record?.wills == [] && node.record?.awaySince ?? 0 > 0)
        #expect(node.record?.keepers.map(\.node) == [node.me.node, NodeID(store: 2, run: 1)])
        #expect(node.desk.counters.leftWills == 1 && node.desk.keeper?.keeps(Self.name) == false)
        #expect(node.desk.nextDeadline != nil)
        node.run(ticks: 10)
        #expect(node.record != nil)
        node.run(ticks: 15)
        #expect(node.record == nil && node.desk.counters.leftEnded == 1)
    }

    @Test func `what lives elsewhere is let be, and so is what has nothing due`() throws {
        let node = try Node()
        node.lease(NodeID(store: 2, run: 1))
        node.desk.consider(left([will(1000, 1)]))
        #expect(node.desk.left.isEmpty)
        node.lease()
        node.desk.consider(left(expiry: .max))
        #expect(node.desk.left.isEmpty)
        node.desk.consider(left([will(1000, 1)]))
        #expect(node.desk.left.count == 1)
        // A client comes for it first: its will waits no more.
        let epoch = try node.claimLeft(left([will(1000, 1, delay: 30)]))
        #expect(epoch > 1000 && node.wills.isEmpty && node.record?.wills == [] && node.desk.left.isEmpty)
    }
}

extension SessionDeskTests.Node {
    /// A client comes for a session whose node is gone, again and again until that is not waited for any more.
    fileprivate func claimLeft(_ record: SessionRecord) throws -> UInt64 {
        servers.put(record.encoded, to: subject)
        for _ in 0..<20 {
            note(.claim(SessionClaim(identifier: record.identifier, expiryInterval: 60, cleanStart: false, hasSession: false)))
            if case .claimed(_, _, let epoch)? = take().first { return epoch }
        }
        Issue.record("it is not claimed")
        return 0
    }
}
