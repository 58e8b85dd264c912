import Commands
import Configuration
import Glibc
import MartletServer
import Platform

/// A file to be written: what it holds, whose it is, and who may read it.
struct ImportedFile {
    let source: String
    let destination: String
    /// nil for what the source holds.
    let text: [UInt8]?
    let user: uid_t
    let group: gid_t
    let mode: mode_t

    /// The kind of file at a path, through symbolic links.
    @Sendable static func kind(of path: String) -> ImportSource.Kind {
        var status = stat()
        guard stat(path, &status) == 0 else { return .missing }
        return status.st_mode & S_IFMT == S_IFDIR ? .directory : .file
    }

    /// Opens the source to be read; nil with `errno` when that is not possible. As root no symbolic link is followed
    /// that somebody else may have put there: the copy would show him a file that only root may read.
    static func open(_ path: String) -> Int32? {
        var link = stat()
        let isLink = lstat(path, &link) == 0 && link.st_mode & S_IFMT == S_IFLNK
        let flag = isLink && !WrittenFile.trustsLink(at: path) ? O_NOFOLLOW : 0
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flag)
        guard descriptor >= 0 else { return nil }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            errno = EINVAL
            return nil
        }
        return descriptor
    }

    /// Gives what is to be written piece by piece, until `body` returns false; whether all was given.
    func read(_ body: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        if let text { return text.withUnsafeBytes(body) }
        guard let descriptor = Self.open(source) else { return false }
        defer { close(descriptor) }
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 1)
        defer { room.deallocate() }
        while true {
            let count = Glibc.read(descriptor, room.baseAddress, room.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return false }
            guard count > 0 else { return true }
            guard body(UnsafeRawBufferPointer(rebasing: room[..<count])) else { return false }
        }
    }

    /// Whether the destination holds the same already.
    var isThere: Bool {
        guard let other = Self.open(destination) else { return false }
        defer { close(other) }
        let isSame = read { piece in
            var rest = piece
            let room = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, piece.count), alignment: 1)
            defer { room.deallocate() }
            while !rest.isEmpty {
                let count = Glibc.read(other, room.baseAddress, rest.count)
                guard count > 0, rest[..<count].elementsEqual(room[..<count]) else { return false }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
            return true
        }
        var byte: UInt8 = 0
        return isSame && Glibc.read(other, &byte, 1) == 0
    }
}

/// The owner of the imported files: the user that runs the broker.
struct ImportOwner {
    /// His name, and that of his group; nil where the import is not root's, and everything belongs to who types it.
    let names: (user: String, group: String)?
    private let user: uid_t
    private let group: gid_t
    private let right: ReadRight?
    /// The user that a broker becomes when root starts it; nil where root does not import.
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

    /// A copy with its owner and mode: what only the service reads is root's and its group's, what it writes is its
    /// own.
    func file(of copy: ConfigurationImport.Copy) -> ImportedFile {
        let isState = copy.purpose == .state
        return ImportedFile(
            source: copy.source, destination: copy.destination, text: copy.text, user: isState ? user : geteuid(), group: group,
            mode: isState ? 0o600 : 0o640)
    }

    /// Gives a directory that was made to whom it is for; a symbolic link that somebody has put in its place since is
    /// not followed.
    func give(directory: String, isOfState: Bool) -> Bool {
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
        return result.locations.line(of: "user")?.value
    }

    private static func failure(_ message: String) -> ExitCode {
        Console.complain("Error: \(message)")
        return ExitCode(1)
    }
}
