internal import COpenSSL

/// RFC 8032's signatures, by libcrypto.
package enum Ed25519 {
    /// The public key of a private one.
    ///
    /// - Parameter seed: the private key, 32 bytes; nil comes back for another count, or when OpenSSL has no memory.
    package static func publicKey(seed: [UInt8]) -> [UInt8]? {
        guard let key = key(seed) else { return nil }
        defer { EVP_PKEY_free(key) }
        var bytes = [UInt8](repeating: 0, count: 32)
        var count = bytes.count
        guard EVP_PKEY_get_raw_public_key(key, &bytes, &count) == 1, count == 32 else { return nil }
        return bytes
    }

    /// 64 bytes; nil as with `publicKey`.
    package static func signature(of message: [UInt8], seed: [UInt8]) -> [UInt8]? {
        guard let key = key(seed), let context = EVP_MD_CTX_new() else { return nil }
        defer {
            EVP_MD_CTX_free(context)
            EVP_PKEY_free(key)
        }
        var bytes = [UInt8](repeating: 0, count: 64)
        var count = bytes.count
        guard EVP_DigestSignInit(context, nil, nil, nil, key) == 1,
            EVP_DigestSign(context, &bytes, &count, message, message.count) == 1, count == 64
        else { return nil }
        return bytes
    }

    private static func key(_ seed: [UInt8]) -> OpaquePointer? {
        seed.count == 32 ? EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count) : nil
    }
}
