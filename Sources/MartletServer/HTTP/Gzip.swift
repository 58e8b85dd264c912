import CZlib

/// Compression for what is served often and does not change.
enum Gzip {
    /// The bytes as RFC 1952 has them, with the best compression; nil when there is no memory for it.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        guard zlib_begin_gzip(&stream, 9) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let room = Int(deflateBound(&stream, UInt(bytes.count)))
        var source = bytes
        var result = Z_OK
        let compressed = [UInt8](unsafeUninitializedCapacity: room) { target, count in
            source.withUnsafeMutableBufferPointer { source in
                stream.next_in = source.baseAddress
                stream.avail_in = UInt32(source.count)
                stream.next_out = target.baseAddress
                stream.avail_out = UInt32(room)
                result = deflate(&stream, Z_FINISH)
            }
            count = room - Int(stream.avail_out)
        }
        return result == Z_STREAM_END ? compressed : nil
    }
}
