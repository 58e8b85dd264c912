public import BrokerModel
internal import Glibc
internal import Platform
public import RowStore

/// What comes before a store is opened: a new one is made if there is none, a damaged one is repaired if that is asked
/// for.
struct StoreRecovery {
    let files: StoreFiles
    let commitRecord: CommitRecord
    let options: StoreOptions
    let log: SQLiteStore.Log

    /// Gives back what a repair could not save.
    func run() throws(StoreError) -> [StoreDamage] {
        let contents = try commitRecord.read()
        if (DiskFile.size(files.database) ?? 0) == 0 {
            let damages = damagesWithoutDatabase(contents)
            if damages.isEmpty {
                try create()
                return []
            }
            guard options.repair else { throw .damaged(path: files.database, damages) }
        }
        guard options.repair else { return [] }
        return try StoreSalvage(files: files, commitRecord: commitRecord, contents: contents, log: log).run()
    }

    /// A commit record without a commit is what is left when the making of a store was cut off.
    private func damagesWithoutDatabase(_ contents: CommitRecord.Contents) -> [StoreDamage] {
        var damages: [StoreDamage] = []
        switch contents {
        case .empty: break
        case .slot(let slot):
            if slot.commitNumber > 0 {
                damages.append(StoreDamage(file: "\(files.name) is missing, and had \(slot.commitNumber) commits"))
            }
        case .damaged: damages.append(StoreDamage(file: "\(files.name) is missing, and its commit record is damaged"))
        }
        if (DiskFile.size(files.log) ?? 0) > 0 {
            damages.append(StoreDamage(file: "\(files.name) is missing, and its log \(files.name)-wal is not"))
        }
        return damages
    }

    private func create() throws(StoreError) {
        let identity = StoreIdentity(seed: RandomBytes.seed(), createdAt: DiskFile.now())
        let draft = StoreDraft(files: files, identity: identity, commitNumber: 0)
        try draft.install(commitRecord, commit: try draft.write())
        log(.notice, "A new store was made: \(files.database)")
    }
}

/// Makes a new store of what is intact in a damaged one, after a copy of the damaged files is kept.
struct StoreSalvage {
    let files: StoreFiles
    let commitRecord: CommitRecord
    /// What the commit record says.
    let contents: CommitRecord.Contents
    let log: SQLiteStore.Log

    /// Gives back what is lost; a store that is well is left as it is.
    func run() throws(StoreError) -> [StoreDamage] {
        let (found, missingCommits) = try findDamage()
        if found.isEmpty { return [] }
        let aside = try DamagedFiles(files: files).keep()
        log(.warning, "The store is damaged and is being repaired; the damaged files are kept in \(aside)")
        try LogRepair(files: files, missingCommits: missingCommits).run()
        try FirstPage(files: files).restore()
        let losses = found + (try rebuild()).filter { !found.contains($0) }
        for loss in losses { log(.error, "Repair of the store: \(loss)") }
        return losses
    }

    /// The damages of the store's files, or else of its rows; and how many commits are missing that were acknowledged.
    private func findDamage() throws(StoreError) -> (damages: [StoreDamage], missingCommits: UInt64) {
        if (DiskFile.size(files.database) ?? 0) == 0 { return ([StoreDamage(file: "\(files.name) is missing or empty")], 0) }
        let inspection = try StoreInspection(files, .write, commitRecord: contents)
        defer { inspection.end() }
        return (StoreSummary(inspection) { _, _, _ in true }.damages, inspection.missingCommits)
    }

