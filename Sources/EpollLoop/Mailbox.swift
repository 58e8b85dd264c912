public import Synchronization

/// Letters from any thread to one reader: first in, first out for each sender.
///
/// A stack that senders push without a lock, and that the reader takes whole and turns over. Since nobody ever takes a single
/// letter, a node is never reused under a sender's eyes (no ABA).
///
/// ```
///   newest ──► 3 ──► 2 ──► 1        drain: newest = nil, reverse, 1 2 3
/// ```
/// The sender that finds the box empty wakes the reader, once for the whole batch. It is not bounded by itself: a letter is a
/// batch, and whoever fills batches bounds them.
///
/// Inlinable, so that the node's type is known where the letter's is: looking it up at run time costs more than the post.
public final class Mailbox<Letter: Sendable>: @unchecked Sendable {
    @usableFromInline
    struct Node {
        @usableFromInline let letter: Letter
        @usableFromInline var next: UnsafeMutablePointer<Node>?

        @inlinable
        init(_ letter: Letter, next: UnsafeMutablePointer<Node>?) { (self.letter, self.next) = (letter, next) }
    }

    @usableFromInline let newest = Atomic<UnsafeMutablePointer<Node>?>(nil)
    @usableFromInline let wake: @Sendable () -> Void

    /// A box whose reader is woken by `wake`, which is called on the sender's thread and must not lose a call.
    @inlinable
    public init(wake: @escaping @Sendable () -> Void) {
        self.wake = wake
    }

    /// A box that a loop's turn drains.
    @inlinable
    public convenience init(loop: EventLoop) {
        self.init { loop.wake() }
    }

    deinit {
        drain { _ in }
    }

    /// Puts a letter in. For any thread.
    @inlinable
    public func post(_ letter: Letter) {
        let node = UnsafeMutablePointer<Node>.allocate(capacity: 1)
        var head = newest.load(ordering: .relaxed)
        node.initialize(to: Node(letter, next: head))
        while true {
            let (exchanged, found) = newest.weakCompareExchange(
                expected: head, desired: node, ordering: .sequentiallyConsistent)
            if exchanged { break }
            head = found
            node.pointee.next = found
        }
        if head == nil { wake() }
    }

    /// Gives every letter that is there now to `body`, in order. For the reader; letters that `body` posts wait for the next drain.
    @inlinable
    public func drain(_ body: (Letter) -> Void) {
        if isEmpty { return }
        var rest = Self.reversed(newest.exchange(nil, ordering: .sequentiallyConsistent))
        while let node = rest {
            let opened = node.move()
            node.deallocate()
            rest = opened.next
            body(opened.letter)
        }
    }

    /// Whether no letter is there. For the reader; from elsewhere it may be outdated when it returns.
    @inlinable
    public var isEmpty: Bool {
        newest.load(ordering: .sequentiallyConsistent) == nil
    }

    @inlinable
    static func reversed(_ newest: UnsafeMutablePointer<Node>?) -> UnsafeMutablePointer<Node>? {
        var oldest: UnsafeMutablePointer<Node>?
        var rest = newest
        while let node = rest {
            rest = node.pointee.next
            node.pointee.next = oldest
            oldest = node
        }
        return oldest
    }
}
