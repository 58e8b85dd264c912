internal import Glibc

/// A file that the broker writes, perhaps while it still is root, in a directory that may be somebody else's.
///
/// A broker that root starts opens its log and its pid file before it becomes another user, often in a directory of that user. Whoever has got
/// hold of that user could put a symbolic link there and have root write, or give away, any file of the machine. So as root the last part of a
/// path is not followed if it is a link, unless the directory is root's alone: then root has put it there.
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

    /// Whether a symbolic link in the directory of a path is somebody's whom this process can trust: it has no more rights than that user, or
    /// only root can have put it there.
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
