internal import COpenSSL
internal import Platform

/// A key that tokens are checked with, and what it may be used for.
///
/// Immutable; for any thread.
package struct VerificationKey: Sendable {
    /// What a key is, with what a signature must have the length of.
    package enum Kind: Sendable, Equatable {
        /// An HMAC's, of so many bytes.
        case secret(Int)
        /// RSA, of so many bits.
        case rsa(Int)
        case ellipticCurve(EllipticCurve)
        case edwards(EdwardsCurve)
    }

    package let kind: Kind
    /// `kid`: what tokens call it; nil for a key without a name.
    package let identifier: String?
    /// `alg`: the one algorithm that it is for; nil for all that fit it.
    package let algorithm: SignatureAlgorithm?
    private let material: Material

    private enum Material: Sendable {
        case secret([UInt8])
        case publicKey(PublicKey)
    }

    /// - Parameters:
    ///   - secret: an HMAC's.
    ///   - identifier: nil for none.
    ///   - algorithm: nil for all that fit.
    /// - Throws: for what is a public key in a text form: whoever knows that could sign with it.
    package init(
        secret: [UInt8], identifier: String? = nil, algorithm: SignatureAlgorithm? = nil
    ) throws(TokenKeyError) {
        if let name = Self.publicForm(of: secret) {
            throw TokenKeyError(
                "is \(name), which everybody may know, and no secret; tokens that it checks need RS, PS, ES or EdDSA")
        }
        guard secret.count >= Limits.secretBytesMin else {
            throw TokenKeyError(
                "has \(secret.count) bytes, and a secret needs the length of its hash: at least \(Limits.secretBytesMin) for HS256, "
                    + "48 for HS384, 64 for HS512")
        }
        kind = .secret(secret.count)
        material = .secret(secret)
        self.identifier = identifier
        self.algorithm = algorithm
        try checkAlgorithm()
    }

    /// - Parameter key: a public key of a kind that signs tokens.
    init(_ key: PublicKey, identifier: String? = nil, algorithm: SignatureAlgorithm? = nil) throws(TokenKeyError) {
        kind = try key.kind()
        material = .publicKey(key)
        self.identifier = identifier
        self.algorithm = algorithm
        try checkAlgorithm()
    }

    /// Whether tokens of this algorithm may be checked with the key.
    package func fits(_ asked: SignatureAlgorithm) -> Bool {
        if let algorithm, algorithm != asked, !(algorithm == .eddsa && isEdwards(asked)), !(asked == .eddsa && isEdwards(algorithm))
        {
            return false
        }
        return switch (asked.family, kind) {
        case (.hmac, .secret(let count)): count >= asked.hashCount ?? .max
        case (.rsa, .rsa), (.rsaPSS, .rsa): true
        case (.ecdsa(let curve), .ellipticCurve(let own)): curve == own
        case (.edwards(let curve), .edwards(let own)): curve == nil || curve == own
        default: false
        }
    }

    private func isEdwards(_ algorithm: SignatureAlgorithm) -> Bool {
        if case .edwards = algorithm.family { true } else { false }
    }

    private func checkAlgorithm() throws(TokenKeyError) {
        guard let algorithm, !fits(algorithm) else { return }
        throw TokenKeyError("is for \(algorithm.rawValue), and is \(kind.words)")
    }

    /// Whether a signature is the key's. False also where the key does not fit the algorithm.
    ///
    /// - Parameters:
    ///   - signature: as JWS has it: both halves of an ECDSA signature at full length.
    ///   - message: what is signed.
    func verifies(_ signature: [UInt8], of message: [UInt8], by algorithm: SignatureAlgorithm) -> Bool {
        guard fits(algorithm) else { return false }
        switch material {
        case .secret(let secret):
            guard let hash = algorithm.hash, let count = algorithm.hashCount else { return false }
            let code = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
                let made = HMAC(hash, secret, Int32(secret.count), message, message.count, buffer.baseAddress, nil)
                initialized = made == nil ? 0 : count
            }
            return code.count == count && ConstantTime.equal(code, signature)
        case .publicKey(let key):
            return key.verifies(signature, of: message, by: algorithm, kind)
        }
    }

    /// What a text is that some libraries would take for an HMAC's secret, and everybody may know.
    private static func publicForm(of secret: [UInt8]) -> String? {
        let forms: [(beginning: String, name: String)] = [
            ("-----BEGIN ", "a key or certificate in PEM"), ("---- BEGIN SSH2", "a key of SSH"), ("ssh-rsa ", "a key of SSH"),
            ("ssh-ed25519 ", "a key of SSH"), ("ssh-dss ", "a key of SSH"), ("ecdsa-sha2-", "a key of SSH"),
            ("sk-ssh-", "a key of SSH"), ("sk-ecdsa-", "a key of SSH"),
        ]
        let text = secret.drop { $0 == 0x20 || (0x09...0x0D).contains($0) || $0 == 0xEF || $0 == 0xBB || $0 == 0xBF }
        return forms.first { text.starts(with: $0.beginning.utf8) }?.name
    }
}

