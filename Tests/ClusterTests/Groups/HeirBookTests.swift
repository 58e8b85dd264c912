import Cluster
import Testing

/// Who deals for nodes that are gone: this node is 4, in its first incarnation or a later one.
@Suite struct HeirBookTests {
    /// The book, whose answers are expected as they come.
    final class Book {
        private var book: HeirBook

        init(_ incarnation: NodeID) { book = HeirBook(incarnation) }

        var unclaimed: [NodeID] { book.unclaimed }
        var pastDone: [UInt64] { book.pastDone }
        /// What has become the node's to do since they were asked for.
        var duties: [NodeID: [UInt64]] { Dictionary(uniqueKeysWithValues: book.takeDuties().map { ($0.gone, $0.done) }) }
        var past: [NodeID: [UInt64]]? {
            book.takePast().map { Dictionary(uniqueKeysWithValues: $0.map { ($0.gone, $0.done) }) }
        }

        @discardableResult
        func begin(_ incarnation: NodeID, past: [NodeID: HeirBook.Part]) -> [NodeID: NodeID] {
            Dictionary(uniqueKeysWithValues: book.begin(incarnation, past: past).map { ($0.gone, $0.heir) })
        }

        @discardableResult
        func said(heirOf gone: NodeID, by heir: NodeID) -> Bool { book.said(heirOf: gone, by: heir) }

        func isThere(_ node: NodeID) { book.isThere(node) }
        func isGone(_ node: NodeID, done: [UInt64]) { book.isGone(node, done: done) }
        func isMine(_ gone: NodeID) -> Bool { book.isMine(gone) }
        func isCut(_ partition: Int, at last: UInt64) { book.isCut(partition, at: last) }
        func endPast() { book.endPast() }
        func passSeconds(_ count: Int) -> [NodeID] { (0..<count).flatMap { _ in book.passSecond() } }
    }

    private let me = NodeID(store: 4, incarnation: 1)
    private let again = NodeID(store: 4, incarnation: 2)
    private let one = NodeID(store: 1, incarnation: 1)
    private let two = NodeID(store: 2, incarnation: 1)
    private let three = NodeID(store: 3, incarnation: 1)

    @Test func `a node deals for one that is gone if it has said so first, and is told of that once`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.isGone(two, done: [6])
        #expect(book.unclaimed == [one, two] && book.duties == [:])
        #expect(!book.said(heirOf: one, by: me) && !book.said(heirOf: one, by: three))
        #expect(!book.said(heirOf: two, by: three) && !book.said(heirOf: two, by: me))
        #expect(book.unclaimed == [] && book.duties == [one: [5]] && book.duties == [:])
        #expect(book.isMine(one) && !book.isMine(two) && book.past == nil)
    }

    @Test func `that was said before the node is seen to be gone`() {
        let book = Book(me)
        book.said(heirOf: one, by: me)
        #expect(book.duties == [:])
        book.isGone(one, done: [5])
        #expect(book.unclaimed == [] && book.duties == [one: [5]])
    }

    @Test func `who deals for a node deals for those that it dealt for, and they for others`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.said(heirOf: one, by: two)
        book.isGone(two, done: [6])
        book.said(heirOf: two, by: three)
        book.isGone(three, done: [7])
        #expect(book.duties == [:])
        book.said(heirOf: three, by: me)
        #expect(book.duties == [one: [5], two: [6], three: [7]])
    }

    @Test func `a node that is there again deals its part itself`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.isThere(one)
        #expect(book.unclaimed == [])
        book.isGone(one, done: [8])
        book.said(heirOf: one, by: me)
        book.isThere(one)
        #expect(book.duties == [:] && !book.isMine(one))
    }

    @Test func `a past is this incarnation's if its last incarnation is, with what that dealt for others`() {
        for heir in [again, three] {
            let book = Book(me)
            #expect(book.begin(again, past: [one: .init(done: [5], heir: me), me: .init(done: [6])]).isEmpty)
            #expect(book.unclaimed == [me] && book.past == nil && book.pastDone == [5])
            #expect(book.said(heirOf: me, by: heir))
            #expect(book.past == (heir == again ? [one: [5], me: [6]] : [:]) && book.past == nil)
            #expect(book.isMine(one) == (heir == again) && book.duties == [:])
        }
    }

    @Test func `what is another's of a past comes back when that one is gone`() {
        let book = Book(me)
        book.begin(again, past: [one: .init(done: [5], heir: me), me: .init(done: [6])])
        book.said(heirOf: me, by: three)
        _ = book.past
        book.isGone(three, done: [9])
        #expect(!book.said(heirOf: three, by: again))
        #expect(book.duties == [one: [5], me: [6], three: [9]])
    }

    @Test func `what the store knows of a past need not be said again, and what only the log has said it is told`() {
        let book = Book(me)
        let parts: [NodeID: HeirBook.Part] = [one: .init(done: [5, 3], heir: me), me: .init(done: [4, 6], heir: two)]
        #expect(book.begin(again, past: parts).isEmpty)
        #expect(book.pastDone == [4, 3] && book.unclaimed == [] && book.past == [:])
        let other = Book(me)
        other.said(heirOf: me, by: two)
        #expect(other.begin(again, past: [me: .init(done: [6])]) == [me: two] && other.past == [:])
    }

    @Test func `an incarnation that was about to deal and has ended leaves that to who deals for it`() {
        for heir in [again, three] {
            let book = Book(me)
            book.isGone(one, done: [5])
            book.said(heirOf: one, by: me)
            #expect(book.duties == [one: [5]])
            // The shards had not begun: it is not of the past.
            book.begin(again, past: [me: .init(done: [6])])
            #expect(book.duties == [:] && !book.isMine(one))
            book.said(heirOf: me, by: heir)
            #expect(book.duties == (heir == again ? [one: [5]] : [:]))
        }
    }

    @Test func `it is remembered for eleven minutes, from when the last one has begun`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.said(heirOf: one, by: two)
        #expect(book.passSeconds(659) == [])
        book.isGone(two, done: [6])
        book.said(heirOf: two, by: three)
        #expect(book.passSeconds(659) == [])
        book.isGone(three, done: [7])
        book.said(heirOf: three, by: me)
        #expect(book.duties == [one: [5], two: [6], three: [7]])
        #expect(book.passSeconds(659) == [])
        #expect(book.passSeconds(1) == [one, two, three] && !book.isMine(one))
    }

    @Test func `nobody is done with what comes behind the end of a log that has lost records`() {
        let book = Book(me)
        book.begin(again, past: [me: .init(done: [6, 6])])
        book.isGone(one, done: [8, 8])
        book.isGone(two, done: [5, 5])
        book.said(heirOf: one, by: again)
        book.isCut(1, at: 7)
        book.said(heirOf: two, by: again)
        #expect(book.duties == [one: [8, 7], two: [5, 5]] && book.pastDone == [6, 6])
        book.isCut(0, at: 4)
        #expect(book.pastDone == [4, 6])
    }

    @Test func `a past that is over has no part in anything`() {
        let book = Book(me)
        book.begin(again, past: [me: .init(done: [6])])
        book.said(heirOf: me, by: again)
        _ = book.past
        book.endPast()
        #expect(book.pastDone == [] && book.unclaimed == [] && book.past == nil && book.isMine(me))
    }
}
