internal import Glibc

/// The file beside a store's database that keeps other clients out. It names the process that has the store, and changes with each commit
/// that its readers may want to know of.
///
/// A file of its own: closing any descriptor of the database would end SQLite's locks on it.
final class StoreLock: Sendable {
    private let descriptor: Int32

    /// Throws `inUse` while another client has the store, of this process or another.
    init(_ database: String) throws(StoreError) {
        let path = database + "-lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .system(path) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            if errno == EINTR { continue }
            let error: StoreError =
                errno == EWOULDBLOCK ? .inUse(database, process: Self.process(descriptor)) : .system(path)
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        let text = Array("\(getpid())\n".utf8)
        ftruncate(descriptor, 0)
        _ = text.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
    }

    deinit { close(descriptor) }

    /// Wakes those who watch the file.
    func touch() {
        futimens(descriptor, nil)
    }

    private static func process(_ descriptor: Int32) -> Int? {
        var text = [UInt8](repeating: 0, count: 20)
        let count = pread(descriptor, &text, text.count, 0)
        guard count > 0, let end = text[..<count].firstIndex(of: 0x0a) else { return nil }
        return Int(String(decoding: text[..<end], as: UTF8.self))
    }
}

extension StoreError {
    /// The kernel's last word.
    static func system(_ path: String) -> StoreError {
        let number = errno
        return .failed(path, strerror(number).map { String(cString: $0) } ?? "error \(number)")
    }
}
