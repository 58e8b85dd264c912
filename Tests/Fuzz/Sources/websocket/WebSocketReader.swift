import FuzzKit

@testable import Transports

/// A plain client, which takes a server's frames apart and nothing but right ones.
final class WebSocketReader {
    private(set) var data: [UInt8] = []
    private(set) var isClosed = false
    private var reader = WebSocketFrameReader(frameBytesMax: .max, isMasked: false)

    /// - Parameter isBehindHead: whether the HTTP answer stands before the frames.
    func take(_ bytes: [UInt8], isBehindHead: Bool = false) {
        var rest = bytes[...]
        if isBehindHead, rest.starts(with: "HTTP".utf8) {
            while !rest.isEmpty, !rest.starts(with: "\r\n\r\n".utf8) { rest = rest.dropFirst() }
            rest = rest.dropFirst(4)
        }
        var target = [UInt8](repeating: 0, count: rest.count + 16)
        var count = 0
        Array(rest).withUnsafeBytes { source in
            var source = UnsafeRawBufferPointer(rebasing: source[...])
            while !source.isEmpty || !isClosed {
                let event = target.withUnsafeMutableBytes { reader.read(&source, into: $0, count: &count) }
                switch event {
                case .exhausted: return
                case .ping: continue
                case .close:
                    expect(!isClosed, "it closes twice")
                    isClosed = true
                    expect(source.isEmpty, "something follows the goodbye")
                case .violation(let violation): preconditionFailure("the server's frame is wrong: \(violation.explanation)")
                }
            }
        }
        data += target.prefix(count)
    }
}
