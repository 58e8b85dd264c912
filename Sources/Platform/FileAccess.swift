internal import Glibc

/// What stands in the way of this process at a path: asked of the kernel, and nothing is opened, made or changed.
public enum FileObstacle: Sendable, Equatable {
    /// The file is not there.
    case missing(String)
    case missingDirectory(String)
    /// What should be a directory is none.
    case notDirectory(String)
    /// What should be a file is a directory.
    case isDirectory(String)
    /// The directory may not be passed.
    case closedDirectory(String)
    /// Files may not be made in the directory.
    case unwritableDirectory(String)
    case unreadable(String)
    case unwritable(String)
    case readOnlyFileSystem(String)
    /// A symbolic link that root does not follow, see `WrittenFile`.
    case distrustedLink(String)
}

/// Whether this process, with the rights that it has now, could open files.
public enum FileAccess {
    /// What keeps it from reading a file or directory; nil when nothing does.
    public static func obstacle(toReading path: String) -> FileObstacle? {
        let path = FullPath.of(path)
        if may(path, R_OK) { return nil }
        return obstacle(onTheWayTo: path) ?? (exists(path) ? .unreadable(path) : .missing(path))
    }

    /// What keeps it from writing to a file that is there, or from making one that is not; nil when nothing does.
    public static func obstacle(toWriting path: String) -> FileObstacle? {
        let path = FullPath.of(path)
        if let obstacle = obstacle(onTheWayTo: path) { return obstacle }
        var link = stat()
        if lstat(path, &link) == 0, link.st_mode & S_IFMT == S_IFLNK, !WrittenFile.trustsLink(at: path) {
            return .distrustedLink(path)
        }
        guard let status = SystemCall.status(of: path) else { return obstacle(toMakingFilesIn: directory(of: path)) }
        if status.st_mode & S_IFMT == S_IFDIR { return .isDirectory(path) }
        if may(path, W_OK) { return nil }
        return errno == EROFS ? .readOnlyFileSystem(path) : .unwritable(path)
    }

    /// What keeps it from making files in a directory; nil when nothing does.
    public static func obstacle(toMakingFilesIn path: String) -> FileObstacle? {
        let path = FullPath.of(path)
        if let obstacle = obstacle(onTheWayTo: path) { return obstacle }
        guard let status = SystemCall.status(of: path) else { return .missingDirectory(path) }
        guard status.st_mode & S_IFMT == S_IFDIR else { return .notDirectory(path) }
        if may(path, W_OK | X_OK) { return nil }
        return errno == EROFS ? .readOnlyFileSystem(path) : .unwritableDirectory(path)
    }

    /// The first directory before the last part of a whole path that is missing, no directory, or closed.
    private static func obstacle(onTheWayTo path: String) -> FileObstacle? {
        var place = ""
        for part in path.split(separator: "/").dropLast() {
            place += "/\(part)"
            guard let status = SystemCall.status(of: place) else { return .missingDirectory(place) }
            guard status.st_mode & S_IFMT == S_IFDIR else { return .notDirectory(place) }
            guard may(place, X_OK) else { return .closedDirectory(place) }
        }
        return nil
    }

    private static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return "/" }
        return String(path[..<slash])
    }

    private static func exists(_ path: String) -> Bool { SystemCall.status(of: path) != nil }

    /// By the effective user, whom a broker that root has started may take on for a while.
    private static func may(_ path: String, _ mode: Int32) -> Bool { faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 }
}

/// Users of this machine by their names.
public enum UserName {
    /// The name of a user, nil for a number that nobody has.
    public static func of(_ number: UInt32) -> String? { getpwuid(number).map { String(cString: $0.pointee.pw_name) } }

    /// The user as whom this process acts, to stand in a sentence: `the user martlet`.
    public static var current: String { inWords(geteuid()) }

    /// A user to stand in a sentence: `the user martlet`, `the user with the number 4711`.
    public static func inWords(_ number: UInt32) -> String {
        of(number).map { $0 == "root" ? "root" : "the user \($0)" } ?? "the user with the number \(number)"
    }

    /// The owner of a file, to stand in a sentence; nil when there is no such file.
    public static func owner(of path: String) -> String? { SystemCall.status(of: path).map { inWords($0.st_uid) } }
}

/// Whether a user may read files, by their owner, group and mode and those of the directories above them; and what to
/// type so that he may.
///
/// The table of users is read, so make one before other threads run. Access control lists and capabilities are not
/// looked at, but for those of this process.
public struct ReadRight: Sendable {
    /// The user's name, or its number if it has none.
    public let user: String
    /// The name of the user's own group, or its number.
    public let group: String
    private let userNumber: uid_t
    private let groups: Set<gid_t>
    /// Whether it is this process that wants to read.
    private let isProcess: Bool

