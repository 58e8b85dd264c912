internal import Glibc
internal import Platform

/// The file that a report is written to: as a whole or not at all.
///
/// Whether it can be written is found out when this is made, before anything is measured. Until `write` nothing of it
/// is to be seen: a run that is broken off leaves the file as it was.
public struct ReportFile: Sendable {
    private let path: String
    /// Where the file lies that is written: behind a symbolic link, what it points to.
    private let target: String
    /// Beside it, to be renamed when it is complete.
    private let temporary: String

    /// Throws why the file cannot be written.
    ///
    /// - Parameter path: of the file; one that exists is replaced, and keeps its mode.
    public init(_ path: String) throws(BenchError) {
        self.path = path
        let target = Self.behindLinks(path)
        let (directory, name) = Self.parts(of: target)
        guard !name.isEmpty else { throw .file("--html \(path): names a directory; name a file in it.") }
        if let mode = Self.mode(of: target), mode & S_IFMT != S_IFREG {
            throw .file("--html \(path): is \(mode & S_IFMT == S_IFDIR ? "a directory; name a file in it" : "no ordinary file").")
        }
        (self.target, temporary) = (target, "\(directory).\(name).\(getpid())")
        do throws(SystemError) {
            try make().close()
        } catch {
            let place = directory.isEmpty ? "the current directory" : directory
            throw .file("--html \(path): no file can be written in \(place): \(error.reason).")
        }
        unlink(temporary)
    }

    private static func behindLinks(_ path: String) -> String {
        let resolved = realpath(path, nil)
        defer { free(resolved) }
        return resolved.map { String(cString: $0) } ?? path
    }

    /// The directory with its slash, empty for the current one, and the name in it.
    private static func parts(of path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return ("", path) }
        return (String(path[...slash]), String(path[path.index(after: slash)...]))
    }

    /// Puts the text in place of what the file held. Throws, with the file as it was, when there is no room.
    ///
    /// - Parameter text: all of the report.
    public func write(_ text: String) throws(BenchError) {
        do throws(SystemError) {
            let file = try make()
            defer { file.close() }
            try put(text, file)
            if let mode = Self.mode(of: target) { fchmod(file.rawValue, mode & 0o7777) }
            try SystemCall.value("fsync") { fsync(file.rawValue) }
            try SystemCall.value("rename") { rename(temporary, target) }
        } catch {
            unlink(temporary)
            throw .file("--html \(path): cannot be written: \(error.reason).")
        }
    }

    private func make() throws(SystemError) -> FileDescriptor {
        let opened = try SystemCall.value("open") { open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666) }
        return FileDescriptor(rawValue: Int32(opened))
    }

    private func put(_ text: String, _ file: FileDescriptor) throws(SystemError) {
        let bytes = Array(text.utf8)
        var written = 0
        while written < bytes.count {
            let outcome = bytes[written...].withUnsafeBytes { rest in
                SystemCall.outcome("write") { Glibc.write(file.rawValue, rest.baseAddress, rest.count) }
            }
            switch outcome {
            case .done(let count): written += count
            case .wouldBlock: throw SystemCall.notNow("write")
            case .failed(let error): throw error
            }
        }
    }

    private static func mode(of path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode : nil
    }
}
