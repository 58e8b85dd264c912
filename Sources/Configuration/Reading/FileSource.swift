/// Where configuration files come from: the disk, or a dictionary in a test.
public protocol FileSource: Sendable {
    /// The bytes of the file at `path`. A file of more than `bytesMax` bytes is refused.
    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8]

    /// The names, without the directory, of everything in the directory at `path`, in any order.
    func names(inDirectory path: String) throws(FileFailure) -> [String]
}
