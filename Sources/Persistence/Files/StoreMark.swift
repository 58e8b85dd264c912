internal import Glibc

/// The small file beside the database that says how far the store has come, written after each commit's sync has returned, and synced
/// itself only before the log is moved into the database. SQLite drops a log that is damaged or cut short without a word; a database that
/// is behind its mark tells of it.
///
/// Two slots take turns, so that a write that a power cut tears leaves the one before. A lock on the file keeps other brokers out.
final class StoreMark: @unchecked Sendable {
    enum Contents: Equatable {
        /// Nothing was ever written.
        case empty
        case damaged
        /// The later of two slots, or the one that is left.
        case slot(MarkSlot)
    }

    private let descriptor: Int32

    /// Opens and locks the mark; makes an empty one if there is none.
    convenience init(_ path: String) throws(StoreError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw DiskFile.failure("opening \(path)") }
        self.init(owning: descriptor)
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            if errno == EINTR { continue }
            throw errno == EWOULDBLOCK ? .inUse(path: path) : DiskFile.failure("locking \(path)")
        }
    }

    private init(owning descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Lets other brokers in; not to be written to from then on.
    func unlock() { flock(descriptor, LOCK_UN) }

    func read() throws(StoreError) -> Contents { try Self.read(descriptor) }

    /// Reads a mark that another process may be writing to; nil if there is none.
    static func read(_ path: String) throws(StoreError) -> Contents? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0, errno == ENOENT { return nil }
        guard descriptor >= 0 else { throw DiskFile.failure("opening \(path)") }
        defer { close(descriptor) }
        return try read(descriptor)
    }

    /// Says that a commit is on the disk; false if that cannot be said.
    func write(_ slot: MarkSlot) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: MarkSlot.size, alignment: 8) { bytes in
            guard let start = bytes.baseAddress else { return false }
            slot.write(to: start)
            let offset = off_t(slot.commitNumber % 2) * off_t(MarkSlot.size)
            return pwrite(descriptor, start, bytes.count, offset) == bytes.count
        }
    }

    /// Makes what it says last, as far as the disk lets it. Before the log is moved: as long as the log has the commits, its checksums,
    /// which go on from one frame to the next, show what is missing; then only the mark and the state do.
    func synchronize() { fdatasync(descriptor) }

    /// Begins anew and makes that last.
    func reset(_ slot: MarkSlot) throws(StoreError) {
        let older = MarkSlot(seed: slot.seed, commitNumber: slot.commitNumber == 0 ? 1 : slot.commitNumber - 1)
        guard ftruncate(descriptor, 0) == 0, write(slot), slot.commitNumber == 0 || write(older), fsync(descriptor) == 0 else {
            throw DiskFile.failure("writing the store's mark")
        }
    }

    private static func read(_ descriptor: Int32) throws(StoreError) -> Contents {
        try withUnsafeTemporaryAllocation(byteCount: 2 * MarkSlot.size + 1, alignment: 8) { bytes throws(StoreError) in
            let count = pread(descriptor, bytes.baseAddress, bytes.count, 0)
            guard count >= 0 else { throw DiskFile.failure("reading the store's mark") }
            if count == 0 { return .empty }
            let slots = [0, MarkSlot.size].compactMap { offset in
                MarkSlot(UnsafeRawBufferPointer(rebasing: bytes[min(offset, count)..<min(offset + MarkSlot.size, count)]))
            }
            guard count <= 2 * MarkSlot.size, let latest = slots.max(by: { $0.commitNumber < $1.commitNumber }) else {
                return .damaged
            }
            return .slot(latest)
        }
    }
}
