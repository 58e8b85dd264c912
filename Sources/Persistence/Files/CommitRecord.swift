internal import BrokerModel
internal import Glibc
internal import RowStore

/// The small file beside the database that says how far the store has come, written after each commit's sync has
/// returned, and synced itself only before the log is moved into the database. SQLite drops a log that is damaged or
/// cut short without a word; a database that is behind its commit record tells of it.
///
/// Two slots take turns, so that a write that a power cut tears leaves the one before. A lock on the file keeps other
/// brokers out.
final class CommitRecord: @unchecked Sendable {
    enum Contents: Equatable {
        /// Nothing was ever written.
        case empty
        case damaged
        /// The later of two slots, or the one that is left.
        case slot(CommitRecordSlot)
    }

    private let file: LockFile
    private var descriptor: Int32 { file.descriptor }

    /// Opens and locks the commit record; makes an empty one if there is none.
    init(_ path: String) throws(StoreError) {
        do throws(LockFile.Failure) {
            file = try LockFile(path)
        } catch {
            switch error {
            case .isLocked: throw .inUse(path: path)
            case .opening(let number): throw DiskFile.failure("opening \(path)", number)
            case .locking(let number): throw DiskFile.failure("locking \(path)", number)
            }
        }
    }

    /// Lets other brokers in; not to be written to from then on.
    func unlock() { file.unlock() }

    func read() throws(StoreError) -> Contents { try Self.read(descriptor) }

    /// Reads a commit record that another process may be writing to; nil if there is none.
    static func read(_ path: String) throws(StoreError) -> Contents? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0, errno == ENOENT { return nil }
        guard descriptor >= 0 else { throw DiskFile.failure("opening \(path)") }
        defer { close(descriptor) }
        return try read(descriptor)
    }

    /// Says that a commit is on the disk; false if that cannot be said.
    func write(_ slot: CommitRecordSlot) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: CommitRecordSlot.size, alignment: 8) { bytes in
            guard let start = bytes.baseAddress else { return false }
            slot.write(to: start)
            let offset = off_t(slot.commitNumber % 2) * off_t(CommitRecordSlot.size)
            return pwrite(descriptor, start, bytes.count, offset) == bytes.count
        }
    }

    /// Makes what it says last, as far as the disk lets it. Before the log is moved: as long as the log has the
    /// commits, its checksums, which go on from one frame to the next, show what is missing; then only the commit
    /// record and the state do.
    func synchronize() { fdatasync(descriptor) }

    /// Begins anew and makes that last.
    func reset(_ slot: CommitRecordSlot) throws(StoreError) {
        let older = CommitRecordSlot(seed: slot.seed, commitNumber: slot.commitNumber == 0 ? 1 : slot.commitNumber - 1)
        guard ftruncate(descriptor, 0) == 0, write(slot), slot.commitNumber == 0 || write(older), fsync(descriptor) == 0 else {
            throw DiskFile.failure("writing the store's commit record")
        }
    }

    private static func read(_ descriptor: Int32) throws(StoreError) -> Contents {
        try withUnsafeTemporaryAllocation(byteCount: 2 * CommitRecordSlot.size + 1, alignment: 8) { bytes throws(StoreError) in
            let count = pread(descriptor, bytes.baseAddress, bytes.count, 0)
            guard count >= 0 else { throw DiskFile.failure("reading the store's commit record") }
            if count == 0 { return .empty }
            let slots = [0, CommitRecordSlot.size].compactMap { offset in
                CommitRecordSlot(
                    UnsafeRawBufferPointer(rebasing: bytes[min(offset, count)..<min(offset + CommitRecordSlot.size, count)]))
            }
            guard count <= 2 * CommitRecordSlot.size, let latest = slots.max(by: { $0.commitNumber < $1.commitNumber }) else {
                return .damaged
            }
            return .slot(latest)
        }
    }
}

/// What a commit record says: which store it belongs to, and up to which commit this one has synced.
///
///     magic 8 | seed 8 | commit number 8 | zero 32 | checksum of all that 8
struct CommitRecordSlot: Equatable, Sendable {
    let seed: UInt64
    let commitNumber: UInt64

