import Bytes
import Glibc
import Platform
import Transports

extension SocketChannel {
    /// Writes one run of bytes.
    func write(_ bytes: [UInt8]) -> WriteResult {
        bytes.withUnsafeBytes { raw in
            guard let base = raw.baseAddress else { return .wrote(0) }
            return withUnsafePointer(to: ByteSlice(base: base, count: raw.count)) {
                write(UnsafeBufferPointer(start: $0, count: 1))
            }
        }
    }

    /// Reads until the connection breaks; nil when it does not within a minute, or ends in order.
    func awaitFailure() -> SystemError? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        for _ in 0..<60_000 {
            switch bytes.withUnsafeMutableBytes({ read(into: $0) }) {
            case .bytes: continue
            case .wouldBlock: usleep(1000)
            case .endOfStream, .refused: return nil
            case .failed(let error): return error
            }
        }
        return nil
    }
}

extension WriteResult {
    /// The bytes that were taken, nil when none could be.
    var count: Int? {
        if case .wrote(let count) = self { count } else { nil }
    }
}
