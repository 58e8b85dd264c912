import Configuration
import Glibc
import MartletServer
import Platform

/// Writes the files of an import: all of them, or none. Each is made beside its place first, and the last one is there before any is renamed.
struct ImportTransaction {
    /// What went wrong, as a sentence.
    struct Failure: Error {
        let description: String

        fileprivate init(_ path: String, _ operation: String) {
            description = "\(path): \(operation): \(strerror(errno).map { String(cString: $0) } ?? "error \(errno)")."
        }
    }

    /// Those that are not there as they would be written.
    private let files: [ImportedFile]
    private let owner: ImportOwner
    /// Directories that the broker needs, with or without files: that of the configuration, and the store's if it has one.
    private let directories: [(path: String, isOfState: Bool)]
    private let replaces: Bool

    /// - Parameters:
    ///   - files: in any order; configurations are put in their place last.
    ///   - owner: of directories that are made.
    ///   - directories: made if they are not there.
    ///   - replaces: whether other files in their places are kept under another name, else they are in the way.
    init(_ files: [ImportedFile], owner: ImportOwner, directories: [(path: String, isOfState: Bool)], replaces: Bool) {
        let missing = files.filter { !$0.isThere }
        self.files = missing.filter { $0.text == nil } + missing.filter { $0.text != nil }.reversed()
        self.owner = owner
        self.directories = directories
        self.replaces = replaces
    }

    /// What keeps it from being done, as sentences.
    func obstacles() -> [String] {
        var found: [String] = []
        let paths = files.map(\.destination) + directories.map { "\($0.path)/file" }
        for place in Set(paths.map { Self.existingDirectory(above: $0) }).sorted() {
            guard let obstacle = FileAccess.obstacle(toMakingFilesIn: place) else { continue }
            found.append(
                geteuid() == 0
                    ? "\(place): \(obstacle)."
                    : "\(UserName.current) may not make files in \(place). Type it with sudo, or name another directory with --to.")
        }
        for file in files {
            if let descriptor = file.text == nil ? ImportedFile.open(file.source) : -1 {
                if descriptor >= 0 { close(descriptor) }
            } else {
                let reason =
                    errno == ELOOP
                    ? "is a symbolic link in a directory that is not root's alone, which root does not follow" : "cannot be read"
                found.append("\(file.source) \(reason).")
            }
        }
        let taken = files.map(\.destination).filter { Self.isThere($0) }
        guard !taken.isEmpty, !replaces else { return found }
        return found + [
            "\(taken.count == 1 ? "this file is" : "these files are") there and different: \(taken.joined(separator: ", ")). With --force they are replaced, "
                + "and kept as NAME.old."
        ]
    }

    func run() throws(Failure) {
        var made = Made()
        do throws(Failure) {
            for directory in directories { try makeDirectory(directory.path, isOfState: directory.isOfState, &made) }
            for file in files { try stage(file, &made) }
            for file in files { try put(file, &made) }
        } catch {
            made.undo()
            throw error
        }
        for directory in Set(files.map { Self.directory(of: $0.destination) }) { Self.synchronize(directory) }
    }

    // MARK: Steps

    /// What was done so far.
    private struct Made {
        var directories: [String] = []
        /// Written beside their places.
        var staged: [String] = []
        /// In their places, and the names of what was there.
        var placed: [(path: String, former: String?)] = []

        /// Takes everything back.
        func undo() {
            for (path, former) in placed.reversed() {
                if let former { rename(former, path) } else { unlink(path) }
            }
            for path in staged { unlink(path) }
            for path in directories.reversed() { rmdir(path) }
        }
    }

    private func stage(_ file: ImportedFile, _ made: inout Made) throws(Failure) {
        try makeDirectory(Self.directory(of: file.destination), isOfState: file.mode == 0o600, &made)
        let path = Self.stagedPath(of: file)
        unlink(path)
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure(path, "cannot be made") }
        made.staged.append(path)
        defer { close(descriptor) }
        let isWhole = file.read { piece in
            var rest = piece
            while !rest.isEmpty {
                let count = write(descriptor, rest.baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
            return true
        }
        guard isWhole else { throw Failure(file.destination, "cannot be copied from \(file.source)") }
        if owner.names != nil {
            guard fchown(descriptor, file.user, file.group) == 0 else { throw Failure(file.destination, "cannot be given away") }
        }
        guard fchmod(descriptor, file.mode) == 0, fsync(descriptor) == 0 else {
            throw Failure(file.destination, "cannot be written")
        }
    }

    private func put(_ file: ImportedFile, _ made: inout Made) throws(Failure) {
        var former: String?
        if Self.isThere(file.destination) {
            let name = Self.freeName("\(file.destination).old")
            guard link(file.destination, name) == 0 else { throw Failure(file.destination, "cannot be kept as \(name)") }
            former = name
        }
        let staged = Self.stagedPath(of: file)
        guard rename(staged, file.destination) == 0 else {
            let failure = Failure(file.destination, "cannot be put in its place")
            if let former { unlink(former) }
            throw failure
        }
        made.staged.removeAll { $0 == staged }
        made.placed.append((file.destination, former))
    }

    private func makeDirectory(_ path: String, isOfState: Bool, _ made: inout Made) throws(Failure) {
        guard ImportedFile.kind(of: path) == .missing else { return }
        try makeDirectory(Self.directory(of: path), isOfState: false, &made)
        guard mkdir(path, isOfState ? 0o700 : 0o755) == 0 else { throw Failure(path, "cannot be made") }
        made.directories.append(path)
        guard owner.take(directory: path, isOfState: isOfState) else { throw Failure(path, "cannot be given away") }
    }

    // MARK: Paths

    private static func isThere(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// A name that no include_dir reads.
    private static func stagedPath(of file: ImportedFile) -> String {
        let name = file.destination.split(separator: "/").last ?? ""
        return "\(directory(of: file.destination))/.\(name).import-\(getpid())"
    }

    private static func freeName(_ path: String) -> String {
        guard isThere(path) else { return path }
        return (2...).lazy.map { "\(path)\($0)" }.first { !isThere($0) } ?? path
    }

    private static func existingDirectory(above path: String) -> String {
        let directory = directory(of: path)
        return directory == "/" || isThere(directory) ? directory : existingDirectory(above: directory)
    }

    private static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return "/" }
        return String(path[..<slash])
    }

    private static func synchronize(_ directory: String) {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }
}
