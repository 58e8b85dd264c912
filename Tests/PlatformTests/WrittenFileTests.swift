import Glibc
import Platform
import Testing

/// What root writes into directories of others.
@Suite struct WrittenFileTests {
    @Test func `a file is made, appended to and emptied`() throws {
        let directory = try Directory()
        let file = try WrittenFile.openAppended("\(directory.path)/file")
        _ = write(file.rawValue, "ab", 2)
        file.close()
        let again = try WrittenFile.openAppended("\(directory.path)/file")
        _ = write(again.rawValue, "c", 1)
        #expect(size(of: again) == 3)
        again.close()
        let emptied = try WrittenFile.openEmptied("\(directory.path)/file", mode: 0o644)
        #expect(size(of: emptied) == 0)
        emptied.close()
    }

    @Test(.enabled("only root is told not to follow") { geteuid() == 0 })
    func `root does not follow a link that another user can have put there`() throws {
        let directory = try Directory()
        symlink("\(directory.path)/target", "\(directory.path)/link")
        try WrittenFile.openAppended("\(directory.path)/link").close()
        #expect(WrittenFile.trustsLink(at: "\(directory.path)/link"), "the directory is root's alone")
        for (owner, mode) in [(uid_t(65534), mode_t(0o755)), (0, 0o777), (0, 0o770)] {
            chown(directory.path, owner, 0)
            chmod(directory.path, mode)
            for open in [{ try WrittenFile.openAppended($0) }, { try WrittenFile.openEmptied($0, mode: 0o644) }]
                as [(String) throws -> FileDescriptor]
            {
                let error = #expect(throws: SystemError.self) { try open("\(directory.path)/link") }
                #expect(error?.errno == ELOOP)
                try open("\(directory.path)/plain").close()
            }
            #expect(!WrittenFile.trustsLink(at: "\(directory.path)/link"))
        }
    }

    @Test(.enabled("only root may give files away") { geteuid() == 0 }) func `files are given away, and devices are not`() throws {
        let directory = try Directory()
        let file = try WrittenFile.openAppended("\(directory.path)/file")
        defer { file.close() }
        WrittenFile.give(file, toUser: 65534, group: 65534)
        var status = stat()
        #expect(fstat(file.rawValue, &status) == 0 && status.st_uid == 65534)
        let device = try WrittenFile.openAppended("/dev/null")
        defer { device.close() }
        WrittenFile.give(device, toUser: 65534, group: 65534)
        #expect(fstat(device.rawValue, &status) == 0 && status.st_uid == 0)
    }

    private func size(of file: FileDescriptor) -> Int {
        var status = stat()
        return fstat(file.rawValue, &status) == 0 ? Int(status.st_size) : -1
    }
}

/// A directory of this process's user alone, which goes with all that is in it.
private final class Directory {
    let path: String

    init() throws {
        var template = Array("/tmp/martlet-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemError(errno: errno, operation: "mkdtemp") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        for name in ["file", "link", "target", "plain"] { unlink("\(path)/\(name)") }
        rmdir(path)
    }
}
