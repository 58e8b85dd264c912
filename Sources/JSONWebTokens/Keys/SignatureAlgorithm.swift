internal import COpenSSL

/// How a token is signed: the names of RFC 7518, RFC 8037 and RFC 9864. There is no `none` among them.
package enum SignatureAlgorithm: String, Sendable, CaseIterable, Hashable {
    case hs256 = "HS256"
    case hs384 = "HS384"
    case hs512 = "HS512"
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    /// Ed25519 or Ed448, whichever the key is.
    case eddsa = "EdDSA"
    case ed25519 = "Ed25519"
    case ed448 = "Ed448"

    /// How it signs, apart from the hash.
    package enum Family: Sendable, Equatable {
        /// A secret that both sides know.
        case hmac
        case rsa
        case rsaPSS
        case ecdsa(EllipticCurve)
        /// Nil for either curve.
        case edwards(EdwardsCurve?)
    }

    package var family: Family {
        switch self {
        case .hs256, .hs384, .hs512: .hmac
        case .rs256, .rs384, .rs512: .rsa
        case .ps256, .ps384, .ps512: .rsaPSS
        case .es256: .ecdsa(.p256)
        case .es384: .ecdsa(.p384)
        case .es512: .ecdsa(.p521)
        case .eddsa: .edwards(nil)
        case .ed25519: .edwards(.ed25519)
        case .ed448: .edwards(.ed448)
        }
    }

    /// Whether whoever can check a signature can make one too.
    package var isSymmetric: Bool { family == .hmac }

    /// Bytes of the hash; nil where the signature has one of its own.
    package var hashCount: Int? {
        switch self {
        case .hs256, .rs256, .ps256, .es256: 32
        case .hs384, .rs384, .ps384, .es384: 48
        case .hs512, .rs512, .ps512, .es512: 64
        case .eddsa, .ed25519, .ed448: nil
        }
    }

    /// The hash as libcrypto has it; nil where the signature has one of its own.
    var hash: OpaquePointer? {
        switch hashCount {
        case 32: EVP_sha256()
        case 48: EVP_sha384()
        case 64: EVP_sha512()
        default: nil
        }
    }

    /// What a name stands for; nil for a name that is none. Case counts, as RFC 7515 has it.
    package init?(_ name: String) { self.init(rawValue: name) }
}

/// A curve of RFC 7518, section 6.2.1.1.
package enum EllipticCurve: String, Sendable, CaseIterable {
    case p256 = "P-256"
    case p384 = "P-384"
    case p521 = "P-521"

    /// Bytes of a coordinate, and of each half of a signature.
    var coordinateCount: Int {
        switch self {
        case .p256: 32
        case .p384: 48
        case .p521: 66
        }
    }

    /// Its object identifier, as DER writes it.
    var identifier: [UInt8] {
        switch self {
        case .p256: [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
        case .p384: [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x22]
        case .p521: [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x23]
        }
    }
}

/// A curve of RFC 8037 that signs.
package enum EdwardsCurve: String, Sendable, CaseIterable {
    case ed25519 = "Ed25519"
    case ed448 = "Ed448"

    /// Bytes of a public key.
    var keyCount: Int { self == .ed25519 ? 32 : 57 }

    /// Bytes of a signature.
    var signatureCount: Int { self == .ed25519 ? 64 : 114 }

    /// As libcrypto calls it.
    var kind: Int32 { self == .ed25519 ? EVP_PKEY_ED25519 : EVP_PKEY_ED448 }
}
