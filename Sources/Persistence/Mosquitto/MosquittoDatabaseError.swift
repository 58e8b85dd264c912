/// Why a file is not taken for mosquitto's database, and where in it.
public struct MosquittoDatabaseError: Error, Equatable, CustomStringConvertible {
    public enum Reason: Equatable, Sendable {
        /// It does not begin as mosquitto's files do.
        case notADatabase
        /// The file has a format that is not known here.
        case version(UInt32)
        /// It ends, or a length says that it ends, before all is there that has to be.
        case truncated
        /// It has a kind of chunk that is not known here.
        case unknownChunk(UInt32)
        /// A chunk holds more bytes than it has a use for.
        case excess(Int)
        /// A value that no broker would have written; the words end the sentence.
        case illegal(String)
    }

    /// Counted from the beginning of the file.
    public let offset: Int
    /// The kind of chunk that it stands in; nil outside of chunks.
    public let chunk: MosquittoChunk?
    public let reason: Reason

    init(_ reason: Reason, at offset: Int, in chunk: MosquittoChunk?) {
        self.offset = offset
        self.chunk = chunk
        self.reason = reason
    }

    public var description: String {
        let place = "byte \(offset)" + (chunk.map { ", in the record of \($0.words)" } ?? "")
        return switch reason {
        case .notADatabase: "this is not a database of mosquitto: it does not begin like one"
        case .version(let version):
            "its format has version \(version), and this program reads versions "
                + "\(MosquittoDatabase.versions.lowerBound) to \(MosquittoDatabase.versions.upperBound)"
        case .truncated: "\(place): it ends too early"
        case .unknownChunk(let number): "\(place): records of kind \(number) are not known"
        case .excess(let count): "\(place): there are \(count) bytes too many"
        case .illegal(let words): "\(place): \(words)"
        }
    }
}
