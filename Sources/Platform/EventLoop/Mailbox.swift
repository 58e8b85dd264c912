public import Synchronization

/// Messages from any thread to one reader: first in, first out for each sender.
///
/// A stack that senders push without a lock, and that the reader takes whole and turns over. Since nobody ever takes a
/// single message, a node is never reused under a sender's eyes (no ABA).
///
/// ```
///   newest ──► 3 ──► 2 ──► 1        drain: newest = nil, reverse, 1 2 3
/// ```
/// The sender that finds the box empty wakes the reader, once for the whole batch. It is not bounded by itself: a
/// message is a batch, and whoever fills batches bounds them.
///
/// Inlinable, so that the node's type is known where the message's is: looking it up at run time costs more than the
/// post.
public final class Mailbox<Message: Sendable>: @unchecked Sendable {
    @usableFromInline
    struct Node {
        @usableFromInline let message: Message
        @usableFromInline var next: UnsafeMutablePointer<Node>?

        @inlinable
        init(_ message: Message, next: UnsafeMutablePointer<Node>?) { (self.message, self.next) = (message, next) }
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

    /// Puts a message in. For any thread.
    @inlinable
    public func post(_ message: Message) {
        let node = UnsafeMutablePointer<Node>.allocate(capacity: 1)
        var head = newest.load(ordering: .relaxed)
        node.initialize(to: Node(message, next: head))
        while true {
            let (exchanged, found) = newest.weakCompareExchange(
                expected: head, desired: node, ordering: .sequentiallyConsistent)
            if exchanged { break }
            head = found
            node.pointee.next = found
        }
        if head == nil { wake() }
    }

    /// Gives every message that is there now to `body`, in order. For the reader; messages that `body` posts wait for
    /// the next drain.
    @inlinable
    public func drain(_ body: (Message) -> Void) {
        if isEmpty { return }
        var rest = Self.reversed(newest.exchange(nil, ordering: .sequentiallyConsistent))
        while let node = rest {
            let opened = node.move()
            node.deallocate()
            rest = opened.next
            body(opened.message)
        }
    }

    /// Whether no message is there. For the reader; from elsewhere it may be outdated when it returns.
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
