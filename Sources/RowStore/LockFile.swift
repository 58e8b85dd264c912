internal import Glibc

/// A file beside a store's database that one process at a time has locked, or one store of a process: it keeps others
/// out.
///
/// A file of its own, for closing any descriptor of the database would end SQLite's locks on it.
package final class LockFile: Sendable {
    /// Why the file could not be had.
    package enum Failure: Error, Equatable, Sendable {
        /// Another has locked it: what the file begins with, 20 bytes at most.
        case isLocked(contents: [UInt8])
        /// The kernel refused to open it, or to lock it: `errno`.
        case opening(Int32)
        case locking(Int32)
    }

    /// Of the file, open for reading and writing.
    package let descriptor: Int32

    /// Opens and locks the file; makes an empty one, its owner's alone, if there is none.
    package init(_ path: String) throws(Failure) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .opening(errno) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let number = errno
            if number == EINTR { continue }
            let failure: Failure = number == EWOULDBLOCK ? .isLocked(contents: Self.contents(descriptor)) : .locking(number)
            close(descriptor)
            throw failure
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Lets others have it, though it is still open.
    package func unlock() { flock(descriptor, LOCK_UN) }

    private static func contents(_ descriptor: Int32) -> [UInt8] {
        var text = [UInt8](repeating: 0, count: 20)
        let count = pread(descriptor, &text, text.count, 0)
        return Array(text.prefix(max(0, count)))
    }
}
