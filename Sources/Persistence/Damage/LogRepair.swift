internal import Glibc

/// Makes SQLite's log readable again past a part that is damaged. SQLite stops there, since each frame's checksum goes on from the one
/// before, and drops the rest: pages that are whole, and were acknowledged.
///
/// A frame fits when its checksum follows from the one that stands in the frame before. One that does not fit is taken for a page with a
/// wrong byte: its rows have checksums of their own. All are chained anew, up to the last commit that was acknowledged; what came after it
/// may be half of a commit.
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
