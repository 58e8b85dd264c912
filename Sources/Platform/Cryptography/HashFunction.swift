internal import COpenSSL

/// MD5, for what others still ask for: PostgreSQL's older way to prove a password. It keeps no secret of its own.
package enum OutdatedDigest {
    /// In hexadecimal; nil where OpenSSL is set up to refuse it.
    package static func md5(_ bytes: [UInt8]) -> String? {
        let digest = [UInt8](unsafeUninitializedCapacity: 16) { buffer, count in
            count = EVP_Digest(bytes, bytes.count, buffer.baseAddress, nil, EVP_md5(), nil) == 1 ? 16 : 0
        }
        guard digest.count == 16 else { return nil }
        return digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

/// The two members of SHA-2 that logins are made of, by libcrypto: plain, keyed (HMAC) and slow (PBKDF2).
package enum HashFunction {
    case sha256
    case sha512

    /// The length of a digest in bytes.
    package var digestCount: Int {
        switch self {
        case .sha256: 32
        case .sha512: 64
        }
    }

    private var algorithm: OpaquePointer? {
        switch self {
        case .sha256: EVP_sha256()
        case .sha512: EVP_sha512()
        }
    }

    package func digest(_ bytes: [UInt8]) -> [UInt8] {
        filled("EVP_Digest") { digest in EVP_Digest(bytes, bytes.count, digest, nil, algorithm, nil) == 1 }
    }

    /// RFC 2104.
    package func authenticationCode(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        filled("HMAC") { digest in HMAC(algorithm, key, Int32(key.count), bytes, bytes.count, digest, nil) != nil }
    }

    /// RFC 8018's PBKDF2 with HMAC, one digest long.
    ///
    /// - Parameter iterations: from 1 to `Int32.max`.
    package func derivedKey(password: [UInt8], salt: [UInt8], iterations: Int) -> [UInt8] {
        filled("PKCS5_PBKDF2_HMAC") { digest in
            password.withUnsafeBytes { password in
                PKCS5_PBKDF2_HMAC(
                    password.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(password.count), salt, Int32(salt.count),
                    Int32(iterations), algorithm, Int32(digestCount), digest) == 1
            }
        }
    }

    /// A digest's bytes, written by `write`; these calls fail on memory that is exhausted and on nothing that a peer
    /// sends.
    private func filled(_ operation: StaticString, _ write: (UnsafeMutablePointer<UInt8>) -> Bool) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: digestCount) { buffer, count in
            guard let start = buffer.baseAddress, write(start) else { preconditionFailure("\(operation) failed") }
            count = digestCount
        }
    }
}
