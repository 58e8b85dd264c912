internal import HTTP

/// How far a body of known length is sent.
final class ContentReader {
    private let content: any HTTPContent
    private var offset = 0

    init(_ content: any HTTPContent) { self.content = content }

    var isAtEnd: Bool { offset >= content.byteCount }
    var heldByteCount: Int { content.heldByteCount }

    /// The next piece; empty when there is none to be had.
    func take(_ count: Int) -> [UInt8] {
        let piece = content.bytes(from: offset, count: min(count, content.byteCount - offset))
        offset += piece.count
        return piece
    }
}

/// A body that is whole already.
final class WholeContent: HTTPContent {
    private let whole: [UInt8]

    init(_ whole: [UInt8]) { self.whole = whole }

    var byteCount: Int { whole.count }
    var heldByteCount: Int { whole.count }

    func bytes(from offset: Int, count: Int) -> [UInt8] { Array(whole.dropFirst(offset).prefix(count)) }
}
