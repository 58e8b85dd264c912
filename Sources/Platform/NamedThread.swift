public import Glibc
internal import Synchronization

/// A thread with a name, for a loop or for work that must not run on one.
public final class NamedThread: @unchecked Sendable {
    private let thread: pthread_t
    private let joined = Atomic<Bool>(false)

    private init(thread: pthread_t) {
        self.thread = thread
    }

    deinit {
        if !joined.load(ordering: .acquiring) { pthread_detach(thread) }
    }

    /// Runs the body on a new thread. Blocked signals are inherited.
    ///
    /// - Parameters:
    ///   - name: what `ps` and `top` show, cut to 15 bytes.
    ///   - isPatient: when all cores are busy, a patient thread that is woken does not push aside the one that runs,
    ///     and finds more to do when its turn comes.
    ///   - body: ends the thread when it returns.
    ///
    /// Throws when the system allows no further thread.
    public static func start(
        name: String, isPatient: Bool = false, body: @escaping @Sendable () -> Void
    ) throws(SystemError) -> NamedThread {
        let work = Unmanaged.passRetained(Work(name: name, isPatient: isPatient, body: body))
        do throws(SystemError) {
            let thread = try SystemCall.startThread(work.toOpaque()) { context in
                guard let context else { return nil }
                Unmanaged<Work>.fromOpaque(context).takeRetainedValue().run()
                return nil
            }
            return NamedThread(thread: thread)
        } catch {
            work.release()
            throw error
        }
    }

    /// Lets the calling thread, and those that it starts from now on, have less of a busy core than the others: a
    /// third, if both want all.
    public static func giveWay() { SystemCall.giveWay(steps: 5) }

    /// Waits until the body has returned. A second call returns at once.
    public func join() {
        if joined.exchange(true, ordering: .acquiringAndReleasing) { return }
        pthread_join(thread, nil)
    }

    /// What the new thread is handed.
    private final class Work: Sendable {
        let name: String
        let isPatient: Bool
        let body: @Sendable () -> Void

        init(name: String, isPatient: Bool, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.isPatient = isPatient
            self.body = body
        }

        func run() {
            SystemCall.nameThread(name)
            if isPatient { SystemCall.scheduleInBatches() }
            body()
        }
    }
}

/// Mutual exclusion with a place to wait in, for threads that have no loop: whoever is inside may wait until another
/// who was inside signals.
///
/// Waiting ends early now and then, so it stands in a loop that asks for the condition itself.
public final class Monitor: Sendable {
    private let lock = Locked(())
    nonisolated(unsafe) private let condition: UnsafeMutablePointer<pthread_cond_t>

    public init() {
        condition = .allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        let number = pthread_cond_init(condition, &attributes)
        precondition(number == 0, "pthread_cond_init: \(number)")
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        condition.deallocate()
    }

    /// Runs the body while no other thread is inside. Not reentrant.
    public func withLock<Answer: ~Copyable, Failure: Error>(
        _ body: () throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        try lock.withLock { _ throws(Failure) in try body() }
    }

    /// Leaves, waits for a signal and enters again. Inside only.
    public func wait() {
        lock.memory.withUnsafeMutablePointerToElements { _ = pthread_cond_wait(condition, $0) }
    }

    /// Waits for a signal, but not for longer than this.
    public func wait(milliseconds: Int) {
        var end = timespec()
        clock_gettime(CLOCK_MONOTONIC, &end)
        let nanoseconds = end.tv_nsec + (milliseconds % 1000) * 1_000_000
        end.tv_sec += milliseconds / 1000 + nanoseconds / 1_000_000_000
        end.tv_nsec = nanoseconds % 1_000_000_000
        lock.memory.withUnsafeMutablePointerToElements { _ = pthread_cond_timedwait(condition, $0, &end) }
    }

    /// Wakes every thread that waits.
    public func signal() {
        pthread_cond_broadcast(condition)
    }
}

/// A value that one thread at a time may touch, for what is shared beside the way of a message. Copies share the value.
///
/// By a pthread mutex and not `Synchronization.Mutex`: the thread sanitizer does not see that one and reports races in
/// correct code.
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