    /// The user that this process is.
    public init() {
        self.init(user: geteuid(), group: getegid(), isProcess: true)
    }

    /// A user of this machine; nil if there is none of that name.
    public init?(userNamed name: String) {
        guard let entry = getpwnam(name) else { return nil }
        self.init(user: entry.pointee.pw_uid, group: entry.pointee.pw_gid, isProcess: false)
    }

    private init(user: uid_t, group: gid_t, isProcess: Bool) {
        let name = getpwuid(user).map { String(cString: $0.pointee.pw_name) }
        self.user = name ?? "\(user)"
        self.group = getgrgid(group).map { String(cString: $0.pointee.gr_name) } ?? "\(group)"
        var listed = [gid_t](repeating: group, count: 256)
        var count = Int32(listed.count)
        if isProcess {
            count = getgroups(count, &listed)
        } else if getgrouplist(name ?? "", group, &listed, &count) < 0 {
            count = Int32(listed.count)
        }
        userNumber = user
        groups = Set(listed.prefix(Int(max(0, count))) + [group])
        self.isProcess = isProcess
    }

    /// What keeps the user from reading a file that is there: the file, or the first directory that does not let him
    /// in; nil if nothing does.
    public func obstacle(to path: String) -> String? {
        guard userNumber != 0 else { return nil }
        guard let resolved = realpath(path, nil) else {
            // As another user root sees everything; as this one a directory in between may be closed.
            return isProcess && errno == EACCES ? closedDirectory(above: path) : nil
        }
        defer { free(resolved) }
        let target = String(cString: resolved)
        if let directory = closedDirectory(above: target) { return directory }
        return allows(target, mask: 0o4) ? nil : target
    }

    /// What to do about an obstacle, as sentences without the last full stop; they end in a command to type, if one is
    /// enough.
    ///
    /// A file that another program reads, such as mosquitto, stays as it is: with another group that program would not
    /// start any more.
    public func remedy(for obstacle: String) -> String {
        var status = stat()
        guard stat(obstacle, &status) != 0 || status.st_mode & S_IFMT != S_IFDIR else {
            return "The directory \(obstacle) is closed to that user: put a copy of the file where it may go, such as /etc/martlet"
        }
        guard let holder = OtherHolder.name(of: obstacle, besides: user) else {
            return "Type: chgrp \(group) \(obstacle) && chmod g+r \(obstacle)"
        }
        return "It is there for \(holder), so leave it as it is and name a copy instead. Type: " + copying(obstacle)
    }

    /// The command that gives the user a copy of a file, in the place that the packages have for it.
    private func copying(_ path: String) -> String {
        let place = "/etc/martlet"
        let isThere = access(place, F_OK) == 0
        return "install \(isThere ? "" : "-D ")-g \(group) -m 640 \(path)\(isThere ? " \(place)/" : " -t \(place)")"
    }

    private func closedDirectory(above path: String) -> String? {
        var directory = path.hasPrefix("/") ? "" : "."
        for part in path.split(separator: "/").dropLast() {
            directory += "/\(part)"
            guard allows(directory, mask: 0o1) else { return directory }
        }
        return nil
    }

    /// Whether the mode gives the user the right, 4 to read or 1 to enter. What cannot be looked at is left to the
    /// kernel.
    private func allows(_ path: String, mask: mode_t) -> Bool {
        if isProcess { return faccessat(AT_FDCWD, path, mask == 0o4 ? R_OK : X_OK, AT_EACCESS) == 0 || errno != EACCES }
        var status = stat()
        guard stat(path, &status) == 0 else { return true }
        if status.st_uid == userNumber { return status.st_mode & (mask << 6) != 0 }
        if groups.contains(status.st_gid) { return status.st_mode & (mask << 3) != 0 }
        return status.st_mode & mask != 0
    }
}

/// Paths as messages show them: whole, so that they can be looked up and typed wherever the reader stands.
public enum FullPath {
    /// The path from the root on; as it is if it is whole already, or the directory that the process works in is gone.
    public static func of(_ path: String) -> String {
        guard !path.hasPrefix("/"), let directory = getcwd(nil, 0) else { return path }
        defer { free(directory) }
        let place = String(cString: directory)
        var rest = path[...]
        while rest.hasPrefix("./") { rest = rest.dropFirst(2).drop { $0 == "/" } }
        guard !rest.isEmpty, rest != "." else { return place }
        return place == "/" ? "/\(rest)" : "\(place)/\(rest)"
    }
}

