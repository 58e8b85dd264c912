import Glibc
import Platform
import Testing

/// Whose files a user may read, by owner, group and mode. Only root can make files of others.
@Suite(.enabled("only root can give files away") { geteuid() == 0 }) struct ReadRightTests {
    private let nobody: ReadRight
    private let user: passwd

    init() throws {
        nobody = try #require(ReadRight(userNamed: "nobody"))
        user = try #require(getpwnam("nobody")).pointee
    }

    @Test func `owner, group and others each have their own right`() throws {
        let directory = try OpenDirectory()
        let file = try directory.file("file")
        for (owner, group, mode, isReadable) in [
            (0, 0, 0o600, false), (0, 0, 0o604, true), (0, user.pw_gid, 0o640, true), (0, user.pw_gid, 0o604, false),
            (user.pw_uid, 0, 0o400, true), (user.pw_uid, 0, 0o044, false),
        ] as [(uid_t, gid_t, mode_t, Bool)] {
            chown(file, owner, group)
            chmod(file, mode)
            #expect(nobody.obstacle(to: file) == (isReadable ? nil : file), "\(owner):\(group) \(String(mode, radix: 8))")
        }
    }

    @Test func `a directory that is closed stands in the way of what is in it`() throws {
        let directory = try OpenDirectory()
        let file = try directory.file("file")
        chmod(file, 0o644)
        chmod(directory.path, 0o700)
        #expect(nobody.obstacle(to: file) == directory.path)
        #expect(nobody.remedy(for: directory.path).contains("put a copy of the file"))
    }

    @Test func `what the remedy says to type takes the obstacle away`() throws {
        let directory = try OpenDirectory()
        let file = try directory.file("file")
        chmod(file, 0o600)
        let obstacle = try #require(nobody.obstacle(to: file))
        #expect(nobody.remedy(for: obstacle) == "Type: chgrp \(nobody.group) \(file) && chmod g+r \(file)")
        chown(file, 0, user.pw_gid)
        chmod(file, 0o640)
        #expect(nobody.obstacle(to: file) == nil)
    }

    @Test func `root may read everything, and a file that is not there is in nobody's way`() throws {
        let directory = try OpenDirectory()
        let file = try directory.file("file")
        chmod(file, 0)
        #expect(ReadRight().obstacle(to: file) == nil)
        #expect(nobody.obstacle(to: "\(directory.path)/none") == nil)
        #expect(ReadRight(userNamed: "no-such-user") == nil)
    }

    /// A directory where everybody may go, for one test.
    private final class OpenDirectory {
        let path: String

        init() throws {
            var template = Array("/tmp/martlet-test-XXXXXX".utf8CString)
            path = String(cString: try #require(mkdtemp(&template)))
            chmod(path, 0o755)
        }

        func file(_ name: String) throws -> String {
            let file = try #require(fopen("\(path)/\(name)", "w"))
            fclose(file)
            return "\(path)/\(name)"
        }

        deinit {
            unlink("\(path)/file")
            rmdir(path)
        }
    }
}
