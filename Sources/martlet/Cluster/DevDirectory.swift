import Glibc
import Platform

/// Where a cluster on trial has its files: a directory of its own, marked as one, so that nobody else's files are ever removed.
struct DevDirectory {
    let path: String
    /// Whether it stays when the cluster ends.
    let isKept: Bool
    /// Whether there was none before.
    private let isMade: Bool

    /// Makes it, or takes up one that was kept.
    init(_ given: String?, keeps: Bool) throws(DevFailure) {
        guard let given else {
            var template = Array("/tmp/martlet-cluster-XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else { throw Self.failure("/tmp") }
            path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            (isKept, isMade) = (keeps, true)
            try mark()
            return
        }
        guard given.utf8.count <= Self.pathBytesMost else {
            throw DevFailure(
                "\(given): the path is longer than \(Self.pathBytesMost) bytes, and the sockets in it would have none.")
        }
        guard !given.contains(where: { $0.isNewline || $0 == "\"" || $0 == "\\" }) else {
            throw DevFailure("\(given): the configurations cannot hold quotes, backslashes and line breaks.")
        }
        path = given
        isMade = mkdir(given, 0o700) == 0
        if isMade {
            isKept = keeps
            try mark()
            return
        }
        guard errno == EEXIST, let names = Self.names(in: given) else { throw Self.failure(given) }
        let isMarked = names.contains(Self.markName)
        guard isMarked || names.isEmpty else {
            throw DevFailure("\(given) holds files that are not of `martlet cluster dev`; name a new directory.")
        }
        isKept = keeps || isMarked
        if !isMarked { try mark() }
    }

    /// Removes what is not kept, unless somebody goes on working there: a member of the cluster that was started again by hand.
    func end() {
        guard !isKept else { return }
        let writers = DirectoryWriters(below: path).names
        guard writers.isEmpty else {
            return Console.say(
                "\(path) is kept, because \(writers.joined(separator: ", ")) \(writers.count == 1 ? "writes" : "write") to files in it. "
                    + "End \(writers.count == 1 ? "it" : "them"), and remove the directory.")
        }
        for name in Self.names(in: path) ?? [] { Self.remove("\(path)/\(name)") }
        if isMade { rmdir(path) }
    }

    private func mark() throws(DevFailure) {
        let words = "What is in this directory belongs to `martlet cluster dev`.\n"
        do throws(SystemError) {
            let file = try WrittenFile.openEmptied("\(path)/\(Self.markName)", mode: 0o600)
            Console.put(words, to: file.rawValue)
            file.close()
        } catch {
            throw DevFailure("\(path): \(error.reason).")
        }
    }

    /// Links are removed, and never followed.
    private static func remove(_ path: String) {
        guard unlink(path) != 0 else { return }
        for name in names(in: path) ?? [] { remove("\(path)/\(name)") }
        rmdir(path)
    }

    /// nil where there is no directory that can be read.
    static func names(in path: String) -> [String]? {
        guard let directory = opendir(path) else { return nil }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    private static func failure(_ path: String) -> DevFailure {
        DevFailure("\(path): \(SystemError(errno: errno, operation: "mkdir").reason).")
    }

    private static let markName = "martlet-cluster-dev"

    /// A socket's path has 107 bytes, of which `/node-9.sock` are some.
    private static let pathBytesMost = 92
}
