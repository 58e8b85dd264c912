internal import Platform

/// Random bytes of the kernel, for salts and nonces.
enum Salt {
    static func make(count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            RandomBytes.fill(UnsafeMutableRawBufferPointer(buffer))
            initialized = count
        }
    }
}
