import BrokerModel
import Cluster
import Testing

/// Who dispatches for nodes that are gone: this node is 4, in its first incarnation or a later one.
@Suite struct NodeSuccessorsTests {
    /// What was dispatched to one incarnation, and who dispatches for it.
    struct Part {
        var done: [UInt64]
        var successor: NodeID?
    }

    /// The book, whose answers are expected as they come.
    final class Book {
        private var book: NodeSuccessors

        init(_ incarnation: NodeID) { book = NodeSuccessors(incarnation) }

        var unclaimed: [NodeID] { book.unclaimed }
        var earlierDispatchesDone: [UInt64] { book.earlierDispatchesDone }
        /// What has become the node's to do since they were asked for.
        var duties: [NodeID: [UInt64]] { Dictionary(uniqueKeysWithValues: book.takeDuties().map { ($0.gone, $0.done) }) }
        var earlierDispatches: [NodeID: [UInt64]]? {
            book.takeEarlierDispatches().map { Dictionary(uniqueKeysWithValues: $0.map { ($0.gone, $0.done) }) }
        }

        @discardableResult
        func begin(_ incarnation: NodeID, earlierDispatches: [NodeID: Part]) -> [NodeID: NodeID] {
            let parts = earlierDispatches.map {
                StoredDispatches.Part(
                    incarnation: $0.key.rawValue, done: $0.value.done, successor: $0.value.successor?.rawValue ?? 0)
            }
            return Dictionary(
                uniqueKeysWithValues: book.begin(incarnation, earlierDispatches: parts).map { ($0.gone, $0.successor) })
        }

        @discardableResult
        func said(successorOf gone: NodeID, by successor: NodeID) -> Bool { book.said(successorOf: gone, by: successor) }

        func isThere(_ node: NodeID) { book.isThere(node) }
        func isGone(_ node: NodeID, done: [UInt64]) { book.isGone(node, done: done) }
        func isMine(_ gone: NodeID) -> Bool { book.isMine(gone) }
        func isCut(_ partition: Int, at last: UInt64) { book.isCut(partition, at: last) }
        func endEarlierDispatches() { book.endEarlierDispatches() }
        func passSeconds(_ count: Int) -> [NodeID] { (0..<count).flatMap { _ in book.passSecond() } }
    }

    private let me = NodeID(store: 4, incarnation: 1)
    private let again = NodeID(store: 4, incarnation: 2)
    private let one = NodeID(store: 1, incarnation: 1)
    private let two = NodeID(store: 2, incarnation: 1)
    private let three = NodeID(store: 3, incarnation: 1)

