import BrokerCore
import Glibc
import Testing

@testable import Persistence

/// A directory for a store, gone at the end.
final class StoreHome: Sendable {
    let path: String

    /// - Parameters:
    ///   - name: part of the directory's name.
    ///   - parent: `/dev/shm` where many files come and go, and no sync is to cost anything.
    init(name: String = "store", under parent: String = "/tmp") throws {
        var template = Array("\(parent)/martlet-\(name)-XXXXXX".utf8CString)
        let made = try #require(mkdtemp(&template))
        path = String(cString: made)
    }

    deinit { Self.remove(path) }

    var files: StoreFiles { StoreFiles(directory: path) }

    func open(_ options: StoreOptions = StoreOptions()) throws(StoreError) -> SQLiteStore {
        try SQLiteStore.open(path, options: options) { _, _ in }
    }

    /// The names in a directory, in order.
    static func names(in path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    static func remove(_ path: String) {
        for name in names(in: path) { remove("\(path)/\(name)") }
        Glibc.remove(path)
    }
}
