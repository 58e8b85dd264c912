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

    /// Whom a file belongs to, to stand in a sentence; nil when there is no such file.
    public static func owner(of path: String) -> String? { SystemCall.status(of: path).map { inWords($0.st_uid) } }
}
