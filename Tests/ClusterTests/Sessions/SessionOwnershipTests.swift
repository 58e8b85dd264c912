import BrokerModel
import Testing

@testable import Cluster

/// Conversations of one node's owner, with the engine and the other nodes played by the test.
@Suite struct SessionOwnershipTests {
    private final class Sink: SessionOwnershipSink {
        var lines: [String] = []
        var written: SessionRecord?
        var number: UInt64 = 0

        func read(_ session: [UInt8]) { lines.append("read") }
        func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
            lines.append("write \(record.epoch) expecting \(sequence)")
            (written, self.number) = (record, number)
        }
        func askToStop(_ session: [UInt8], from node: NodeID, epoch: UInt64) { lines.append("ask \(node.store).\(run(node))") }
        func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool) { lines.append("taken up \(record.epoch)") }
        func notAssumed(_ session: [UInt8], _ record: SessionRecord?) { lines.append("not adopted \(record?.epoch ?? 0)") }
        func saved(_ session: [UInt8], _ record: SessionRecord) { lines.append("saved") }
        func stop(_ session: [UInt8]) { lines.append("stop") }

        func take() -> [String] {
            defer { lines = [] }
            return lines
        }

        private func run(_ node: NodeID) -> UInt64 { node.rawValue & 0xffff_ffff }
    }

    private let sink = Sink()
    private let session: [UInt8] = [1]
    private let terms = SessionOwnership.Terms(expiryInterval: 60, firstEpoch: 1000)

    private func owner(_ store: UInt32, _ incarnation: UInt32, lease: UInt64) -> SessionRecord.Owner {
        SessionRecord.Owner(node: NodeID(store: store, incarnation: incarnation), leaseSequence: lease)
    }

    private func node(_ store: UInt32, _ incarnation: UInt32) -> NodeID { NodeID(store: store, incarnation: incarnation) }

    /// A owner on store 1, incarnation 1, which has claimed a session that others have kept.
    private func claim(_ owners: [SessionRecord.Owner], live: Set<NodeID>, _ sink: Sink) -> SessionOwnership {
        var owner = SessionOwnership(owner(1, 1, lease: 50))
        owner.live(live, through: 60, sink)
        owner.connect(session, terms, now: 0, sink)
        owner.found(session, SessionRecord(epoch: 7, owners: owners, identifier: session), at: 40, now: 1, sink)
        owner.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        return owner
    }

    /// Another node asks it to stop.
    private func ask(_ owner: inout SessionOwnership, _ epoch: UInt64, _ sink: Sink) {
        if owner.askedToStop(session, epoch: epoch, sink) { sink.lines.append("answer") }
    }

    @Test func `a session that was never there is restored with a high number`() {
        var owner = SessionOwnership(owner(1, 1, lease: 50))
        owner.connect(session, terms, now: 0, sink)
        owner.found(session, nil, at: 3, now: 1, sink)
        owner.written(session, number: sink.number, .stored(at: 4), now: 2, sink)
        #expect(sink.lines == ["read", "write 1000 expecting 3", "taken up 1000"])
        #expect(sink.written?.identifier == session && owner.epoch(of: session) == 1000)
        let released = owner.release(session)
        #expect(released == 4 && !owner.keeps(session))
    }

    @Test func `what the servers have lost is written down anew, unless another node has claimed it since`() {
        for isClaimed in [false, true] {
            var keeping = claim([owner(2, 1, lease: 10)], live: [node(1, 1)], sink)
            _ = sink.take()
            keeping.recordsLost(now: 3, sink)
            #expect(sink.take() == ["write 8 expecting 0"])
            if isClaimed {
                keeping.written(session, number: sink.number, .conflict, now: 4, sink)
                let other = SessionRecord(epoch: 2000, owners: [owner(3, 1, lease: 70)], identifier: session)
                keeping.found(session, other, at: 2, now: 5, sink)
                #expect(sink.take() == ["read"] && keeping.keeps(session))
            } else {
                keeping.written(session, number: sink.number, .stored(at: 1), now: 4, sink)
                #expect(sink.take() == ["saved"])
                let isSaving = keeping.save(session, now: 5, sink) { $0.awaySince = 1 }
                #expect(isSaving && sink.take() == ["write 8 expecting 1"])
                keeping.written(session, number: sink.number, .conflict, now: 6, sink)
                keeping.found(session, nil, at: 0, now: 7, sink)
                #expect(sink.take() == ["read", "write 8 expecting 0"])
            }
        }
    }

    @Test func `a node that was started again answers for its earlier incarnation`() {
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1), node(2, 2)], sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 2.2"])
        #expect(sink.written?.owners == [owner(1, 1, lease: 50), owner(2, 1, lease: 10)])
        claimed.hasStopped(node(2, 2), session, epoch: 8, sink)
        #expect(sink.take() == ["taken up 8"])
    }

    @Test func `while the lease of an earlier incarnation lasts both are asked, and one answer will do`() {
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1), node(2, 1), node(2, 2)], sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 2.1", "ask 2.2"])
        claimed.hasStopped(node(2, 2), session, epoch: 8, sink)
        #expect(sink.take() == ["taken up 8"])
    }

    @Test func `nobody answers for a store that is not there, once the lease has ended`() {
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 2.1"])
        claimed.live([node(1, 1)], through: 61, sink)
        #expect(sink.take() == ["taken up 8"])
    }

    @Test func `what this node's earlier incarnation has kept is here`() {
        _ = claim([owner(1, 0, lease: 10)], live: [node(1, 1)], sink)
        #expect(sink.lines == ["read", "write 8 expecting 40", "taken up 8"])
        #expect(sink.written?.owners == [owner(1, 1, lease: 50)])
    }

    @Test func `who may have a session stays in its record until all of it has come`() {
        let other = owner(2, 1, lease: 10)
        var claimed = claim([other], live: [node(1, 1), node(2, 1)], sink)
        claimed.hasStopped(node(2, 1), session, epoch: 8, sink)
        for (hasAll, owners) in [(false, [owner(1, 1, lease: 50), other]), (true, [owner(1, 1, lease: 50)])] {
            let isSaving = claimed.save(session, hasAll: hasAll, now: 3, sink) { $0.awaySince = 1 }
            #expect(isSaving && sink.written?.owners == owners)
            claimed.written(session, number: sink.number, .stored(at: 42), now: 3, sink)
        }
    }

    // MARK: Clients that begin anew

    @Test func `who begins anew need not wait for a node that does not answer, which is asked until it has stopped`() {
        let (me, other) = (owner(1, 1, lease: 50), owner(2, 1, lease: 10))
        var claimed = claim([other], live: [node(1, 1), node(2, 1)], sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 2.1"])
        claimed.keepUnsettled(session, sink)
        #expect(sink.take() == ["taken up 8"] && claimed.keeps(session) && !claimed.isSettled(session))
        claimed.tick(now: 1002, wallClock: 6000, sink)
        #expect(sink.take() == ["ask 2.1"])
        // Whoever claims it next asks the other one, too.
        let isSaving = claimed.save(session, hasAll: true, now: 1003, sink) { $0.awaySince = 1 }
        #expect(isSaving && sink.written?.owners == [me, other])
        claimed.written(session, number: sink.number, .stored(at: 42), now: 1004, sink)
        _ = sink.take()
        claimed.tick(now: 3000, wallClock: 6000, sink)
        #expect(sink.take() == ["ask 2.1"])
        claimed.hasStopped(node(2, 1), session, epoch: 8, sink)
        claimed.tick(now: 5000, wallClock: 6000, sink)
        #expect(sink.take() == [] && claimed.keeps(session) && claimed.isSettled(session))
        let isSavingAgain = claimed.save(session, hasAll: true, now: 5001, sink) { $0.awaySince = 2 }
        #expect(isSavingAgain && sink.written?.owners == [me])
    }

    @Test func `who was not waited for is asked no more when its lease has ended`() {
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
        claimed.keepUnsettled(session, sink)
        claimed.live([node(1, 1)], through: 61, sink)
        _ = sink.take()
        claimed.tick(now: 2000, wallClock: 6000, sink)
        #expect(sink.take() == [] && claimed.keeps(session) && claimed.isSettled(session))
    }

    @Test func `only a claim that waits for others is kept before they have answered`() {
        var claiming = SessionOwnership(owner(1, 1, lease: 50))
        claiming.keepUnsettled(session, sink)
        claiming.connect(session, terms, now: 0, sink)
        claiming.keepUnsettled(session, sink)
        #expect(sink.take() == ["read"] && !claiming.keeps(session))
        // Who comes to the same node again has a claim that names them still.
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
        claimed.keepUnsettled(session, sink)
        claimed.connect(session, terms, now: 3, sink)
        #expect(sink.written?.owners == [owner(1, 1, lease: 50), owner(2, 1, lease: 10)] && sink.written?.epoch == 9)
    }

    @Test func `a claim leaves the expiry and what was saved as they are`() {
        var claiming = SessionOwnership(owner(1, 1, lease: 50))
        claiming.connect(session, SessionOwnership.Terms(expiryInterval: 0), now: 0, sink)
        var found = record([owner(1, 0, lease: 10)])
        found.saved = SessionRecord.Saved(epoch: 7, state: [1], places: [])
        claiming.found(session, found, at: 40, now: 1, sink)
        #expect(sink.written?.expiryInterval == 60 && sink.written?.saved == found.saved)
    }

    @Test func `a write that was refused is over: what is kept stays, and a claim is given up`() {
        var claimed = claim([owner(1, 0, lease: 10)], live: [node(1, 1)], sink)
        let isSaving = claimed.save(session, now: 3, sink) { $0.awaySince = 1 }
        #expect(isSaving)
        let isOlder = claimed.refused(session, number: sink.number - 1)
        let isRefused = claimed.refused(session, number: sink.number)
        #expect(!isOlder && isRefused && claimed.keeps(session))
        let isAgain = claimed.save(session, now: 4, sink) { $0.awaySince = 1 }
        #expect(isAgain)
        var claiming = SessionOwnership(owner(1, 1, lease: 50))
        claiming.connect(session, terms, now: 0, sink)
        claiming.found(session, nil, at: 0, now: 1, sink)
        let isGivenUp = claiming.refused(session, number: sink.number)
        #expect(isGivenUp && claiming.claims.isEmpty)
    }

    @Test func `an answer to a question from before a session was kept leaves its save under way`() {
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1)], sink)
        let isSaving = claimed.save(session, now: 3, sink) { $0.awaySince = 1 }
        #expect(isSaving)
        _ = sink.take()
        claimed.found(session, record([owner(2, 1, lease: 10)]), at: 40, now: 3, sink)
        claimed.written(session, number: sink.number, .stored(at: 42), now: 4, sink)
        #expect(sink.take() == ["saved"])
    }

    @Test(arguments: [true, false])
    func `a save without an answer is looked for, and made again if it is not there`(isThere: Bool) {
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1)], sink)
        let before = claimed.record(of: session)
        let isSaving = claimed.save(session, now: 3, sink) { $0.awaySince = 1 }
        #expect(isSaving)
        claimed.written(session, number: sink.number, .unavailable, now: 4, sink)
        _ = sink.take()
        let late = 3 + Limits.claimAnswerMilliseconds
        claimed.tick(now: late - 1, wallClock: 6000, sink)
        #expect(sink.take() == [])
        claimed.tick(now: late, wallClock: 6000, sink)
        #expect(sink.take() == ["read"])
        claimed.found(session, isThere ? sink.written : before, at: isThere ? 42 : 41, now: late, sink)
        #expect(sink.take() == (isThere ? ["saved"] : ["write 8 expecting 41"]))
    }

    @Test func `who has handed over to an earlier claim, and has kept the session since, is waited for`() {
        let other = owner(2, 1, lease: 10)
        var claimed = claim([other], live: [node(1, 1), node(2, 1)], sink)
        claimed.release(session)
        claimed.connect(session, terms, now: 3, sink)
        let newer = SessionRecord(epoch: 9, owners: [other, owner(1, 1, lease: 50)], identifier: session)
        claimed.found(session, newer, at: 42, now: 3, sink)
        claimed.written(session, number: sink.number, .stored(at: 43), now: 4, sink)
        _ = sink.take()
        claimed.hasStopped(node(2, 1), session, epoch: 8, sink)
        #expect(sink.take() == [] && !claimed.keeps(session))
        claimed.hasStopped(node(2, 1), session, epoch: 10, sink)
        #expect(sink.take() == ["taken up 10"])
    }

    // MARK: Adopting

    /// A owner on store 1, incarnation 1, that assumes a session with a record.
    private func adopt(_ record: SessionRecord?, live: Set<NodeID>, _ sink: Sink) -> SessionOwnership {
        var adopting = SessionOwnership(owner(1, 1, lease: 50))
        adopting.live(live, through: 60, sink)
        adopting.adopt(session, wallClock: 5000, now: 0, sink)
        adopting.found(session, record, at: 40, now: 1, sink)
        return adopting
    }

    private func record(_ owners: [SessionRecord.Owner]) -> SessionRecord {
        SessionRecord(epoch: 7, owners: owners, identifier: session, expiryInterval: 60)
    }

    @Test func `a session of a node that is gone is assumed, and keeps the name of who may have it`() {
        let gone = owner(2, 1, lease: 10)
        var adopting = adopt(record([gone]), live: [node(1, 1)], sink)
        #expect(sink.written?.owners == [owner(1, 1, lease: 50), gone] && sink.written?.awaySince == 5000)
        adopting.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "taken up 8"])
        let isSaving = adopting.save(session, now: 3, sink) { $0.wills = [] }
        #expect(isSaving && sink.written?.owners.count == 2)
        adopting.written(session, number: sink.number, .stored(at: 42), now: 3, sink)
        #expect(sink.take() == ["write 8 expecting 41", "saved"])
        let released = adopting.release(session)
        #expect(released == 42)
    }

    @Test func `since when a client is away is said once`() {
        var known = record([owner(2, 1, lease: 10)])
        known.awaySince = 4000
        _ = adopt(known, live: [node(1, 1)], sink)
        #expect(sink.written?.awaySince == 4000)
    }

    @Test func `a client that an earlier owner has had until it stopped is away since then, and nobody acts before that is said`() {
        let owners = [owner(2, 1, lease: 10), owner(3, 1, lease: 10)]
        var adopting = adopt(record(owners), live: [node(1, 1), node(3, 1)], sink)
        #expect(sink.written?.awaySince == 0)
        adopting.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        adopting.hasStopped(node(3, 1), session, epoch: 8, sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 3.1"])
        adopting.tick(now: 2000, wallClock: 19_000, sink)
        #expect(sink.take() == ["write 8 expecting 41"] && sink.written?.awaySince == 19_000)
        adopting.written(session, number: sink.number, .unavailable, now: 2001, sink)
        adopting.tick(now: 4000, wallClock: 21_000, sink)
        #expect(sink.take() == ["read"])
        adopting.found(session, sink.written, at: 42, now: 4001, sink)
        #expect(sink.take() == ["taken up 8"] && adopting.record(of: session)?.awaySince == 19_000)
        adopting.tick(now: 6000, wallClock: 23_000, sink)
        #expect(sink.take() == [])
        let released = adopting.release(session)
        #expect(released == 42)
    }

    @Test func `what is another node's, or may be, is not adopted, nor what has ended`() {
        _ = adopt(record([owner(2, 1, lease: 10)]), live: [node(1, 1), node(2, 1)], sink)
        #expect(sink.take() == ["read", "not adopted 7"])
        // Its store is there again: whoever has that goes on.
        _ = adopt(record([owner(2, 1, lease: 10)]), live: [node(1, 1), node(2, 2)], sink)
        #expect(sink.take() == ["read", "not adopted 7"])
        // A list of leases that is older than its own says nothing.
        _ = adopt(record([owner(2, 1, lease: 61)]), live: [node(1, 1)], sink)
        #expect(sink.take() == ["read", "not adopted 7"])
        _ = adopt(nil, live: [node(1, 1)], sink)
        #expect(sink.take() == ["read", "not adopted 0"])
    }

    @Test func `an earlier incarnation's sessions, and those of an earlier lease, are this node's to assume`() {
        for earlier in [owner(1, 0, lease: 10), owner(1, 1, lease: 10), owner(1, 1, lease: 50)] {
            let sink = Sink()
            _ = adopt(record([earlier]), live: [node(1, 1)], sink)
            #expect(sink.take() == ["read", "write 8 expecting 40"])
            #expect(sink.written?.owners == [owner(1, 1, lease: 50)])
        }
    }

    @Test func `a client that comes while its session is assumed gets it`() {
        var adopting = adopt(record([owner(2, 1, lease: 10)]), live: [node(1, 1)], sink)
        adopting.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        _ = sink.take()
        adopting.connect(session, terms, now: 3, sink)
        adopting.written(session, number: sink.number, .stored(at: 42), now: 4, sink)
        #expect(sink.take() == ["write 9 expecting 41", "taken up 9"])
        // Nothing was owed: it is not away any more.
        #expect(sink.written?.awaySince == 0)
    }

    @Test func `a claim that is given up is answered like any other session`() {
        var claimed = claim([owner(2, 1, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
        let released = claimed.release(session)
        #expect(released == nil && claimed.epoch(of: session) == nil)
        _ = sink.take()
        claimed.hasStopped(node(2, 1), session, epoch: 8, sink)
        ask(&claimed, 9, sink)
        #expect(sink.take() == ["answer"])
    }

    // MARK: What comes late, or does not come

    @Test func `a save is written behind the last entry that was found, and by the claim of its owner`() {
        var keeping = claim([owner(1, 0, lease: 10)], live: [node(1, 1)], sink)
        _ = keeping.save(session, now: 3, sink) { $0.awaySince = 1 }
        #expect(keeping.epoch(of: session) == 8)
        keeping.found(session, keeping.record(of: session), at: 45, now: 4, sink)
        let isRefused = keeping.refused(session, number: sink.number)
        _ = sink.take()
        _ = keeping.save(session, now: 5, sink) { $0.epoch = 99 }
        #expect(isRefused && sink.take() == ["write 8 expecting 45"])
    }

    @Test func `a save that meets another claim is not written over it, and what is here is given when that asks`() {
        let other = owner(2, 1, lease: 10)
        for (owners, epoch) in [([other], 9), ([other], 8), ([owner(1, 1, lease: 50)], 9)] as [([SessionRecord.Owner], UInt64)] {
            let sink = Sink()
            var keeping = claim([owner(1, 0, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
            _ = keeping.save(session, now: 3, sink) { $0.awaySince = 1 }
            _ = sink.take()
            keeping.written(session, number: sink.number, .conflict, now: 4, sink)
            keeping.found(session, SessionRecord(epoch: epoch, owners: owners, identifier: session), at: 42, now: 5, sink)
            #expect(sink.take() == ["read"] && keeping.keeps(session))
            ask(&keeping, 9, sink)
            #expect(sink.take() == ["stop", "answer"])
        }
    }

    @Test func `the number of a record is not known while a change of it is on its way`() {
        var keeping = claim([owner(1, 0, lease: 10)], live: [node(1, 1)], sink)
        _ = keeping.save(session, now: 3, sink) { $0.awaySince = 1 }
        let released = keeping.release(session)
        #expect(released == nil)
    }

    @Test func `a session is this node's when all have stopped, and not before`() {
        var claimed = claim(
            [owner(2, 1, lease: 10), owner(3, 1, lease: 10)], live: [node(1, 1), node(2, 1), node(3, 1)], sink)
        _ = sink.take()
        claimed.hasStopped(node(2, 1), session, epoch: 8, sink)
        #expect(sink.take() == [])
        claimed.hasStopped(node(3, 1), session, epoch: 8, sink)
        #expect(sink.take() == ["taken up 8"])
    }

    @Test func `who asks while a session is claimed here anew is answered, and asked when its claim is the older one`() {
        for isNewer in [false, true] {
            let sink = Sink()
            var keeping = claim([owner(1, 0, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
            keeping.connect(session, terms, now: 3, sink)
            _ = sink.take()
            ask(&keeping, isNewer ? 10 : 9, sink)
            guard !isNewer else {
                // Its CONNECT is the newer one.
                #expect(sink.take() == ["stop", "answer"] && keeping.claims.isEmpty)
                continue
            }
            #expect(sink.take() == ["answer"])
            keeping.written(session, number: sink.number, .conflict, now: 4, sink)
            let other = SessionRecord(epoch: 9, owners: [owner(2, 1, lease: 10)], identifier: session)
            keeping.found(session, other, at: 42, now: 5, sink)
            keeping.written(session, number: sink.number, .stored(at: 43), now: 6, sink)
            #expect(sink.take() == ["read", "write 10 expecting 42", "ask 2.1"])
            keeping.hasStopped(node(2, 1), session, epoch: 10, sink)
            #expect(sink.take() == ["taken up 10"])
        }
    }

    @Test func `a claim without an answer is asked for again, and a second CONNECT asks for nothing`() {
        var claiming = SessionOwnership(owner(1, 1, lease: 50))
        claiming.connect(session, terms, now: 0, sink)
        claiming.connect(session, terms, now: 1, sink)
        let isAdopting = claiming.adopt(session, wallClock: 5000, now: 2, sink)
        #expect(!isAdopting && sink.take() == ["read"])
        claiming.tick(now: 1000, wallClock: 6000, sink)
        #expect(sink.take() == ["read"])
        claiming.found(session, nil, at: 0, now: 1001, sink)
        claiming.tick(now: 2001, wallClock: 6000, sink)
        #expect(sink.take() == ["write 1000 expecting 0", "read"])
    }

    // MARK: What a claim takes along

    @Test func `a claim has a higher number than any that ended, and that its client has stayed by`() {
        var claiming = SessionOwnership(owner(1, 1, lease: 50))
        claiming.connect(session, terms, now: 0, sink)
        claiming.found(session, nil, at: 5, ended: 2000, now: 1, sink)
        #expect(sink.take() == ["read", "write 2001 expecting 5"])
        var adopting = SessionOwnership(owner(1, 1, lease: 50))
        adopting.adopt(session, stayedBy: 3000, wallClock: 5000, now: 0, sink)
        adopting.found(session, nil, at: 5, ended: 2000, now: 1, sink)
        #expect(sink.take() == ["read", "write 3001 expecting 5"])
    }

    @Test func `a claim names no more owners than a record takes`() {
        let all = (2..<UInt32(2 + Limits.ownersMax)).map { owner($0, 1, lease: 10) }
        _ = claim(all, live: [node(1, 1)], sink)
        #expect(sink.written?.owners == [owner(1, 1, lease: 50)] + all.dropLast())
    }

    @Test func `since when a client is away stays while its wills may be due`() {
        var claiming = SessionOwnership(owner(1, 1, lease: 50))
        claiming.connect(session, terms, now: 0, sink)
        var found = record([owner(1, 0, lease: 10)])
        found.awaySince = 4000
        found.wills = [SavedWill(name: WillName(epoch: 7, number: 1), delayInterval: 5, message: [])]
        claiming.found(session, found, at: 40, now: 1, sink)
        #expect(sink.written?.awaySince == 4000)
    }

    @Test func `who has stopped for an adoption is asked again for the client that comes meanwhile`() {
        let owners = [owner(2, 1, lease: 10), owner(3, 1, lease: 10), owner(4, 1, lease: 10)]
        var adopting = adopt(record(owners), live: [node(1, 1), node(3, 1), node(4, 1)], sink)
        adopting.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        adopting.hasStopped(node(3, 1), session, epoch: 8, sink)
        let written = sink.written
        adopting.connect(session, terms, now: 3, sink)
        adopting.found(session, written, at: 41, now: 4, sink)
        adopting.written(session, number: sink.number, .stored(at: 42), now: 5, sink)
        _ = sink.take()
        for store: UInt32 in [3, 4] { adopting.hasStopped(node(store, 1), session, epoch: 9, sink) }
        #expect(sink.take() == ["taken up 9"])
    }

    @Test func `a client that has stayed is the only one if others have looked after its session at most`() {
        let keeping = claim([owner(1, 0, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
        var found = record([owner(2, 1, lease: 10), owner(1, 1, lease: 50)])
        found.awaySince = 4000
        #expect(keeping.isLookedAfter(found, since: 6))
        found.saved = SessionRecord.Saved(epoch: 6, state: [], places: [])
        #expect(keeping.isLookedAfter(found, since: 6))
        found.saved?.epoch = 7
        #expect(!keeping.isLookedAfter(found, since: 6))
        found.saved = nil
        found.awaySince = 0
        #expect(!keeping.isLookedAfter(found, since: 6))
        found.awaySince = 4000
        found.owners.removeLast()
        #expect(!keeping.isLookedAfter(found, since: 6))
        // What is kept here is not left.
        #expect(keeping.record(of: session).map { keeping.isLeft(session, $0) } == false)
    }
}
