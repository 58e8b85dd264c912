internal import Glibc
internal import Platform

/// Keeps the jobs of a simulation's tasks until the simulation runs them, one at a time, in an order that its seed decides.
final class SimulationExecutor: TaskExecutor, Sendable {
    private let jobs = Locked<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job)) }

    func enqueue(_ job: UnownedJob) { jobs.withLock { $0.append(job) } }

    var hasJob: Bool { jobs.withLock { !$0.isEmpty } }

    /// Runs one job until it suspends. Returns whether there was any.
    func runOne(chance: UInt64) -> Bool {
        // Any order of jobs is one that a machine with many cores might choose.
        let job = jobs.withLock { $0.isEmpty ? nil : $0.remove(at: Int(chance % UInt64($0.count))) }
        job?.runSynchronously(on: asUnownedTaskExecutor())
        return job != nil
    }
}

/// Tasks that are begun without an executor, by code that knows nothing of the simulation, and actors would run on the threads of the
/// process, in an order that nobody can repeat. What is begun or woken on a simulation's thread is led to its executor by a hook that the
/// concurrency library has for such purposes. Where the library is linked statically the hook is not found; then only tasks with the executor
/// are the simulation's, among them its body and all child tasks.
enum TaskCapture {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        SystemCall.certain("pthread_key_create") { pthread_key_create(&key, nil) }
        return key
    }()

    /// Sets the hook, once in a process.
    private static let isInstalled: Bool = {
        guard let address = dlsym(nil, "swift_task_enqueueGlobal_hook") else { return false }
        address.assumingMemoryBound(to: Hook.self).pointee = { job, original in
            guard let executor = TaskCapture.current else { return original(job) }
            executor.enqueue(job)
        }
        return true
    }()

    private static var current: SimulationExecutor? {
        pthread_getspecific(key).map { Unmanaged<SimulationExecutor>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Runs the body; tasks that are begun or woken by it, on this thread, are the executor's.
    static func capture<Answer>(by executor: SimulationExecutor, _ body: () -> Answer) -> Answer {
        _ = isInstalled
        pthread_setspecific(key, Unmanaged.passUnretained(executor).toOpaque())
        defer { pthread_setspecific(key, nil) }
        return body()
    }
}
