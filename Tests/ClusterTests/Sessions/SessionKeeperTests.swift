import Testing

@testable import Cluster

/// Conversations of one node's keeper, with the engine and the other nodes played by the test.
@Suite struct SessionKeeperTests {
    private final class Sink: SessionKeeperSink {
        var lines: [String] = []
        var written: SessionRecord?
        var number: UInt64 = 0

        func read(_ session: [UInt8]) { lines.append("read") }
        func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
            lines.append("write \(record.epoch) expecting \(sequence)")
            (written, self.number) = (record, number)
        }
        func askToHandOver(_ session: [UInt8], from node: NodeID, epoch: UInt64) { lines.append("ask \(node.store).\(run(node))") }
        func answer(_ session: [UInt8], to node: NodeID, epoch: UInt64, state: [UInt8]?) { lines.append("answer") }
        func takenUp(_ session: [UInt8], _ record: SessionRecord, state: [UInt8]?, isAdopted: Bool) {
            lines.append("taken up \(record.epoch), \(state.map { "\($0)" } ?? "nothing")")
        }
        func notAdopted(_ session: [UInt8], _ record: SessionRecord?) { lines.append("not adopted \(record?.epoch ?? 0)") }
        func saved(_ session: [UInt8], _ record: SessionRecord) { lines.append("saved") }
        func stop(_ session: [UInt8]) -> [UInt8]? {
            lines.append("stop")
            return [9]
        }

        func take() -> [String] {
            defer { lines = [] }
            return lines
        }

