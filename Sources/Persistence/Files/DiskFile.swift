internal import Glibc

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

    /// The last call's failure.
    static func failure(_ operation: String) -> StoreError {
        let number = errno
        return .system(operation, reason: strerror(number).map { String(cString: $0) } ?? "error \(number)")
    }
}
