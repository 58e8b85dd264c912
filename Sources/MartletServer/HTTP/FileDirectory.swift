import Glibc
import HTTP
import Platform

/// The files below a directory that an operator offers: `http_dir`. Belongs to the control thread.
///
/// Nothing outside the directory is reached: not by dots, not by links, and files whose names begin with a dot are not there.
final class FileDirectory {
    private struct State: Equatable {
        let inode: UInt64
        let size: Int
        let seconds: Int
        let nanoseconds: Int
    }

    /// The directory without links, with a slash at its end.
    private let root: String
    /// Small files that were asked for, by their path.
    private var kept: [String: (state: State, file: StaticFile)] = [:]
    private(set) var keptBytes = 0

    init(path: String) {
        let whole = Self.resolved(path) ?? FullPath.of(path)
        root = whole.hasSuffix("/") ? whole : whole + "/"
    }

    /// The answer to a GET or HEAD.
    func answer(to request: HTTPRequest) -> HTTPResponse {
        var names = request.segments
        let isDirectory = names.isEmpty || names.last == ""
        if isDirectory { names = names.dropLast() + ["index.html"] }
        guard names.allSatisfy({ !$0.isEmpty && !$0.hasPrefix(".") && !$0.utf8.contains(UInt8(ascii: "/")) }),
            let path = Self.resolved(root + names.joined(separator: "/")), path.hasPrefix(root)
        else { return Self.notFound }
        let name = names.last ?? ""
        var status = stat()
        guard stat(path, &status) == 0 else { return Self.notFound }
        if status.st_mode & S_IFMT == S_IFDIR {
            return HTTPResponse(.permanentRedirect, fields: ["Location": request.target.encodedPath + "/"])
        }
        guard status.st_mode & S_IFMT == S_IFREG else { return Self.notFound }
        let state = State(
            inode: UInt64(status.st_ino), size: Int(status.st_size), seconds: status.st_mtim.tv_sec,
            nanoseconds: status.st_mtim.tv_nsec)
        return file(path, name, state)?.answer(to: request) ?? Self.notFound
    }

    /// The file as it is now; nil when it cannot be read, or is too large.
    private func file(_ path: String, _ name: String, _ state: State) -> StaticFile? {
        if let known = kept[path], known.state == state { return known.file }
        let tag =
            String(state.inode, radix: 36) + "-" + String(state.size, radix: 36) + "-" + String(state.seconds, radix: 36)
            + "-" + String(state.nanoseconds, radix: 36)
        guard state.size <= Limits.keptFileBytesEachMax else {
            guard state.size <= Limits.fileBytesMax, let open = try? ReadFile(path), open.byteCount == state.size else {
                return nil
            }
            return StaticFile(OpenFile(open), name: name, tag: tag, modified: Int64(state.seconds))
        }
        guard let bytes = try? WholeFile.bytes(of: path, bytesMax: Limits.keptFileBytesEachMax) else { return nil }
        let file = StaticFile(bytes, name: name, tag: tag, modified: Int64(state.seconds))
        if let known = kept[path] { forget([path: known]) }
        if keptBytes + file.byteCount > Limits.keptFileBytesMax { forget(kept) }
        kept[path] = (state, file)
        keptBytes += file.byteCount
        return file
    }

    private func forget(_ files: [String: (state: State, file: StaticFile)]) {
        for (path, known) in files {
            kept[path] = nil
            known.file.isKept = false
            keptBytes -= known.file.byteCount
        }
    }

    /// The path without links and dots; nil when nothing is there.
    private static func resolved(_ path: String) -> String? {
        guard let text = realpath(path, nil) else { return nil }
        defer { free(text) }
        return String(cString: text)
    }

    static var notFound: HTTPResponse { .text("Not found.\n", status: .notFound) }
}
