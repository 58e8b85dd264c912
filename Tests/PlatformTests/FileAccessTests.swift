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
