/// Where configuration files come from: the disk, or a dictionary in a test.
public protocol FileSource: Sendable {
    /// The bytes of the file at `path`. A file of more than `bytesMax` bytes is refused.
    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8]

    /// The names, without the directory, of everything in the directory at `path`, in any order.
    func names(inDirectory path: String) throws(FileFailure) -> [String]
}

/// A file or directory could not be read.
public struct FileFailure: Error, Sendable, Equatable {
    /// The system call, or what was attempted.
    public var operation: String
    /// Of the file or directory, whole where it is one of this machine.
    public var path: String
    /// errno, or 0 when the system is not to blame.
    public var errorNumber: Int32
    /// The reason in words, without a full stop.
    public var reason: String

    public init(operation: String, path: String, errorNumber: Int32, reason: String) {
        self.operation = operation
        self.path = path
        self.errorNumber = errorNumber
        self.reason = reason
    }
}