extension VerificationKey.Kind {
    /// As a part of a sentence: `a key of RSA with 2048 bits`.
    package var words: String {
        switch self {
        case .secret(let count): "a secret of \(count) bytes"
        case .rsa(let bits): "a key of RSA with \(bits) bits"
        case .ellipticCurve(let curve): "a key of the curve \(curve.rawValue)"
        case .edwards(let curve): "a key of the curve \(curve.rawValue)"
        }
    }
}

/// Why bytes are no key that tokens are checked with: the end of a sentence that begins with what the key is called.
package struct TokenKeyError: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

/// A public key of libcrypto. Immutable: checking changes nothing of it, so that threads may share it.
final class PublicKey: @unchecked Sendable {
    private let key: OpaquePointer

    private init(_ key: OpaquePointer) { self.key = key }

    deinit { EVP_PKEY_free(key) }

    /// Reads a SubjectPublicKeyInfo, all of the bytes; nil for another thing, and for a point that is not on its curve.
    convenience init?(information: [UInt8]) {
        defer { ERR_clear_error() }
        let (key, isAll) = information.withUnsafeBufferPointer { buffer in
            var place = buffer.baseAddress
            let key = d2i_PUBKEY(nil, &place, buffer.count)
            return (key, place.map { $0 - (buffer.baseAddress ?? $0) } == buffer.count)
        }
        guard let key else { return nil }
        guard isAll else {
            EVP_PKEY_free(key)
            return nil
        }
        self.init(key)
    }

    /// Reads a certificate, and takes its key; nil for another thing.
    convenience init?(certificate: [UInt8]) {
        defer { ERR_clear_error() }
        let read = certificate.withUnsafeBufferPointer { buffer in
            var place = buffer.baseAddress
            return d2i_X509(nil, &place, buffer.count)
        }
        guard let read else { return nil }
        defer { X509_free(read) }
        guard let key = X509_get_pubkey(read) else { return nil }
        self.init(key)
    }

    /// Takes an Edwards curve's key; nil for another length.
    convenience init?(_ bytes: [UInt8], _ curve: EdwardsCurve) {
        defer { ERR_clear_error() }
        guard bytes.count == curve.keyCount, let key = EVP_PKEY_new_raw_public_key(curve.kind, nil, bytes, bytes.count) else {
            return nil
        }
        self.init(key)
    }

    /// What the key is; throws for one that tokens are not to be checked with.
    func kind() throws(TokenKeyError) -> VerificationKey.Kind {
        switch EVP_PKEY_get_base_id(key) {
        case EVP_PKEY_RSA, EVP_PKEY_RSA_PSS:
            let bits = Int(EVP_PKEY_get_bits(key))
            guard bits >= Limits.rsaBitsMin else {
                throw TokenKeyError("is a key of RSA with \(bits) bits; at least \(Limits.rsaBitsMin) are safe")
            }
            guard bits <= Limits.rsaBitsMax else {
                throw TokenKeyError("is a key of RSA with \(bits) bits; more than \(Limits.rsaBitsMax) take too long")
            }
            return .rsa(bits)
        case EVP_PKEY_EC:
            var name = [CChar](repeating: 0, count: 64)
            var count = 0
            guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else {
                throw TokenKeyError("is a key of a curve without a name")
            }
            let text = String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            switch text {
            case "prime256v1", "P-256": return .ellipticCurve(.p256)
            case "secp384r1", "P-384": return .ellipticCurve(.p384)
            case "secp521r1", "P-521": return .ellipticCurve(.p521)
            default: throw TokenKeyError("is a key of the curve \(text); P-256, P-384 and P-521 are known")
            }
        case EVP_PKEY_ED25519: return .edwards(.ed25519)
        case EVP_PKEY_ED448: return .edwards(.ed448)
        default: throw TokenKeyError("is neither a key of RSA nor of a curve that signs tokens")
        }
    }

