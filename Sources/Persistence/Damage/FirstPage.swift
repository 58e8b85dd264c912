internal import Glibc
internal import Platform

/// Writes the database's first page anew: its header and its schema, which are the same for every store but for counts that a reader can do
/// without. A single byte of it that is wrong can put every table out of reach.
struct FirstPage {
    let files: StoreFiles

    /// The store must be closed. One of an earlier version looks like one of this until it is rebuilt.
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
        var page = [UInt8](repeating: 0, count: Int(StoreSchema.pageSize))
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
