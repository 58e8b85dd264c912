import ArgumentParsing
import Configuration
import Glibc
import MartletServer
import Platform

/// Whose the imported files are: the user that runs the broker.
struct ImportOwner {
    /// His name, and that of his group; nil where the import is not root's, and everything belongs to who types it.
    let names: (user: String, group: String)?
    private let user: uid_t
    private let group: gid_t
    private let right: ReadRight?
    /// Whom a broker becomes that root starts; nil where root does not import.
    var becomes: String? { names?.user }

    /// - Parameters:
    ///   - name: that the command line gives.
    ///   - mainFile: of the configuration, whose service may be installed.
    init(named name: String?, mainFile: String) throws {
        guard geteuid() == 0 else {
            (names, right, user, group) = (nil, nil, geteuid(), getegid())
            if name != nil { throw Self.failure("only root can give files to another user; type it with sudo, or without --user.") }
            return
        }
        let chosen = name ?? ServiceUnit.running(mainFile)?.userName ?? Self.configured(mainFile) ?? "martlet"
        guard let entry = getpwnam(chosen)?.pointee, let right = ReadRight(userNamed: chosen) else {
            throw Self.failure(
                "there is no user \(chosen) on this machine. Make it: useradd --system --no-create-home --shell "
                    + "/usr/sbin/nologin \(chosen). Or name the "
                    + "user that runs the broker, with --user.")
        }
        names = (chosen, right.group)
        self.right = right
        user = entry.pw_uid
        group = entry.pw_gid
    }

    /// Whether he may read a file where it is.
    @Sendable func mayRead(_ path: String) -> Bool {
        right.map { $0.obstacle(to: path) == nil } ?? (FileAccess.obstacle(toReading: path) == nil)
    }

    /// A copy with its owner and mode: what only the service reads is root's and its group's, what it writes is its own.
    func file(of copy: ConfigurationImport.Copy) -> ImportedFile {
        let isState = copy.purpose == .state
        return ImportedFile(
            source: copy.source, destination: copy.destination, text: copy.text, user: isState ? user : geteuid(), group: group,
            mode: isState ? 0o600 : 0o640)
    }

    /// Gives a directory that was made to whom it is for; a symbolic link that somebody has put in its place since is not followed.
    func take(directory: String, isOfState: Bool) -> Bool {
        guard names != nil else { return true }
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return fchown(descriptor, isOfState ? user : 0, group) == 0 && fchmod(descriptor, isOfState ? 0o700 : 0o2755) == 0
    }

    /// What `user` says in a configuration that is there.
    private static func configured(_ file: String) -> String? {
        guard access(file, R_OK) == 0 else { return nil }
        let result = ConfigurationReader(files: DiskFiles(), environment: [:]).read(path: file)
        return result.places.line(of: "user")?.value
    }

    private static func failure(_ message: String) -> ExitCode {
        Console.complain("Error: \(message)")
        return ExitCode(1)
    }
}
