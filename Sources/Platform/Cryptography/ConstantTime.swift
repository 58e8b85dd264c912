internal import COpenSSL

/// Comparison that takes as long for the first byte that differs as for the last.
package enum ConstantTime {
    /// Whether both are the same bytes. Only their length shows in the time.
    package static func equal(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
