import Glibc
import Testing

@testable import Security

@Suite struct FileReplacementTests {
    private let directory: String

    init() throws {
        var template = Array("/tmp/martlet-test-XXXXXX".utf8CString)
        let made = try #require(mkdtemp(&template))
        directory = String(cString: made)
    }

    @Test func `a new file is its owner's alone, and a later one keeps the mode`() throws {
        defer { clean(["file"]) }
        try FileReplacement.write([1, 2, 3], to: "\(directory)/file")
        #expect(try SecurityFileReader.contents(of: "\(directory)/file") == [1, 2, 3])
        #expect(mode("file") == 0o600)
        chmod("\(directory)/file", 0o644)
        try FileReplacement.write([], to: "\(directory)/file")
        #expect(try SecurityFileReader.contents(of: "\(directory)/file").isEmpty)
        #expect(mode("file") == 0o644)
    }

    @Test func `where the directory gives its group to new files, that group may read one`() throws {
        defer { clean(["file"]) }
        chmod(directory, 0o2755)
        try FileReplacement.write([1], to: "\(directory)/file")
        #expect(mode("file") == 0o640)
    }

    @Test func `a link stays a link`() throws {
        defer { clean(["file", "link"]) }
        try FileReplacement.write([1], to: "\(directory)/file")
        symlink("file", "\(directory)/link")
        try FileReplacement.write([2], to: "\(directory)/link")
        #expect(try SecurityFileReader.contents(of: "\(directory)/file") == [2])
        var target = [CChar](repeating: 0, count: 100)
        #expect(readlink("\(directory)/link", &target, target.count) > 0)
    }

    @Test func `a directory that is not there is said`() {
        defer { clean([]) }
        #expect(throws: FileReplacement.Failure.self) { try FileReplacement.write([1], to: "\(directory)/none/file") }
    }

    private func mode(_ name: String) -> mode_t {
        var status = stat()
        stat("\(directory)/\(name)", &status)
        return status.st_mode & 0o7777
    }

    private func clean(_ names: [String]) {
        for name in names { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }
}