    static let size = 64
    private static let magic: UInt64 = 0x6b72_614d_746c_724d

    init(seed: UInt64, commitNumber: UInt64) {
        self.seed = seed
        self.commitNumber = commitNumber
    }

    /// Nil if the bytes are not a slot, or not all of one.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == Self.size, let start = bytes.baseAddress else { return nil }
        func read(_ offset: Int) -> UInt64 { UInt64(littleEndian: start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
        guard read(0) == Self.magic, read(Self.size - 8) == Self.checksum(start) else { return nil }
        seed = read(8)
        commitNumber = read(16)
    }

    /// `target` has room for `size` bytes.
    func write(to target: UnsafeMutableRawPointer) {
        target.initializeMemory(as: UInt8.self, repeating: 0, count: Self.size)
        for (index, value) in [Self.magic, seed, commitNumber].enumerated() {
            target.storeBytes(of: value.littleEndian, toByteOffset: 8 * index, as: UInt64.self)
        }
        target.storeBytes(of: Self.checksum(target).littleEndian, toByteOffset: Self.size - 8, as: UInt64.self)
    }

    /// Of a slot that begins there.
    private static func checksum(_ slot: UnsafeRawPointer) -> UInt64 {
        RowChecksum.hash(UnsafeRawBufferPointer(start: slot, count: size - 8), seed: magic)
    }
}

/// Makes a new store beside the place of the old one, which it takes when it is whole: a crash on the way leaves
/// nothing half done.
struct StoreDraft {
    let files: StoreFiles
    let identity: StoreIdentity
    /// Of the commit that makes the tables.
    let commitNumber: UInt64

    /// Writes the file; `fill` adds the rows. Gives back the number of the last commit.
    func write(_ fill: (StoreTransaction) throws(SQLiteError) -> Void = { _ in }) throws(StoreError) -> UInt64 {
        try removeRest(of: files.draft)
        try DiskFile.create(files.draft)
        let commit: UInt64
        do throws(SQLiteError) {
            commit = try writeRows(fill)
        } catch {
            throw .sqlite(error)
        }
        // Empty, since all of the log was moved.
        for rest in [files.draft + "-wal", files.draft + "-shm"] { try DiskFile.remove(rest) }
        try DiskFile.synchronize(files.draft)
        return commit
    }

    /// Puts the file in the store's place. The old log goes first: SQLite would take it for the new database's.
    func install(_ commitRecord: CommitRecord, commit: UInt64) throws(StoreError) {
        try commitRecord.reset(CommitRecordSlot(seed: identity.seed, commitNumber: commit))
        for rest in [files.log, files.sharedMemory] { try DiskFile.remove(rest) }
        try DiskFile.synchronize(files.directory)
        try DiskFile.rename(files.draft, to: files.database)
        try DiskFile.synchronize(files.directory)
    }

    private func writeRows(_ fill: (StoreTransaction) throws(SQLiteError) -> Void) throws(SQLiteError) -> UInt64 {
        let connection = try SQLiteConnection(files.draft, .write)
        try RowSchema.prepare(connection)
        try RowSchema.configure(connection)
        try connection.execute("BEGIN")
        try RowSchema.broker.create(in: connection)
        var state = StoreState()
        state.commitNumber = commitNumber
        let meta = try MetaTable(connection)
        try meta.insert(.state, state.encoded())
        try meta.insert(.identity, identity.encoded())
        try connection.execute("COMMIT")
        let transaction = try StoreTransaction(connection, state: state)
        try fill(transaction)
        _ = try connection.checkpoint(.truncate)
        return transaction.state.commitNumber
    }

    private func removeRest(of path: String) throws(StoreError) {
        for rest in [path, path + "-wal", path + "-shm", path + "-journal"] { try DiskFile.remove(rest) }
    }
}

/// A copy of a store that a broker may be working with, as its last commit left it.
struct StoreCopy {
    let source: StoreFiles
    let target: StoreFiles

