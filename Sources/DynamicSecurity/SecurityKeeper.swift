import Glibc
import Platform
public import Security

/// Dynamic security of one file: keeps it, performs commands on it, and tells the directory that the loops ask.
///
/// Belongs to one thread; `directory` is for all.
public final class SecurityKeeper {
    public let path: String
    public let directory: SecurityDirectory
    private var dispatcher: SecurityDispatcher

    /// What has become of a message of commands.
    public struct Answer: Sendable {
        /// JSON: `{"responses":[…]}`.
        public let text: [UInt8]
        /// What is to be brought to the loops; empty if nothing was changed, or if it could not be saved.
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
        self.init(path: path, model: try Self.model(readingFrom: path))
    }

    /// The clients, groups and roles of the file at `path`.
    public static func model(readingFrom path: String) throws(SecurityFileError) -> SecurityModel {
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.bytes(of: path, bytesMax: Limits.fileBytesMax)
        } catch {
            switch error {
            case .isDirectory: throw SecurityFileError(file: path, message: "is a directory.")
            case .isTooLarge: throw SecurityFileError(file: path, message: "is larger than \(Limits.fileBytesMax >> 20) MiB.")
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
        let before = dispatcher.model
        let outcome = dispatcher.perform(request, context)
        guard !outcome.changes.isEmpty else {
            return Answer(text: outcome.text(), changes: outcome.changes, lines: outcome.lines, failure: nil)
        }
        do throws(FileReplacement.Failure) {
            try Self.save(dispatcher.model, to: path)
        } catch {
            dispatcher.model = before
            let failure = "The change is not saved and not made: \(path) \(error)"
            return Answer(text: outcome.text(failure: failure), changes: SecurityChanges(), lines: [], failure: failure)
        }
        directory.apply(outcome.changes, of: dispatcher.model)
        return Answer(text: outcome.text(), changes: outcome.changes, lines: outcome.lines, failure: nil)
    }

    /// Puts a file in the place of the one at `path`; where none can be made or replaced, as in a container with one file of its own, it is
    /// written over.
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
