import Testing

@testable import Cluster

@Suite struct DispatchProgressTests {
    private let first = NodeID(store: 1, incarnation: 1)
    private let last = NodeID(store: 3, incarnation: 1)

    /// What the log is told, as `partition: through`.
    private func told(_ book: inout DispatchProgress, _ parts: [[DispatchProgress.Dispatched]], at now: UInt64 = 0) -> [String] {
        book.done(parts, now: now).map { "\($0.partition): \($0.through)" }
    }

    private func live(
        _ book: inout DispatchProgress, _ nodes: [NodeID], read: [UInt64], done: [NodeID: [UInt64?]] = [:], at now: UInt64 = 0
    ) -> DispatchProgress.Change {
        book.live(Set(nodes), readThrough: read, rereads: 10, now: now) { done[$0]?[$1] }
    }

    @Test func `a node says to be done when it was so the time before, as far as all of its parts are`() {
        var book = DispatchProgress()
        #expect(told(&book, [[(5, 9), (4, 4)], [(7, 8), (9, 2)]]) == [])
        #expect(told(&book, [[(9, 9), (4, 4)], [(8, 8), (9, 2)]]) == ["0: 5", "1: 4"])
        // No further than to what was dispatched at all: others need not hear of what they read themselves.
        #expect(told(&book, [[(30, 9), (4, 4)], [(30, 8), (9, 2)]]) == ["0: 8"])
        #expect(told(&book, [[(30, 9), (4, 4)], [(30, 8), (9, 2)]]) == ["0: 9"])
        #expect(told(&book, [[(40, 9), (4, 4)], [(40, 8), (9, 2)]]) == [])
    }

    @Test func `while something is open it is said again now and then, for those who have come since`() {
        var book = DispatchProgress()
        let open: [[DispatchProgress.Dispatched]] = [[(5, 9)]]
        _ = told(&book, open)
        #expect(told(&book, open, at: 1000) == ["0: 5"])
        #expect(told(&book, open, at: 10_999) == [] && told(&book, open, at: 11_000) == ["0: 5"])
        _ = told(&book, [[(9, 9)]], at: 12_000)
        #expect(told(&book, [[(9, 9)]], at: 13_000) == ["0: 9"] && told(&book, [[(9, 9)]], at: 99_000) == [])
    }

    @Test func `also that it is done with nothing, from the first record on`() {
        var book = DispatchProgress()
        let open: [[DispatchProgress.Dispatched]] = [[(0, 3), (0, 0)]]
        #expect(told(&book, open, at: 20_000) == [] && told(&book, open, at: 21_000) == ["0: 0"])
        #expect(told(&book, open, at: 30_999) == [] && told(&book, open, at: 31_000) == ["0: 0"])
    }

    @Test func `who is left knows from where on the part of the node that is gone is to be dispatched`() {
        var book = DispatchProgress()
        _ = live(&book, [], read: [100, 5])
        #expect(live(&book, [first, last], read: [100, 5]) == .init(come: [first, last]))
        #expect(live(&book, [first, last], read: [110, 6]) == .init())
        // Of one partition the node has said it; of the other one nothing since it came.
        let done = [first: [104, nil] as [UInt64?], last: [50, 50]]
        #expect(live(&book, [last], read: [120, 20], done: done) == .init(gone: [first], known: [first: [104, 0]]))
        #expect(live(&book, [], read: [120, 20], done: [last: [120, 20]]) == .init(gone: [last], known: [last: [120, 20]]))
    }

    @Test func `of one that was there before, that is known when it has said so, or would have`() {
        for (now, done, isKnown) in [(14_999, nil, false), (14_999, 90, true), (15_000, nil, true)] as [(UInt64, UInt64?, Bool)] {
            var book = DispatchProgress()
            _ = live(&book, [first], read: [100])
            let change = live(&book, [], read: [120], done: [first: [done]], at: now)
            #expect(change.gone == [first] && change.known == (isKnown ? [first: [90]] : [:]), "\(now) \(String(describing: done))")
        }
    }

    @Test func `what was read shortly before a node came may have been dispatched to it`() {
        var book = DispatchProgress()
        _ = live(&book, [], read: [100])
        _ = live(&book, [last], read: [200])
        let change = live(&book, [], read: [300])
        #expect(change.known == [last: [190]])
        // It begins anew with its next coming.
        #expect(live(&book, [last], read: [400]) == .init(come: [last]))
        #expect(live(&book, [], read: [401]).known == [last: [390]])
    }
}
