import CSQLite
import Glibc
import Synchronization

/// Lets SQLite's writes to files below a directory fail as the kernel would, through the place that SQLite has for
/// this.
///
/// It holds for the whole process; so the directory's name tells which writes are meant, and the failure is one for all
/// tests.
final class FailingWrites: Sendable {
    /// Part of the path of files whose writes fail while they do.
    static let marker = "failing"
    private static let errorNumber = Atomic<Int32>(0)
    private static let databaseErrorNumber = Atomic<Int32>(0)

    /// Has every write to such files fail with this number, 0 for none; with `database` those to the database itself,
    /// not to its log.
    static func set(_ number: Int32, database: Int32? = nil) {
        install()
        errorNumber.store(number, ordering: .sequentiallyConsistent)
        databaseErrorNumber.store(database ?? number, ordering: .sequentiallyConsistent)
    }

    private typealias Write = @convention(c) (Int32, UnsafeRawPointer?, Int, off_t) -> Int

    private static let write: Write = { descriptor, bytes, count, offset in
        let path = path(of: descriptor)
        let number =
            path.hasSuffix(".db")
            ? databaseErrorNumber.load(ordering: .sequentiallyConsistent) : errorNumber.load(ordering: .sequentiallyConsistent)
        if number != 0, path.contains(marker) {
            errno = number
            return -1
        }
        return pwrite(descriptor, bytes, count, offset)
    }

    private static func install() {
        guard let vfs = sqlite3_vfs_find(nil) else { return }
        for name in ["pwrite", "pwrite64"] {
            _ = vfs.pointee.xSetSystemCall(vfs, name, unsafeBitCast(write, to: sqlite3_syscall_ptr?.self))
        }
    }

    static func path(of descriptor: Int32) -> String {
        var target = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/fd/\(descriptor)", &target, target.count)
        return String(decoding: target.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