        private func run(_ node: NodeID) -> UInt64 { node.rawValue & 0xffff_ffff }
    }

    private let session: [UInt8] = [1]
    private let terms = SessionKeeper.Terms(expiryInterval: 60, firstEpoch: 1000)

    private func keeper(_ store: UInt32, _ run: UInt32, lease: UInt64) -> SessionRecord.Keeper {
        SessionRecord.Keeper(node: NodeID(store: store, run: run), leaseSequence: lease)
    }

    private func node(_ store: UInt32, _ run: UInt32) -> NodeID { NodeID(store: store, run: run) }

    /// A keeper on store 1, run 1, which has claimed a session that others have kept.
    private func claim(_ keepers: [SessionRecord.Keeper], live: Set<NodeID>, _ sink: Sink) -> SessionKeeper {
        var keeper = SessionKeeper(keeper(1, 1, lease: 50))
        keeper.live(live, through: 60, sink)
        keeper.connect(session, terms, now: 0, sink)
        keeper.found(session, SessionRecord(epoch: 7, keepers: keepers, identifier: session), at: 40, now: 1, sink)
        keeper.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        return keeper
    }

    @Test func `a session that was never there is taken up with a high number`() {
        let sink = Sink()
        var keeper = SessionKeeper(keeper(1, 1, lease: 50))
        keeper.connect(session, terms, now: 0, sink)
        keeper.found(session, nil, at: 3, now: 1, sink)
        keeper.written(session, number: sink.number, .stored(at: 4), now: 2, sink)
        #expect(sink.lines == ["read", "write 1000 expecting 3", "taken up 1000, nothing"])
        #expect(sink.written?.identifier == session && keeper.epoch(of: session) == 1000)
        let released = keeper.release(session)
        #expect(released == 4 && !keeper.keeps(session))
    }

    @Test func `a node that was started again answers for its earlier run`() {
        let sink = Sink()
        var claimed = claim([keeper(2, 1, lease: 10)], live: [node(1, 1), node(2, 2)], sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 2.2"])
        #expect(sink.written?.keepers == [keeper(1, 1, lease: 50), keeper(2, 1, lease: 10)])
        claimed.handedOver(session, by: node(2, 2), epoch: 8, state: [5], sink)
        #expect(sink.take() == ["taken up 8, [5]"])
    }

    @Test func `while the lease of an earlier run lasts both are asked, and one answer will do`() {
        let sink = Sink()
        var claimed = claim([keeper(2, 1, lease: 10)], live: [node(1, 1), node(2, 1), node(2, 2)], sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 2.1", "ask 2.2"])
        claimed.handedOver(session, by: node(2, 2), epoch: 8, state: nil, sink)
        #expect(sink.take() == ["taken up 8, nothing"])
    }

    @Test func `nobody answers for a store that is not there, once the lease has ended`() {
        let sink = Sink()
        var claimed = claim([keeper(2, 1, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "ask 2.1"])
        claimed.live([node(1, 1)], through: 61, sink)
        #expect(sink.take() == ["taken up 8, nothing"])
    }

    @Test func `what this node's earlier run has kept is here`() {
        let sink = Sink()
        _ = claim([keeper(1, 0, lease: 10)], live: [node(1, 1)], sink)
        #expect(sink.lines == ["read", "write 8 expecting 40", "taken up 8, nothing"])
        #expect(sink.written?.keepers == [keeper(1, 1, lease: 50)])
    }

    @Test func `who may have a session stays in its record until all of it has come`() {
        let sink = Sink()
        let other = keeper(2, 1, lease: 10)
        var claimed = claim([other], live: [node(1, 1), node(2, 1)], sink)
        claimed.handedOver(session, by: node(2, 1), epoch: 8, state: [5], sink)
        for (hasAll, keepers) in [(false, [keeper(1, 1, lease: 50), other]), (true, [keeper(1, 1, lease: 50)])] {
            let isSaving = claimed.save(session, hasAll: hasAll, now: 3, sink) { $0.awaySince = 1 }
            #expect(isSaving && sink.written?.keepers == keepers)
            claimed.written(session, number: sink.number, .stored(at: 42), now: 3, sink)
        }
    }

    @Test func `a claim leaves the expiry and what was saved as they are`() {
        let sink = Sink()
        var claiming = SessionKeeper(keeper(1, 1, lease: 50))
        claiming.connect(session, SessionKeeper.Terms(expiryInterval: 0), now: 0, sink)
        var found = record([keeper(1, 0, lease: 10)])
        found.saved = SessionRecord.Saved(epoch: 7, state: [1], places: [])
        claiming.found(session, found, at: 40, now: 1, sink)
        #expect(sink.written?.expiryInterval == 60 && sink.written?.saved == found.saved)
    }

    @Test func `a write that was refused is over: what is kept stays, and a claim is given up`() {
        let sink = Sink()
        var claimed = claim([keeper(1, 0, lease: 10)], live: [node(1, 1)], sink)
        let isSaving = claimed.save(session, now: 3, sink) { $0.awaySince = 1 }
        #expect(isSaving)
        let isOlder = claimed.refused(session, number: sink.number - 1)
        let isRefused = claimed.refused(session, number: sink.number)
        #expect(!isOlder && isRefused && claimed.keeps(session))
        let isAgain = claimed.save(session, now: 4, sink) { $0.awaySince = 1 }
        #expect(isAgain)
        var claiming = SessionKeeper(keeper(1, 1, lease: 50))
        claiming.connect(session, terms, now: 0, sink)
        claiming.found(session, nil, at: 0, now: 1, sink)
        let isGivenUp = claiming.refused(session, number: sink.number)
        #expect(isGivenUp && claiming.count == 0)
    }

    // MARK: Adopting

    /// A keeper on store 1, run 1, that adopts a session with a record.
    private func adopt(_ record: SessionRecord?, live: Set<NodeID>, _ sink: Sink) -> SessionKeeper {
        var adopting = SessionKeeper(keeper(1, 1, lease: 50))
        adopting.live(live, through: 60, sink)
        adopting.adopt(session, wallClock: 5000, now: 0, sink)
        adopting.found(session, record, at: 40, now: 1, sink)
        return adopting
    }

    private func record(_ keepers: [SessionRecord.Keeper]) -> SessionRecord {
        SessionRecord(epoch: 7, keepers: keepers, identifier: session, expiryInterval: 60)
    }

    @Test func `a session of a node that is gone is adopted, and keeps the name of who may have it`() {
        let sink = Sink()
        let gone = keeper(2, 1, lease: 10)
        var adopting = adopt(record([gone]), live: [node(1, 1)], sink)
        #expect(sink.written?.keepers == [keeper(1, 1, lease: 50), gone] && sink.written?.awaySince == 5000)
        adopting.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        #expect(sink.take() == ["read", "write 8 expecting 40", "taken up 8, nothing"])
        let isSaving = adopting.save(session, now: 3, sink) { $0.wills = [] }
        #expect(isSaving && sink.written?.keepers.count == 2)
        adopting.written(session, number: sink.number, .stored(at: 42), now: 3, sink)
        #expect(sink.take() == ["write 8 expecting 41", "saved"])
        let released = adopting.release(session)
        #expect(released == 42)
    }

    @Test func `since when a client is away is said once`() {
        let sink = Sink()
        var known = record([keeper(2, 1, lease: 10)])
        known.awaySince = 4000
        _ = adopt(known, live: [node(1, 1)], sink)
        #expect(sink.written?.awaySince == 4000)
    }

    @Test func `what is another node's, or may be, is not adopted, nor what has ended`() {
        let sink = Sink()
        _ = adopt(record([keeper(2, 1, lease: 10)]), live: [node(1, 1), node(2, 1)], sink)
        #expect(sink.take() == ["read", "not adopted 7"])
        // Its store is there again: whoever has that goes on.
        _ = adopt(record([keeper(2, 1, lease: 10)]), live: [node(1, 1), node(2, 2)], sink)
        #expect(sink.take() == ["read", "not adopted 7"])
        // A list of leases that is older than its own says nothing.
        _ = adopt(record([keeper(2, 1, lease: 61)]), live: [node(1, 1)], sink)
        #expect(sink.take() == ["read", "not adopted 7"])
        _ = adopt(nil, live: [node(1, 1)], sink)
        #expect(sink.take() == ["read", "not adopted 0"])
    }

    @Test func `an earlier run's sessions, and those of an earlier lease, are this node's to adopt`() {
        for earlier in [keeper(1, 0, lease: 10), keeper(1, 1, lease: 10), keeper(1, 1, lease: 50)] {
            let sink = Sink()
            _ = adopt(record([earlier]), live: [node(1, 1)], sink)
            #expect(sink.take() == ["read", "write 8 expecting 40"])
            #expect(sink.written?.keepers == [keeper(1, 1, lease: 50)])
        }
    }

    @Test func `a client that comes while its session is adopted gets it`() {
        let sink = Sink()
        var adopting = adopt(record([keeper(2, 1, lease: 10)]), live: [node(1, 1)], sink)
        adopting.written(session, number: sink.number, .stored(at: 41), now: 2, sink)
        _ = sink.take()
        adopting.connect(session, terms, now: 3, sink)
        adopting.written(session, number: sink.number, .stored(at: 42), now: 4, sink)
        #expect(sink.take() == ["stop", "write 9 expecting 41", "taken up 9, [9]"])
        // Nothing was owed: it is not away any more.
        #expect(sink.written?.awaySince == 0)
    }

    @Test func `a claim that is given up is answered like any other session`() {
        let sink = Sink()
        var claimed = claim([keeper(2, 1, lease: 10)], live: [node(1, 1), node(2, 1)], sink)
        let released = claimed.release(session)
        #expect(released == nil && claimed.epoch(of: session) == nil)
        _ = sink.take()
        claimed.handedOver(session, by: node(2, 1), epoch: 8, state: [5], sink)
        claimed.askedToHandOver(session, by: node(3, 1), epoch: 9, sink)
        #expect(sink.take() == ["answer"])
    }
}
