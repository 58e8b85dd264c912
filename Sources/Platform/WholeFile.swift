internal import Glibc

/// Files that are read whole, such as those that an operator writes.
public enum WholeFile {
    /// Why there are no bytes.
    public enum Failure: Error, Equatable, Sendable {
        /// The kernel refused `open` or `read`.
        case refused(SystemError)
        case isDirectory
        /// It is larger than was allowed.
        case isTooLarge
    }

    /// The same of a text that an operator writes, without a byte order mark in front.
    public static func text(of path: String, bytesMax: Int) throws(Failure) -> [UInt8] {
        var text = try bytes(of: path, bytesMax: bytesMax)
        ByteOrderMark.drop(from: &text)
        return text
    }

    /// All bytes of a file that exists, at most `bytesMax`.
    public static func bytes(of path: String, bytesMax: Int) throws(Failure) -> [UInt8] {
        do throws(SystemError) {
            let file = try SystemCall.open(path, flags: O_RDONLY)
            defer { file.close() }
            let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 1)
            defer { chunk.deallocate() }
            var bytes: [UInt8] = []
            while bytes.count <= bytesMax {
                let count = try SystemCall.value("read") { read(file.rawValue, chunk.baseAddress, chunk.count) }
                if count == 0 { return bytes }
                bytes += chunk[..<count]
            }
        } catch {
            throw error.errno == EISDIR ? .isDirectory : .refused(error)
        }
        throw .isTooLarge
    }
}
