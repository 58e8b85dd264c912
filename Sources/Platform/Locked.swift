/// A value that one thread at a time may touch, for what is shared beside the way of a message.
public final class Locked<Value>: @unchecked Sendable {
    @usableFromInline let lock = Lock()
    @usableFromInline var stored: Value

    @inlinable
    public init(_ value: sending Value) { stored = value }

    /// Gives the value to the body while no other thread has it. Not reentrant.
    @inlinable
    public func withLock<Answer: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        lock.lock()
        defer { lock.unlock() }
        return try body(&stored)
    }
}

extension Locked where Value: Sendable {
    /// The value as it is now.
    @inlinable
    public var value: Value { withLock { $0 } }

    /// Puts another value in place. The end of the old one may take a while: it comes when no lock is held.
    @inlinable
    public func replace(with value: Value) {
        let old = withLock { stored in
            let old = stored
            stored = value
            return old
        }
        withExtendedLifetime(old) {}
    }
}
