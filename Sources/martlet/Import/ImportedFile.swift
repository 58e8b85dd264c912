import Configuration
import Glibc
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

    /// What is at a path, through symbolic links.
    @Sendable static func kind(of path: String) -> ImportSource.Kind {
        var status = stat()
        guard stat(path, &status) == 0 else { return .missing }
        return status.st_mode & S_IFMT == S_IFDIR ? .directory : .file
    }

    /// Opens the source to be read; nil with `errno` when that is not possible. As root no symbolic link is followed that somebody else may have
    /// put there: the copy would show him a file that only root may read.
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
