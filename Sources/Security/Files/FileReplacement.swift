internal import Glibc
internal import Platform

/// Puts new contents in the place of a file in one step: whoever reads it meanwhile, and whoever comes after a crash,
/// finds all of the old or all of the new.
public enum FileReplacement {
    /// What went wrong, as the end of a sentence about the file.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
        /// The kernel's number for it.
        public let number: Int32

        fileprivate init(_ operation: String) {
            number = errno
            description = "\(operation): \(strerror(number).map { String(cString: $0) } ?? "error \(number)")"
        }
    }

    /// Writes a file beside it and renames that. Mode and owner stay as they are. A new file is its owner's alone; in a
    /// directory that gives its group to what is made in it (setgid) that group may read it. A symbolic link stays one,
    /// and what it points to is replaced; but not by root, if somebody else can have put it there.
    public static func write(_ bytes: [UInt8], to path: String) throws(Failure) {
        var link = stat()
        guard lstat(path, &link) != 0 || link.st_mode & S_IFMT != S_IFLNK || WrittenFile.trustsLink(at: path) else {
            errno = ELOOP
            throw Failure("is a symbolic link in a directory that is not root's alone, which root does not follow")
        }
        let target = realpath(path, nil).map { resolved in
            defer { free(resolved) }
            return String(cString: resolved)
        }
        var status = stat()
        let exists = stat(target ?? path, &status) == 0
        let directory = Self.directory(of: target ?? path)
        var template = Array("\(directory)/.martlet-XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw Failure("cannot be written") }
        do throws(Failure) {
            defer { _ = close(descriptor) }
            if exists {
                var made = stat()
                let isOwn = fstat(descriptor, &made) == 0 && made.st_uid == status.st_uid && made.st_gid == status.st_gid
                guard isOwn || fchown(descriptor, status.st_uid, status.st_gid) == 0 else { throw Failure("keeping its owner") }
                guard fchmod(descriptor, status.st_mode & 0o7777) == 0 else { throw Failure("keeping its mode") }
            } else if stat(directory, &status) == 0, status.st_mode & S_ISGID != 0 {
                guard fchmod(descriptor, 0o640) == 0 else { throw Failure("letting its group read it") }
            }
            try fill(descriptor, with: bytes)
            guard fsync(descriptor) == 0 else { throw Failure("cannot be written") }
        } catch {
            unlink(template)
            throw error
        }
        if rename(template, target ?? path) != 0 {
            let failure = Failure("cannot be replaced")
            unlink(template)
            throw failure
        }
        synchronize(directory)
    }

    /// Writes into the file as it stands, which has to be there, and makes that last: for a place where no file can be
    /// made or replaced. The room is taken first, so that a full disk changes nothing; a crash on the way leaves a
    /// mixture.
    public static func overwrite(_ path: String, with bytes: [UInt8]) throws(Failure) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure("cannot be written") }
        defer { _ = close(descriptor) }
        let number = posix_fallocate(descriptor, 0, off_t(max(1, bytes.count)))
        if number != 0, number != EOPNOTSUPP {
            errno = number
            throw Failure("cannot be written")
        }
        try fill(descriptor, with: bytes)
        guard ftruncate(descriptor, off_t(bytes.count)) == 0, fsync(descriptor) == 0 else { throw Failure("cannot be written") }
    }

    private static func fill(_ descriptor: Int32, with bytes: [UInt8]) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Failure("cannot be written") }
            rest = rest.dropFirst(count)
        }
    }

    /// Makes the new name last; a file system that cannot is left at that.
    private static func synchronize(_ directory: String) {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }

    private static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}
