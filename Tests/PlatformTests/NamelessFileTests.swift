import Glibc
import Platform
import Testing

/// Files without a name.
struct NamelessFileTests {
    /// The names in a directory that a nameless file could have.
    private func names(in directory: String) -> [String] {
        guard let open = opendir(directory) else { return [] }
        defer { closedir(open) }
        var names: [String] = []
        while let entry = readdir(open) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasPrefix(".martlet-") { names.append(name) }
        }
        return names
    }

    @Test func `what is written is read from any place, and nobody else can open it`() throws {
        var template = Array("/tmp/nameless-XXXXXX".utf8CString)
        let directory = try #require(mkdtemp(&template).map { String(cString: $0) })
        defer { rmdir(directory) }
        let file = try NamelessFile(in: directory)
        #expect(names(in: directory).isEmpty)
        try file.append([1, 2, 3])
        try file.append([])
        try file.append([4, 5])
        #expect(try file.bytes(from: 0, count: 100) == [1, 2, 3, 4, 5])
        #expect(try file.bytes(from: 2, count: 2) == [3, 4])
        #expect(try file.bytes(from: 5, count: 1).isEmpty && file.bytes(from: 9, count: 1).isEmpty)
    }

    @Test func `a directory that is not there has room for none`() {
        #expect(throws: SystemError.self) { try NamelessFile(in: "/nowhere/at/all") }
    }
}