    /// Writes every row that can be read and is right into a new store, and puts that in the old one's place; gives
    /// back what is lost.
    private func rebuild() throws(StoreError) -> [StoreDamage] {
        let inspection = try StoreInspection(files, .write, commitRecord: contents)
        defer { inspection.end() }
        var marked: CommitRecordSlot?
        if case .slot(let slot) = contents { marked = slot }
        let identity = inspection.identity ?? StoreIdentity(seed: marked?.seed ?? RandomBytes.seed(), createdAt: DiskFile.now())
        let lastCommit = max(inspection.state?.commitNumber ?? 0, marked?.commitNumber ?? 0)
        let draft = StoreDraft(files: files, identity: identity, commitNumber: lastCommit + 1)
        var losses: [StoreDamage] = []
        let commit = try draft.write { transaction throws(SQLiteError) in
            try transaction.commit { () throws(SQLiteError) in losses = try copyRows(of: inspection, to: transaction) }
        }
        try draft.install(commitRecord, commit: commit)
        if inspection.identity == nil, marked == nil {
            losses.append(StoreDamage(file: "the store's seed is lost, and is a new one"))
        }
        return losses
    }

    private func copyRows(
        of inspection: StoreInspection, to transaction: StoreTransaction
    ) throws(SQLiteError) -> [StoreDamage] {
        var failure: SQLiteError?
        let loader = StoreLoader(inspection.connection, inspection.state) { table, key, body in
            guard failure == nil else { return true }
            do throws(SQLiteError) {
                try transaction.apply(JournalRecord(.insert, table, key: key, body: body))
                // The body goes with the next step of the loader.
                try transaction.flush()
            } catch {
                failure = error
            }
            return true
        }
        if let failure { throw failure }
        return loader.damages
    }
}

/// Keeps a copy of a damaged store, for whoever can read more of it.
struct DamagedFiles {
    let files: StoreFiles

    /// Copies the files into a directory of their own beside them, for good; gives back its path.
    func keep() throws(StoreError) -> String {
        let stem = files.aside(DiskFile.timestamp())
        var directory = stem
        var number = 1
        while DiskFile.size(directory) != nil {
            number += 1
            directory = "\(stem)-\(number)"
        }
        try DiskFile.createDirectory(directory)
        let copies = StoreFiles(directory: directory, name: files.name)
        for (file, copy) in [(files.database, copies.database), (files.log, copies.log), (files.commitRecord, copies.commitRecord)]
        where DiskFile.size(file) != nil {
            try DiskFile.copy(file, to: copy)
        }
        try DiskFile.synchronize(directory)
        try DiskFile.synchronize(files.directory)
        return directory
    }
}

/// Writes the database's first page anew: its header and its schema, which are the same for every store but for counts
/// that a reader can do without. A single byte of it that is wrong can put every table out of reach.
struct FirstPage {
    let files: StoreFiles

    /// The store must be closed. One of another version looks like one of this but for its state.
    func restore() throws(StoreError) {
        _ = try StoreDraft(files: files, identity: StoreIdentity(seed: 0, createdAt: 0), commitNumber: 0).write()
        var page = try read()
        if DiskFile.size(files.database) == nil { try DiskFile.create(files.database) }
        let count = max(1, (Int(DiskFile.size(files.database) ?? 0) + page.count - 1) / page.count)
        page.replaceSubrange(Self.pageCountOffset..<(Self.pageCountOffset + 4), with: Self.bytes(UInt32(clamping: count)))
        // Free pages are of no use to a reader.
        page.replaceSubrange(Self.freelistOffset..<(Self.freelistOffset + 8), with: repeatElement(0, count: 8))
        try write(page, fileSize: count * page.count)
    }

    private func read() throws(StoreError) -> [UInt8] {
        let descriptor = open(files.draft, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw DiskFile.failure("opening \(files.draft)") }
        defer { close(descriptor) }
        var page = [UInt8](repeating: 0, count: Int(RowSchema.pageSize))
        guard pread(descriptor, &page, page.count, 0) == page.count else { throw DiskFile.failure("reading \(files.draft)") }
        return page
    }

    private func write(_ page: [UInt8], fileSize: Int) throws(StoreError) {
        let descriptor = open(files.database, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw DiskFile.failure("opening \(files.database)") }
        defer { close(descriptor) }
        guard ftruncate(descriptor, off_t(fileSize)) == 0, pwrite(descriptor, page, page.count, 0) == page.count else {
            throw DiskFile.failure("writing \(files.database)")
        }
    }