    /// Makes the copy and checks it.
    func make() throws(StoreError) -> StoreSummary {
        guard (DiskFile.size(source.database) ?? 0) > 0 else { throw .absent(path: source.database) }
        // Read first, so that it is not ahead of what is copied.
        let contents = try CommitRecord.read(source.commitRecord) ?? .empty
        try DiskFile.createDirectory(target.directory)
        let commitRecord = try CommitRecord(target.commitRecord)
        for path in [target.database, target.log] where DiskFile.size(path) != nil { throw .exists(path: path) }
        try DiskFile.create(target.draft)
        do throws(SQLiteError) {
            try copyPages()
        } catch {
            throw .sqlite(error)
        }
        try DiskFile.synchronize(target.draft)
        try DiskFile.rename(target.draft, to: target.database)
        let summary = try check(contents, commitRecord)
        // Empty: they were made for the check.
        for rest in [target.log, target.sharedMemory] { try DiskFile.remove(rest) }
        try DiskFile.synchronize(target.directory)
        guard summary.damages.isEmpty else { throw .damaged(path: target.database, summary.damages) }
        return summary
    }

    /// Looks at the copy as if the source's commit record were its own, then gives it a commit record.
    private func check(_ contents: CommitRecord.Contents, _ commitRecord: CommitRecord) throws(StoreError) -> StoreSummary {
        let inspection = try StoreInspection(target, .read, commitRecord: contents)
        defer { inspection.end() }
        if let identity = inspection.identity, let state = inspection.state {
            try commitRecord.reset(CommitRecordSlot(seed: identity.seed, commitNumber: state.commitNumber))
        }
        return StoreSummary(inspection) { _, _, _ in true }
    }

    private func copyPages() throws(SQLiteError) {
        try SQLiteConnection(source.database, .read).copyPages(to: try SQLiteConnection(target.draft, .write))
    }
}

/// The paths of a store's files.
struct StoreFiles: Sendable {
    let directory: String
    /// Of the database.
    let name: String

    init(directory: String, name: String = SQLiteStore.defaultName) {
        self.directory = directory
        self.name = name
    }

    /// A directory may be named with the slash that the names in it follow.
    var database: String { directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)" }
    /// SQLite's write-ahead log: commits that are not in the database yet.
    var log: String { database + "-wal" }
    /// What SQLite's connections share; it means nothing once they are closed.
    var sharedMemory: String { database + "-shm" }
    var commitRecord: String { database + "-mark" }
    /// A database that is being made, and takes its place when it is whole.
    var draft: String { database + "-new" }

    /// Where damaged files are kept.
    func aside(_ time: String) -> String { "\(database).damaged-\(time)" }
}

/// The calls of the kernel on files by path.
enum DiskFile {
    /// Nil if there is none.
    static func size(_ path: String) -> Int64? {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : nil
    }

    static func isWritable(_ path: String) -> Bool { access(path, W_OK) == 0 }

    /// Makes an empty file, its owner's alone.
    static func create(_ path: String) throws(StoreError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw failure("making \(path)") }
        close(descriptor)
    }