    func verifies(
        _ signature: [UInt8], of message: [UInt8], by algorithm: SignatureAlgorithm, _ kind: VerificationKey.Kind
    ) -> Bool {
        guard let signature = Self.encoded(signature, kind), let context = EVP_MD_CTX_new() else { return false }
        defer {
            EVP_MD_CTX_free(context)
            // What a stranger's signature left in the queue is nobody's news.
            ERR_clear_error()
        }
        var options: OpaquePointer?
        guard EVP_DigestVerifyInit(context, &options, algorithm.hash, nil, key) == 1 else { return false }
        if case .rsaPSS = algorithm.family {
            // RFC 7518, section 3.5: a salt as long as the hash, and the mask by the same hash.
            guard EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1,
                EVP_PKEY_CTX_set_rsa_pss_saltlen(options, Int32(algorithm.hashCount ?? 0)) == 1,
                EVP_PKEY_CTX_set_rsa_mgf1_md(options, algorithm.hash) == 1
            else { return false }
        }
        return EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }

    /// A signature as libcrypto has it; nil for one that cannot be the key's by its length.
    private static func encoded(_ signature: [UInt8], _ kind: VerificationKey.Kind) -> [UInt8]? {
        switch kind {
        case .secret: return nil
        case .rsa(let bits): return signature.count == (bits + 7) / 8 ? signature : nil
        case .edwards(let curve): return signature.count == curve.signatureCount ? signature : nil
        case .ellipticCurve(let curve):
            guard signature.count == 2 * curve.coordinateCount else { return nil }
            let halves = [signature.prefix(curve.coordinateCount), signature.suffix(curve.coordinateCount)]
            return DER.sequence(halves.flatMap { DER.integer($0) })
        }
    }
}

/// As much of DER as public keys and signatures of curves are made of.
enum DER {
    static func sequence(_ contents: [UInt8]) -> [UInt8] { element(0x30, contents) }

    /// A number that is not negative, by its bytes, the greatest first.
    static func integer(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let bytes = Array(bytes.drop { $0 == 0 })
        guard let first = bytes.first else { return [0x02, 0x01, 0x00] }
        return element(0x02, first >= 0x80 ? [0] + bytes : bytes)
    }

    static func bits(_ contents: [UInt8]) -> [UInt8] { element(0x03, [0] + contents) }

    private static func element(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
        let count = contents.count
        if count < 0x80 { return [tag, UInt8(count)] + contents }
        var length: [UInt8] = []
        var rest = count
        while rest > 0 {
            length.insert(UInt8(truncatingIfNeeded: rest), at: 0)
            rest >>= 8
        }
        return [tag, 0x80 | UInt8(length.count)] + length + contents
    }

    /// A SubjectPublicKeyInfo of RSA. RFC 3279, section 2.3.1.
    static func rsaKey(modulus: [UInt8], exponent: [UInt8]) -> [UInt8] {
        let algorithm: [UInt8] = [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00]
        return sequence(sequence(algorithm) + bits(sequence(integer(modulus) + integer(exponent))))
    }

    /// A SubjectPublicKeyInfo of a curve's point. RFC 5480.
    static func curveKey(_ curve: EllipticCurve, x: [UInt8], y: [UInt8]) -> [UInt8] {
        let algorithm: [UInt8] = [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01] + curve.identifier
        return sequence(sequence(algorithm) + bits([0x04] + x + y))
    }
}