    private static func bytes(_ value: UInt32) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }

    private static let pageCountOffset = 28
    /// The first page of the list, and how many there are.
    private static let freelistOffset = 32
}

/// Makes SQLite's log readable again past a part that is damaged. SQLite stops there, since each frame's checksum goes
/// on from the one before, and drops the rest: pages that are whole, and were acknowledged.
///
/// A frame fits when its checksum follows from the one that stands in the frame before. One that does not fit is taken
/// for a page with a wrong byte: its rows have checksums of their own. All are chained anew, up to the last commit that
/// was acknowledged; what came after it may be half of a commit.
struct LogRepair {
    let files: StoreFiles
    /// How many commits that were acknowledged SQLite does not reach.
    let missingCommits: UInt64

    /// The store must be closed. Leaves the log as it is if nothing more can be read of it.
    func run() throws(StoreError) {
        guard missingCommits > 0, let size = DiskFile.size(files.log), size >= LogFrame.headerSize + LogFrame.size else { return }
        let descriptor = open(files.log, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw DiskFile.failure("opening \(files.log)") }
        defer { close(descriptor) }
        let count = (Int(size) - LogFrame.headerSize) / LogFrame.size
        var header = LogFrame(try read(descriptor, 0, LogFrame.headerSize))
        if header.checksum(after: LogChecksum()) != header.checksum {
            header = .header(salts: try frame(descriptor, 0).salts)
        }
        let end = try findEnd(descriptor, header, count)
        guard end > 0 else { return }
        try rewrite(descriptor, header, upTo: end)
    }

    /// How many frames belong to commits that were acknowledged.
    private func findEnd(_ descriptor: Int32, _ header: LogFrame, _ count: Int) throws(StoreError) -> Int {
        var end = 0
        var previous = header.checksum
        var isBroken = false
        var commits: UInt64 = 0
        for index in 0..<count {
            let frame = try frame(descriptor, index)
            let fits = frame.salts == header.salts && frame.checksum(after: previous) == frame.checksum
            previous = frame.checksum
            if !fits { isBroken = true }
            if fits, frame.isCommit { end = index + 1 }
            if isBroken, frame.isCommit {
                commits += 1
                if commits == missingCommits { return fits ? index + 1 : max(end, index + 1) }
            }
        }
        return end
    }

    /// Chains the frames anew.
    private func rewrite(_ descriptor: Int32, _ header: LogFrame, upTo end: Int) throws(StoreError) {
        try write(descriptor, header.bytes, at: 0)
        var previous = header.checksum
        var kept = 0
        for index in 0..<end {
            var frame = try frame(descriptor, index)
            guard frame.salts == header.salts, frame.pageNumber > 0 else { continue }
            frame.seal(after: previous)
            previous = frame.checksum
            try write(descriptor, frame.bytes, at: offset(of: kept))
            kept += 1
        }
        guard ftruncate(descriptor, off_t(offset(of: kept))) == 0, fsync(descriptor) == 0 else {
            throw DiskFile.failure("writing \(files.log)")
        }
    }

    private func offset(of frame: Int) -> Int { LogFrame.headerSize + frame * LogFrame.size }

    private func frame(_ descriptor: Int32, _ index: Int) throws(StoreError) -> LogFrame {
        LogFrame(try read(descriptor, offset(of: index), LogFrame.size))
    }

    private func read(_ descriptor: Int32, _ offset: Int, _ count: Int) throws(StoreError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        guard pread(descriptor, &bytes, count, off_t(offset)) == count else { throw DiskFile.failure("reading \(files.log)") }
        return bytes
    }

    private func write(_ descriptor: Int32, _ bytes: [UInt8], at offset: Int) throws(StoreError) {
        guard pwrite(descriptor, bytes, bytes.count, off_t(offset)) == bytes.count else {
            throw DiskFile.failure("writing \(files.log)")
        }
    }
}