    /// Makes a directory, its owner's alone, if there is none.
    static func createDirectory(_ path: String) throws(StoreError) {
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw failure("making \(path)") }
    }

    /// Removes a file if it is there.
    static func remove(_ path: String) throws(StoreError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw failure("removing \(path)") }
    }

    static func rename(_ path: String, to target: String) throws(StoreError) {
        guard Glibc.rename(path, target) == 0 else { throw failure("renaming \(path)") }
    }

    /// Makes a file, or a directory's names, last.
    static func synchronize(_ path: String) throws(StoreError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("opening \(path)") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("synchronizing \(path)") }
    }

    /// Copies a file and makes the copy last.
    static func copy(_ path: String, to target: String) throws(StoreError) {
        let source = open(path, O_RDONLY | O_CLOEXEC)
        guard source >= 0 else { throw failure("opening \(path)") }
        defer { close(source) }
        let copy = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard copy >= 0 else { throw failure("making \(target)") }
        defer { close(copy) }
        var count = 0
        repeat {
            count = sendfile(copy, source, nil, Limits.bytesCopiedAtOnce)
            if count < 0, errno != EINTR { throw failure("copying \(path) to \(target)") }
        } while count != 0
        guard fsync(copy) == 0 else { throw failure("synchronizing \(target)") }
    }

    /// Gives files that root has made in another user's directory to that user, as whom the broker runs.
    static func giveToOwner(of directory: String, _ paths: [String]) throws(StoreError) {
        var status = stat()
        guard geteuid() == 0, stat(directory, &status) == 0, status.st_uid != 0 else { return }
        for path in paths where size(path) != nil {
            // Not what that user may have linked it to.
            let file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
            guard file >= 0 else { throw failure("giving \(path) to its directory's owner") }
            defer { close(file) }
            guard fchown(file, status.st_uid, status.st_gid) == 0 else { throw failure("giving \(path) to its directory's owner") }
        }
    }

    /// The time of day as a part of a file's name: `20260131T235959Z`.
    static func timestamp() -> String {
        var now = time(nil)
        var parts = tm()
        gmtime_r(&now, &parts)
        func digits(_ value: Int32, _ count: Int) -> String {
            let text = String(value)
            return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
        }
        let date = digits(parts.tm_year + 1900, 4) + digits(parts.tm_mon + 1, 2) + digits(parts.tm_mday, 2)
        return "\(date)T\(digits(parts.tm_hour, 2))\(digits(parts.tm_min, 2))\(digits(parts.tm_sec, 2))Z"
    }

    /// Milliseconds since 1970.
    static func now() -> UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return UInt64(now.tv_sec) * 1000 + UInt64(now.tv_nsec) / 1_000_000
    }

    /// The last call's failure, or that of a given number.
    static func failure(_ operation: String, _ number: Int32 = errno) -> StoreError {
        .system(operation, reason: strerror(number).map { String(cString: $0) } ?? "error \(number)")
    }
}

/// Zeros behind SQLite's write-ahead log, for small commits to overwrite: the sync of a file that grows waits for the
/// file system's journal as well, and takes twice as long (240 µs against 130 on ext4).
///
/// To SQLite they are nothing: its log ends at the first frame that is not of the present round. Used by the thread
/// that commits.
struct LogReserve {
    private let path: String
    /// How far the file is known to reach, in bytes.
    private var end: Int64 = 0
    private var lastPages = 0
    private var isRefused = false

    init(_ path: String) { self.path = path }

    /// Makes room for the commits to come, when the one that made the log `pages` long was small.
    mutating func committed(pages: Int) {
        defer { lastPages = pages }
        guard !isRefused, pages > lastPages, pages - lastPages <= Self.smallCommitPages else { return }
        let needed = Self.offset(ofPage: pages + Self.smallCommitPages)
        if needed > end { grow(to: Self.offset(ofPage: pages + Limits.reservedPages)) }
    }

    /// The log may have been cut short.
    mutating func forget() { end = 0 }

    private mutating func grow(to wanted: Int64) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let size = Int64(lseek(descriptor, 0, SEEK_END))
        guard size > 0 else { return }
        end = max(size, wanted)
        guard wanted > size else { return }
        let zeros = [UInt8](repeating: 0, count: Int(wanted - size))
        if pwrite(descriptor, zeros, zeros.count, off_t(size)) == zeros.count { return }
        // Room is short: what there is belongs to commits.
        isRefused = true
        ftruncate(descriptor, off_t(size))
    }

    private static func offset(ofPage page: Int) -> Int64 { Int64(LogFrame.headerSize + page * LogFrame.size) }

    private static let smallCommitPages = 16
}

extension Limits {
    /// Pages by which the log's file grows ahead.
    static let reservedPages = 256

    /// Bytes of a file copied with one call.
    static let bytesCopiedAtOnce = 1 << 24
}
