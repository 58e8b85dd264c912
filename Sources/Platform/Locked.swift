public import Glibc

/// A value that one thread at a time may touch, for what is shared beside the way of a message. Copies share the value.
///
/// By a pthread mutex and not `Synchronization.Mutex`: the thread sanitizer does not see that one and reports races in correct code.
public struct Locked<Value>: @unchecked Sendable {
    // Unchecked: whoever holds the mutex alone touches the value. Both lie in one piece of memory, which does not move.
    @usableFromInline let memory: ManagedBuffer<Value, pthread_mutex_t>

    @inlinable
    public init(_ value: sending Value) {
        memory = LockedMemory<Value>.create(minimumCapacity: 1) { memory in
            memory.withUnsafeMutablePointerToElements { mutex in
                mutex.initialize(to: pthread_mutex_t())
                let number = pthread_mutex_init(mutex, nil)
                precondition(number == 0, "pthread_mutex_init: \(number)")
            }
            return value
        }
    }

    /// Gives the value to the body while no other thread has it. Not reentrant.
    @inlinable
    public func withLock<Answer: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        try memory.withUnsafeMutablePointers { value, mutex throws(Failure) in
            pthread_mutex_lock(mutex)
            defer { pthread_mutex_unlock(mutex) }
            return try body(&value.pointee)
        }
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

/// A value, and the mutex that guards it.
@usableFromInline
final class LockedMemory<Value>: ManagedBuffer<Value, pthread_mutex_t> {
    deinit {
        withUnsafeMutablePointerToElements { _ = pthread_mutex_destroy($0) }
    }
}
