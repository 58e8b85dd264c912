internal import Glibc
internal import RowStore

/// The file beside a store's database that keeps other clients out. It names the process that has the store, and changes with each commit
/// that its readers may want to know of.
final class StoreLock: Sendable {
    private let file: LockFile

    /// Throws `inUse` while another client has the store, of this process or another.
    init(_ database: String) throws(StoreError) {
        let path = database + "-lock"
        do throws(LockFile.Failure) {
            file = try LockFile(path)
        } catch {
            switch error {
            case .isLocked(let contents): throw .inUse(database, process: Self.process(contents))
            case .opening(let number), .locking(let number): throw .system(path, number)
            }
        }
        let text = Array("\(getpid())\n".utf8)
        ftruncate(file.descriptor, 0)
        _ = text.withUnsafeBytes { pwrite(file.descriptor, $0.baseAddress, $0.count, 0) }
    }

    /// Wakes those who watch the file.
    func touch() {
        futimens(file.descriptor, nil)
    }

    private static func process(_ contents: [UInt8]) -> Int? {
        contents.firstIndex(of: 0x0a).flatMap { Int(String(decoding: contents[..<$0], as: UTF8.self)) }
    }
}

extension StoreError {
    /// The kernel's last word, or that of a given number.
    static func system(_ path: String, _ number: Int32 = errno) -> StoreError {
        .failed(path, strerror(number).map { String(cString: $0) } ?? "error \(number)")
    }
}
