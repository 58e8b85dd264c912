import Glibc
public import Platform

/// Dynamic security of one file: keeps it, performs commands on it, and tells the directory that the loops ask.
///
/// Belongs to one thread; `directory` is for all.
public final class SecurityDocument {
    public let path: String
    public let directory: SecurityDirectory
    private var dispatcher: SecurityDispatcher
    /// Of the file as it was read or saved last.
    private var state: FileState?

    /// What has become of a message of commands.
    public struct Answer: Sendable {
        /// JSON: `{"responses":[…]}`.
        public let text: [UInt8]
        /// The changes that are to be brought to the loops; empty if nothing was changed, or if it could not be saved.
        public let changes: SecurityChanges
        /// For the log.
        public let lines: [String]
        /// Why nothing is saved; nil if it is.
        public let failure: String?
    }

    /// Takes a file that was read.
    public init(path: String, model: SecurityModel) {
        self.path = path
        dispatcher = SecurityDispatcher(model)
        directory = SecurityDirectory(model)
    }

    /// Opens the file at `path`.
    public convenience init(path: String) throws(SecurityFileError) {
        let state = FileState(of: path)
        self.init(path: path, model: try Self.model(readingFrom: path))
        self.state = state
    }

    /// Whether somebody else has written the file since it was read or saved. It is not read again: what stands there
    /// goes with the next change that is saved.
    public var isWrittenByOthers: Bool { state.map { $0 != FileState(of: path) } ?? false }

    /// What keeps this process, with the rights that it has now, from saving changes to a file; nil when nothing does.
    public static func obstacle(toSaving path: String) -> FileObstacle? {
        guard let obstacle = FileAccess.obstacle(toWriting: path) else { return nil }
        // In a directory of one's own another one takes its place, whoever may write to it.
        let whole = FullPath.of(path)
        let directory = whole.lastIndex(of: "/").map { $0 == whole.startIndex ? "/" : String(whole[..<$0]) } ?? "/"
        if case .unwritable = obstacle { return FileAccess.obstacle(toMakingFilesIn: directory) == nil ? nil : obstacle }
        return obstacle
    }

    /// The clients, groups and roles of the file at `path`.
    public static func model(readingFrom path: String) throws(SecurityFileError) -> SecurityModel {
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.text(of: path, bytesMax: Limits.securityDocumentBytesMax)
        } catch {
            switch error {
            case .isDirectory: throw SecurityFileError(file: path, message: "is a directory.")
            case .isTooLarge:
                throw SecurityFileError(file: path, message: "is larger than \(Limits.securityDocumentBytesMax >> 20) MiB.")
            case .refused(let error): throw SecurityFileError(file: path, message: "cannot be read: \(error.reason).")
            }
        }
        do throws(SecurityFile.Complaint) {
            return try SecurityFile.model(reading: bytes)
        } catch {
            throw SecurityFileError(file: path, message: "\(error)")
        }
    }

    public var model: SecurityModel { dispatcher.model }

    /// Performs the commands of a message and saves what they change, once. What cannot be saved is not changed.
    public func perform(_ request: SecurityRequest, _ context: SecurityContext) -> Answer {
        let proposal = propose(request, context)
        guard !proposal.isEmpty else { return proposal.answer() }
        if let failure = save(proposal.model) {
            return proposal.answer(failure: "The change is not saved and not made: \(failure)")
        }
        adopt(proposal.model, proposal.outcome.changes)
        return proposal.answer()
    }

    /// What commands of a message would change. `make` has to follow where they are to do so.
    public struct Proposal: Sendable {
        let model: SecurityModel
        let outcome: SecurityDispatcher.Outcome

        /// Whether nothing would be another.
        public var isEmpty: Bool { outcome.changes.isEmpty }

        /// The file with the changes.
        public var bytes: [UInt8] { SecurityFile.bytes(of: model) }

        /// - Parameter failure: why nothing is changed; nil if it is.
        public func answer(failure: String? = nil) -> Answer {
            Answer(
                text: outcome.text(failure: failure), changes: failure == nil ? outcome.changes : SecurityChanges(),
                lines: failure == nil ? outcome.lines : [], failure: failure)
        }
    }

    /// Performs the commands of a message without changing anything.
    public func propose(_ request: SecurityRequest, _ context: SecurityContext) -> Proposal {
        let before = dispatcher.model
        let outcome = dispatcher.perform(request, context)
        let model = dispatcher.model
        dispatcher.model = before
        return Proposal(model: model, outcome: outcome)
    }

    /// Makes the changes that others hold good already, whether the file takes them or not.
    ///
    /// - Returns: the answer, and why the file is an old one now; nil if it is not.
    public func make(_ proposal: Proposal) -> (answer: Answer, complaint: String?) {
        adopt(proposal.model, proposal.outcome.changes)
        return (proposal.answer(), save(proposal.model))
    }

    /// Takes over clients, groups and roles that others have changed.
    ///
    /// - Returns: what is to be brought to the loops, and why the file is an old one now; nil if it is not.
    public func adopt(_ model: SecurityModel) -> (changes: SecurityChanges, complaint: String?) {
        let changes = SecurityChanges(from: dispatcher.model, to: model)
        adopt(model, changes)
        return (changes, save(model))
    }

    private func adopt(_ model: SecurityModel, _ changes: SecurityChanges) {
        dispatcher.model = model
        directory.apply(changes, of: model)
    }

    /// - Returns: what has kept it from being saved; nil for nothing.
    private func save(_ model: SecurityModel) -> String? {
        do throws(FileReplacement.Failure) {
            try Self.save(model, to: path)
        } catch {
            return "\(path) \(error)"
        }
        state = FileState(of: path)
        return nil
    }

    /// Puts a file in the place of the one at `path`; where none can be made or replaced, as in a container with one
    /// file of its own, it is written over.
    public static func save(_ model: SecurityModel, to path: String) throws(FileReplacement.Failure) {
        let bytes = SecurityFile.bytes(of: model)
        do throws(FileReplacement.Failure) {
            try FileReplacement.write(bytes, to: path)
        } catch {
            guard [EACCES, EPERM, EROFS, EBUSY, EXDEV].contains(error.number), access(path, W_OK) == 0 else { throw error }
            try FileReplacement.overwrite(path, with: bytes)
        }
    }
}

/// What tells whether a file is another than it was.
private struct FileState: Equatable {
    private let device: UInt64
    private let inode: UInt64
    private let byteCount: Int64
    private let seconds: Int64
    private let nanoseconds: Int64

    /// Nil where there is none.
    init?(of path: String) {
        guard let status = SystemCall.status(of: path) else { return nil }
        (device, inode, byteCount) = (UInt64(status.st_dev), UInt64(status.st_ino), Int64(status.st_size))
        (seconds, nanoseconds) = (Int64(status.st_mtim.tv_sec), Int64(status.st_mtim.tv_nsec))
    }
}