/// Whether a file is there for somebody else, such as mosquitto, which would not start any more if its owner or group
/// were changed.
public enum OtherHolder {
    /// The user or group that needs the file or directory as it is: an owner or a group that is neither root nor the
    /// user, or mosquitto, whose own directories hold it. nil when it can be given to the user.
    ///
    /// - Parameters:
    ///   - path: of something that is there.
    ///   - userName: who is to be let in.
    public static func name(of path: String, besides userName: String) -> String? {
        guard let status = SystemCall.status(of: path) else { return nil }
        let user = getpwnam(userName)?.pointee
        if status.st_uid != 0, status.st_uid != user?.pw_uid { return UserName.of(status.st_uid) ?? "\(status.st_uid)" }
        if status.st_gid != 0, status.st_gid != user?.pw_gid { return groupName(status.st_gid) }
        let isMosquittos = directories.contains { path == $0 || path.hasPrefix($0 + "/") }
        return isMosquittos && userName != "mosquitto" ? "mosquitto" : nil
    }

    /// mosquitto's directories, as its packages make them.
    public static let directories = [
        "/etc/mosquitto", "/var/lib/mosquitto", "/var/log/mosquitto", "/run/mosquitto", "/var/run/mosquitto",
    ]

    private static func groupName(_ number: gid_t) -> String {
        getgrgid(number).map { String(cString: $0.pointee.gr_name) } ?? "the group \(number)"
    }
}

/// Files that are read whole, such as those that an operator writes.
public enum WholeFile {
    /// Why there are no bytes.
    public enum Failure: Error, Equatable, Sendable {
        /// The kernel refused `open` or `read`.
        case refused(SystemError)
        case isDirectory
        /// It is larger than was allowed.
        case isTooLarge
    }

    /// The bytes of a text that an operator writes, without a byte order mark in front.
    public static func text(of path: String, bytesMax: Int) throws(Failure) -> [UInt8] {
        var text = try bytes(of: path, bytesMax: bytesMax)
        ByteOrderMark.drop(from: &text)
        return text
    }

    /// All bytes of a file that exists, at most `bytesMax`.
    public static func bytes(of path: String, bytesMax: Int) throws(Failure) -> [UInt8] {
        do throws(SystemError) {
            let file = try SystemCall.open(path, flags: O_RDONLY)
            defer { file.close() }
            let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 1)
            defer { chunk.deallocate() }
            var bytes: [UInt8] = []
            while bytes.count <= bytesMax {
                let count = try SystemCall.value("read") { read(file.rawValue, chunk.baseAddress, chunk.count) }
                if count == 0 { return bytes }
                bytes += chunk[..<count]
            }
        } catch {
            throw error.errno == EISDIR ? .isDirectory : .refused(error)
        }
        throw .isTooLarge
    }
}

/// A file that the broker writes, perhaps while it still is root, in a directory that may be somebody else's.
///
/// A broker that root starts opens its log and its pid file before it becomes another user, often in a directory of
/// that user. Whoever has got hold of that user could put a symbolic link there and have root write, or give away, any
/// file of the machine. So as root the last part of a path is not followed if it is a link, unless the directory is
/// root's alone: then root has put it there.
public enum WrittenFile {
    /// Opens a file to write at its end; makes it if there is none.
    ///
    /// - Parameters:
    ///   - path: of the file.
    ///   - mode: of a file that is made; readable for its owner and group if it is not given.
    public static func openAppended(_ path: String, mode: UInt32 = 0o640) throws(SystemError) -> FileDescriptor {
        try open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY, mode)
    }

    /// Opens a file to write in place of what it held; makes it if there is none.
    public static func openEmptied(_ path: String, mode: UInt32) throws(SystemError) -> FileDescriptor {
        try open(path, O_WRONLY | O_TRUNC | O_CREAT | O_NOCTTY, mode)
    }

    /// Gives an open file to another user; terminals and the like stay whose they are.
    public static func give(_ file: FileDescriptor, toUser user: UInt32, group: UInt32) {
        var status = stat()
        guard fstat(file.rawValue, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return }
        // What cannot be given is told when it is opened the next time.
        _ = fchown(file.rawValue, user, group)
    }

    /// Whether a symbolic link in the directory of a path is somebody's whom this process can trust: it has no more
    /// rights than that user, or only root can have put it there.
    public static func trustsLink(at path: String) -> Bool {
        guard geteuid() == 0 else { return true }
        let directory = Glibc.open(parts(of: path).directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { return false }
        defer { close(directory) }
        return isRootsAlone(directory)
    }

    private static func open(_ path: String, _ flags: Int32, _ mode: UInt32) throws(SystemError) -> FileDescriptor {
        guard geteuid() == 0 else {
            return FileDescriptor(rawValue: Int32(try SystemCall.value("open") { Glibc.open(path, flags | O_CLOEXEC, mode) }))
        }
        let (directory, name) = parts(of: path)
        let place = try SystemCall.open(directory, flags: O_RDONLY | O_DIRECTORY)
        defer { place.close() }
        let linkFlag = isRootsAlone(place.rawValue) ? 0 : O_NOFOLLOW
        let opened = try SystemCall.value("open") { openat(place.rawValue, name, flags | linkFlag | O_CLOEXEC, mode) }
        return FileDescriptor(rawValue: Int32(opened))
    }

    private static func isRootsAlone(_ directory: Int32) -> Bool {
        var status = stat()
        return fstat(directory, &status) == 0 && status.st_uid == 0 && status.st_mode & (S_IWGRP | S_IWOTH) == 0
    }

    private static func parts(of path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        return (slash == path.startIndex ? "/" : String(path[..<slash]), String(path[path.index(after: slash)...]))
    }
}

