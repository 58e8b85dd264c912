import HTTP
import Platform

/// A file on the disk that is sent piece by piece: none of it stays in memory.
final class OpenFile: HTTPContent {
    private let file: ReadFile

    init(_ file: ReadFile) { self.file = file }

    var byteCount: Int { file.byteCount }
    var heldByteCount: Int { 0 }

    func bytes(from offset: Int, count: Int) -> [UInt8] { (try? file.bytes(from: offset, count: count)) ?? [] }
}
