internal import COpenSSL

/// What lies under a TLS connection instead of a socket: the bytes of one read, and the block that takes what is to be sent.
///
/// OpenSSL's own memory BIO copies each byte once more in each direction and keeps its memory. Here records are read straight from
/// the loop's scratch and written straight into its output, so neither direction ever waits: a read that finds nothing says "again",
/// and a write always succeeds. Set for the time of one call into OpenSSL.
struct TLSWire {
    var input = UnsafeRawBufferPointer(start: nil, count: 0)
    var output: Unmanaged<ByteBlock>?

    /// The kind of BIO that reads and writes a wire; its data is a pointer to one.
    nonisolated(unsafe) static let method: OpaquePointer? = {
        guard let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "martlet") else { return nil }
        BIO_meth_set_write(method, writeToWire)
        BIO_meth_set_read(method, readFromWire)
        BIO_meth_set_ctrl(method, controlWire)
        BIO_meth_set_create(method) { bio in
            BIO_set_init(bio, 1)
            return 1
        }
        return method
    }()
}

private func wire(of bio: OpaquePointer?) -> UnsafeMutablePointer<TLSWire>? {
    BIO_get_data(bio)?.assumingMemoryBound(to: TLSWire.self)
}

private func writeToWire(_ bio: OpaquePointer?, _ bytes: UnsafePointer<CChar>?, _ count: Int32) -> Int32 {
    guard let bytes, count > 0, let output = wire(of: bio)?.pointee.output else { return -1 }
    output._withUnsafeGuaranteedRef { $0.append(UnsafeRawPointer(bytes), count: Int(count)) }
    return count
}

private func readFromWire(_ bio: OpaquePointer?, _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int32) -> Int32 {
    guard let bytes, let wire = wire(of: bio) else { return -1 }
    openssl_clear_retry(bio)
    let taken = min(Int(count), wire.pointee.input.count)
    guard taken > 0, let source = wire.pointee.input.baseAddress else {
        openssl_retry_read(bio)
        return -1
    }
    UnsafeMutableRawPointer(bytes).copyMemory(from: source, byteCount: taken)
    wire.pointee.input = UnsafeRawBufferPointer(rebasing: wire.pointee.input[taken...])
    return Int32(taken)
}

/// A flush succeeds; everything else is not known here.
private func controlWire(_ bio: OpaquePointer?, _ command: Int32, _ number: Int, _ data: UnsafeMutableRawPointer?) -> Int {
    command == BIO_CTRL_FLUSH ? 1 : 0
}
