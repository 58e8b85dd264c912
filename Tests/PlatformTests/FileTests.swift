import Glibc
import Platform
import Testing

@Suite struct FileAccessTests {
    private let directory: String

    init() throws {
        var template = Array("/tmp/martlet-access-XXXXXX".utf8CString)
        directory = try #require(mkdtemp(&template).map { String(cString: $0) })
    }

    @Test func `what is missing is named, the first directory or else the file`() {
        #expect(FileAccess.obstacle(toReading: "\(directory)/a/b/c") == .missingDirectory("\(directory)/a"))
        #expect(FileAccess.obstacle(toReading: "\(directory)/a") == .missing("\(directory)/a"))
        #expect(FileAccess.obstacle(toWriting: "\(directory)/a/b") == .missingDirectory("\(directory)/a"))
        #expect(FileAccess.obstacle(toWriting: "\(directory)/a") == nil)
        #expect(access("\(directory)/a", F_OK) != 0, "nothing is made")
        rmdir(directory)
    }

    @Test func `a file is no directory, and a directory no file`() throws {
        let file = "\(directory)/file"
        close(open(file, O_CREAT | O_WRONLY, 0o600))
        #expect(FileAccess.obstacle(toMakingFilesIn: file) == .notDirectory(file))
        #expect(FileAccess.obstacle(toWriting: "\(file)/a") == .notDirectory(file))
        #expect(FileAccess.obstacle(toWriting: directory) == .isDirectory(directory))
        #expect(FileAccess.obstacle(toMakingFilesIn: directory) == nil && FileAccess.obstacle(toWriting: file) == nil)
        #expect(FileAccess.obstacle(toMakingFilesIn: "\(directory)/none") == .missingDirectory("\(directory)/none"))
        unlink(file)
        rmdir(directory)
    }

    @Test func `a path is whole or begins where the process works`() throws {
        let here = try #require(getcwd(nil, 0).map { String(cString: $0) })
        #expect(FullPath.of("/a") == "/a")
        #expect(FullPath.of("a/b") == "\(here)/a/b")
        #expect(FullPath.of("./a") == "\(here)/a")
        #expect(FullPath.of(".") == here)
        rmdir(directory)
    }
}

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

@Suite struct WholeFileTests {
    @Test func `a file is read whole, and refused above its bound`() throws {
        let path = "/tmp/martlet-whole-file-\(getpid())"
        let file = try WrittenFile.openEmptied(path, mode: 0o600)
        defer { unlink(path) }
        let text = [UInt8](repeating: 7, count: 100_000)
        #expect(text.withUnsafeBytes { write(file.rawValue, $0.baseAddress, $0.count) } == text.count)
        file.close()
        #expect(try WholeFile.bytes(of: path, bytesMax: text.count) == text)
        #expect(throws: WholeFile.Failure.isTooLarge) { try WholeFile.bytes(of: path, bytesMax: text.count - 1) }
    }

    @Test func `a text is read without the byte order mark in front of it`() throws {
        let path = "/tmp/martlet-marked-file-\(getpid())"
        defer { unlink(path) }
        for (written, read) in [([0xEF, 0xBB, 0xBF, 7], [7]), ([0xEF, 0xBB, 7], [0xEF, 0xBB, 7]), ([], [])] as [([UInt8], [UInt8])]
        {
            let file = try WrittenFile.openEmptied(path, mode: 0o600)
            #expect(written.withUnsafeBytes { write(file.rawValue, $0.baseAddress, $0.count) } == written.count)
            file.close()
            #expect(try WholeFile.text(of: path, bytesMax: 4) == read)
            #expect(try WholeFile.bytes(of: path, bytesMax: 4) == written)
        }
    }

    @Test func `what is no file tells why`() {
        #expect(throws: WholeFile.Failure.isDirectory) { try WholeFile.bytes(of: "/", bytesMax: 1) }
        #expect(throws: WholeFile.Failure.refused(SystemError(errno: ENOENT, operation: "open"))) {
            try WholeFile.bytes(of: "/nowhere/at all", bytesMax: 1)
        }
    }
}
