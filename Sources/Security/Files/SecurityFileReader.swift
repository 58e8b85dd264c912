internal import Platform

/// Reads a file of users, rules or keys from the disk.
enum SecurityFileReader {
    static func contents(of path: String) throws(SecurityFileError) -> [UInt8] {
        do throws(WholeFile.Failure) {
            return try WholeFile.bytes(of: path, bytesMax: Limits.fileBytesMax)
        } catch {
            switch error {
            case .isDirectory: throw SecurityFileError(file: path, message: "is a directory.")
            case .isTooLarge: throw SecurityFileError(file: path, message: "is larger than \(Limits.fileBytesMax >> 20) MiB.")
            case .refused(let error):
                let what = error.operation.description == "open" ? "cannot be opened" : "cannot be read"
                throw SecurityFileError(file: path, message: "\(what): \(error.reason).")
            }
        }
    }
}
