internal import Glibc
internal import Platform

/// A store in a file: an SQLite database. What is committed survives a crash of the process and a power cut.
///
/// Beside the file are its log (`-wal`), what its connections share (`-shm`), and a lock (`-lock`).
public final class FileStore: ClientStorage {
    private let worker: StoreWorker

    /// Opens a store, or makes one. Throws `inUse` while another client has it.
    ///
    /// - Parameters:
    ///   - path: of the database.
    ///   - bytesMax: the size that the database may have; beyond it there is no room. Nil for any.
    public init(_ path: String, bytesMax: Int? = nil) throws(StoreError) {
        // Not made by SQLite, which gives it to everybody to read.
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system(path) }
        // Before SQLite has locks on it, which this would end.
        Glibc.close(descriptor)
        let lock = try StoreLock(path)
        let database = try StoreDatabase(path, .change, bytesMax: bytesMax)
        do throws(SystemError) {
            worker = StoreWorker(database, lock, try StoreThread.running())
        } catch {
            throw .failed(path, "starting the thread that writes: \(error)")
        }
    }

    deinit { worker.end(.close, waits: true) }

    public func commit(_ batch: StoreBatch, _ done: @escaping @Sendable (StoreError?) -> Void) { worker.add(.commit(batch, done)) }

    public func read(_ query: StoreQuery, _ done: @escaping @Sendable (Result<StoreRows, StoreError>) -> Void) {
        worker.add(.read(query, done))
    }

    public func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        try worker.withDatabase { database throws(StoreError) in try database.rows(query) }
    }

    public func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure {
        try worker.withDatabase { database throws(StoreError) in try database.measure(query) }
    }

    public func close() { worker.end(.close, waits: true) }

    /// Lets go of the file as a process does that dies: what waits is lost, and nobody is told. For tests.
    public func crash() { worker.end(.crash, waits: true) }
}