/// Why a store cannot be opened, checked or copied.
public enum StoreError: Error, Sendable, CustomStringConvertible {
    /// The kernel refused: the operation with its file, and why.
    case system(String, reason: String)
    case sqlite(SQLiteError)
    /// Another process works with the store.
    case inUse(path: String)
    /// A later broker wrote it, or one from before the first release.
    case otherVersion(path: String, version: UInt32)
    /// A copy is to be made where something is already.
    case exists(path: String)
    /// There is no store.
    case absent(path: String)
    /// Not everything that was acknowledged can be read.
    case damaged(path: String, [StoreDamage])

    public var description: String {
        switch self {
        case .system(let operation, let reason): "\(operation): \(reason)"
        case .sqlite(let error): "the store: \(error)"
        case .inUse(let path): "\(path) is in use by another process"
        case .otherVersion(let path, let version):
            "\(path) has version \(version), which \(Self.whoWrote(version)); this Martlet reads version \(RowSchema.broker.version). "
                + Self.adviceOnVersion(version, path)
        case .exists(let path): "\(path) is there already"
        case .absent(let path): "\(FullPath.of(path)): there is no store; name the directory that persistence_location names"
        case .damaged(let path, let damages): Self.describe(path, damages)
        }
    }

    private static func whoWrote(_ version: UInt32) -> String {
        version > RowSchema.broker.version ? "a later Martlet wrote" : "only builds before the first release wrote"
    }

    private static func adviceOnVersion(_ version: UInt32, _ path: String) -> String {
        if version > RowSchema.broker.version { return "Start the later one" }
        return "Move \(path) and the files beside it whose names begin so away, to begin with an empty store"
    }

    private static func describe(_ path: String, _ damages: [StoreDamage]) -> String {
        var lines = ["\(path) is damaged; the broker does not start with a part of it unless it is told to."]
        lines += damages.prefix(Limits.damagesListed).map { "  \($0)" }
        if damages.count > Limits.damagesListed { lines.append("  and \(damages.count - Limits.damagesListed) more") }
        if damages.contains(where: \.isOfDisk) {
            lines.append(
                "The disk could not be read: check the disk first, or start again; the data may still be intact")
        }
        lines.append("To go on with what is intact, start the broker once with --repair: it keeps a copy of the damaged files")
        return lines.joined(separator: "\n")
    }
}

/// One thing that is wrong with a store: with a record, a table or the files.
public struct StoreDamage: Equatable, Sendable, CustomStringConvertible {
    public enum Fault: Equatable, Sendable {
        /// The record's bytes are not those that were written.
        case checksum
        /// The record's bytes are what was written, but mean nothing to this broker.
        case meaning
        /// So many records are gone; which, is not known.
        case missing(UInt64)
        /// The table holds records that were deleted, or older ones, in place of what it should.
        case content
        /// What SQLite could not read of a table.
        case unreadable(SQLiteError)
        /// A file is damaged: how, in words.
        case file(String)
    }

    /// Nil where a file is meant.
    public let table: StoreTable?
    /// Nil where not one record is meant.
    public let key: UInt64?
    public let fault: Fault

    init(_ table: StoreTable, key: UInt64? = nil, _ fault: Fault) {
        self.table = table
        self.key = key
        self.fault = fault
    }

    init(file text: String) {
        table = nil
        key = nil
        fault = .file(text)
    }

    /// Whether the disk may be to blame, and not what is on it.
    var isOfDisk: Bool {
        guard case .unreadable(let error) = fault else { return false }
        return error.isOfDisk
    }

    public var description: String {
        let place = (table?.name ?? "") + (key.map { " \($0)" } ?? "")
        switch fault {
        case .checksum: return "\(place): the record is damaged"
        case .meaning: return "\(place): the record cannot be understood"
        case .missing(let count): return "\(place): \(count) \(count == 1 ? "record is" : "records are") missing"
        case .content: return "\(place): the records are not those of the last commit"
        case .unreadable(let error): return "\(place): cannot be read in full: \(error)"
        case .file(let text): return text
        }
    }
}

extension Limits {
    /// Damaged rows that an error names; of the others it tells the number.
    static let damagesListed = 20
}