/// A file without a name, for this process alone: the kernel takes it back when the last use of it is over, also after
/// a crash.
///
/// Owned by whoever made it, and used on one thread at a time.
public final class NamelessFile {
    private let file: FileDescriptor
    private var length: Int = 0

    /// Makes one in a directory that this process may write to. It has a name that nobody can know for a moment.
    public init(in directory: String) throws(SystemError) {
        let path = "\(directory)/.martlet-\(String(RandomBytes.seed(), radix: 16))"
        let flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        file = FileDescriptor(rawValue: Int32(try SystemCall.value("open") { Glibc.open(path, flags, 0o600) }))
        try SystemCall.remove(path)
    }

    deinit { file.close() }

    /// Writes behind what is there, all of it or nothing: what is written of bytes that do not fit is overwritten by
    /// the next.
    public func append(_ bytes: [UInt8]) throws(SystemError) {
        var written = 0
        while written < bytes.count {
            written += try SystemCall.value("pwrite") {
                bytes.withUnsafeBytes {
                    pwrite(file.rawValue, $0.baseAddress.map { $0 + written }, $0.count - written, off_t(length + written))
                }
            }
        }
        length += bytes.count
    }

    /// What stands from an offset on, at most so many bytes.
    public func bytes(from offset: Int, count: Int) throws(SystemError) -> [UInt8] {
        let wanted = min(count, max(0, length - offset))
        var bytes = [UInt8](repeating: 0, count: wanted)
        var read = 0
        while read < wanted {
            let count = try SystemCall.value("pread") {
                bytes.withUnsafeMutableBytes {
                    pread(file.rawValue, $0.baseAddress.map { $0 + read }, wanted - read, off_t(offset + read))
                }
            }
            guard count > 0 else { break }
            read += count
        }
        return Array(bytes[..<read])
    }
}

/// A file that is open for reading, from any place in it. It stays the same one whatever its name stands for meanwhile.
public final class ReadFile {
    private let file: FileDescriptor
    /// How many bytes it had when it was opened.
    public let byteCount: Int

    /// Opens a file; nil when it is none, but a directory or a pipe. Waits for nobody.
    public init?(_ path: String) throws(SystemError) {
        file = try SystemCall.open(path, flags: O_RDONLY | O_NONBLOCK)
        var status = stat()
        guard fstat(file.rawValue, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            file.close()
            return nil
        }
        byteCount = Int(status.st_size)
    }

    deinit { file.close() }

    /// What stands from an offset on, at most so many bytes.
    public func bytes(from offset: Int, count: Int) throws(SystemError) -> [UInt8] {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, count), alignment: 1)
        defer { room.deallocate() }
        let read = try SystemCall.value("pread") { pread(file.rawValue, room.baseAddress, count, off_t(offset)) }
        return Array(room[..<read])
    }
}

/// U+FEFF in UTF-8, which some editors put in front of a text: it belongs to no line.
public enum ByteOrderMark {
    public static let bytes: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Takes it away from the front of a text.
    ///
    /// - Returns: whether it stood there.
    @discardableResult
    public static func drop(from text: inout [UInt8]) -> Bool {
        guard text.starts(with: bytes) else { return false }
        text.removeFirst(bytes.count)
        return true
    }
}
