internal import Glibc
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
    ///   - isPatient: when all cores are busy, a patient thread that is woken does not push aside the one that runs, and finds more to do when
    ///     its turn comes.
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

    /// Lets the calling thread, and those that it starts from now on, have less of a busy core than the others: a third, if both want all.
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