    @Test func `a node dispatches for one that is gone if it has said so first, and is told of that once`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.isGone(two, done: [6])
        #expect(book.unclaimed == [one, two] && book.duties == [:])
        #expect(!book.said(successorOf: one, by: me) && !book.said(successorOf: one, by: three))
        #expect(!book.said(successorOf: two, by: three) && !book.said(successorOf: two, by: me))
        #expect(book.unclaimed == [] && book.duties == [one: [5]] && book.duties == [:])
        #expect(book.isMine(one) && !book.isMine(two) && book.earlierDispatches == nil)
    }

    @Test func `that was said before the node is seen to be gone`() {
        let book = Book(me)
        book.said(successorOf: one, by: me)
        #expect(book.duties == [:])
        book.isGone(one, done: [5])
        #expect(book.unclaimed == [] && book.duties == [one: [5]])
    }

    @Test func `who dispatches for a node dispatches for those that it dispatched for, and they for others`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.said(successorOf: one, by: two)
        book.isGone(two, done: [6])
        book.said(successorOf: two, by: three)
        book.isGone(three, done: [7])
        #expect(book.duties == [:])
        book.said(successorOf: three, by: me)
        #expect(book.duties == [one: [5], two: [6], three: [7]])
    }

    @Test func `a node that is there again dispatches its part itself`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.isThere(one)
        #expect(book.unclaimed == [])
        book.isGone(one, done: [8])
        book.said(successorOf: one, by: me)
        book.isThere(one)
        #expect(book.duties == [:] && !book.isMine(one))
    }

    @Test func `a past is this incarnation's if its last incarnation is, with what that dispatched for others`() {
        for successor in [again, three] {
            let book = Book(me)
            #expect(book.begin(again, earlierDispatches: [one: .init(done: [5], successor: me), me: .init(done: [6])]).isEmpty)
            #expect(book.unclaimed == [me] && book.earlierDispatches == nil && book.earlierDispatchesDone == [5])
            #expect(book.said(successorOf: me, by: successor))
            #expect(book.earlierDispatches == (successor == again ? [one: [5], me: [6]] : [:]) && book.earlierDispatches == nil)
            #expect(book.isMine(one) == (successor == again) && book.duties == [:])
        }
    }

    @Test func `what is another's of a past comes back when that one is gone`() {
        let book = Book(me)
        book.begin(again, earlierDispatches: [one: .init(done: [5], successor: me), me: .init(done: [6])])
        book.said(successorOf: me, by: three)
        _ = book.earlierDispatches
        book.isGone(three, done: [9])
        #expect(!book.said(successorOf: three, by: again))
        #expect(book.duties == [one: [5], me: [6], three: [9]])
    }

    @Test func `what the store knows of a past need not be said again, and what only the log has said it is told`() {
        let book = Book(me)
        let parts: [NodeID: Part] = [
            one: .init(done: [5, 3], successor: me), me: .init(done: [4, 6], successor: two),
        ]
        #expect(book.begin(again, earlierDispatches: parts).isEmpty)
        #expect(book.earlierDispatchesDone == [4, 3] && book.unclaimed == [] && book.earlierDispatches == [:])
        let other = Book(me)
        other.said(successorOf: me, by: two)
        #expect(other.begin(again, earlierDispatches: [me: .init(done: [6])]) == [me: two] && other.earlierDispatches == [:])
    }

    @Test func `an incarnation that was about to dispatch and has ended leaves that to who dispatches for it`() {
        for successor in [again, three] {
            let book = Book(me)
            book.isGone(one, done: [5])
            book.said(successorOf: one, by: me)
            #expect(book.duties == [one: [5]])
            // The shards had not begun: it is not of the past.
            book.begin(again, earlierDispatches: [me: .init(done: [6])])
            #expect(book.duties == [:] && !book.isMine(one))
            book.said(successorOf: me, by: successor)
            #expect(book.duties == (successor == again ? [one: [5]] : [:]))
        }
    }

    @Test func `it is remembered for eleven minutes, from when the last one has begun`() {
        let book = Book(me)
        book.isGone(one, done: [5])
        book.said(successorOf: one, by: two)
        #expect(book.passSeconds(659) == [])
        book.isGone(two, done: [6])
        book.said(successorOf: two, by: three)
        #expect(book.passSeconds(659) == [])
        book.isGone(three, done: [7])
        book.said(successorOf: three, by: me)
        #expect(book.duties == [one: [5], two: [6], three: [7]])
        #expect(book.passSeconds(659) == [])
        #expect(book.passSeconds(1) == [one, two, three] && !book.isMine(one))
    }

    @Test func `nobody is done with what comes behind the end of a log that has lost records`() {
        let book = Book(me)
        book.begin(again, earlierDispatches: [me: .init(done: [6, 6])])
        book.isGone(one, done: [8, 8])
        book.isGone(two, done: [5, 5])
        book.said(successorOf: one, by: again)
        book.isCut(1, at: 7)
        book.said(successorOf: two, by: again)
        #expect(book.duties == [one: [8, 7], two: [5, 5]] && book.earlierDispatchesDone == [6, 6])
        book.isCut(0, at: 4)
        #expect(book.earlierDispatchesDone == [4, 6])
    }

    @Test func `a past that is over has no part in anything`() {
        let book = Book(me)
        book.begin(again, earlierDispatches: [me: .init(done: [6])])
        book.said(successorOf: me, by: again)
        _ = book.earlierDispatches
        book.endEarlierDispatches()
        #expect(book.earlierDispatchesDone == [] && book.unclaimed == [] && book.earlierDispatches == nil && book.isMine(me))
    }
}
