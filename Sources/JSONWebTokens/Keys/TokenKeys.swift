internal import Bytes
internal import JSON
internal import JSONReader

/// The keys that tokens are checked with: a JSON Web Key Set, PEM, or an HMAC's secret. Immutable.
package struct TokenKeys: Sendable {
    package let keys: [VerificationKey]
    /// What was passed over, and why: each a sentence without its full stop.
    package let remarks: [String]

    package init(_ keys: [VerificationKey], remarks: [String] = []) { (self.keys, self.remarks) = (keys, remarks) }

    /// One secret.
    ///
    /// - Parameter secret: a file's bytes. A line break at the end does not count; behind `base64:` stands the secret
    ///   as Base64, which holds any byte.
    package init(secret file: [UInt8]) throws(TokenKeyError) {
        var secret = file[...]
        if secret.last == 0x0A { secret.removeLast() }
        if secret.last == 0x0D { secret.removeLast() }
        let mark = Array("base64:".utf8)
        guard secret.starts(with: mark) else {
            self.init([try VerificationKey(secret: Array(secret))])
            return
        }
        let text = String(decoding: secret.dropFirst(mark.count), as: UTF8.self)
        guard let bytes = Base64.decode(text) ?? Base64URL.decode(text.utf8) else {
            throw TokenKeyError("has behind base64: what is no Base64")
        }
        self.init([try VerificationKey(secret: bytes)])
    }

    /// Public keys as PEM, a JSON Web Key Set, or one JSON Web Key.
    ///
    /// - Parameters:
    ///   - bytes: of a file or an answer, at most 1 MB.
    ///   - allowsSecrets: whether a set may hold secrets too, `oct`. Not one that anybody can fetch.
    /// - Throws: when no key is in it that may be used.
    package init(reading bytes: [UInt8], allowsSecrets: Bool) throws(TokenKeyError) {
        guard bytes.count <= Limits.keySetBytesMax else {
            throw TokenKeyError("has \(bytes.count) bytes; more than \(Limits.keySetBytesMax) are not read")
        }
        let isJSON = bytes.first { $0 > 0x20 } == UInt8(ascii: "{")
        let (keys, remarks) = isJSON ? try Self.readSet(bytes, allowsSecrets) : try Self.readPEM(bytes)
        guard !keys.isEmpty else {
            let reason = remarks.first.map { ": \($0)" } ?? ""
            throw TokenKeyError("holds no key that tokens can be checked with\(reason)")
        }
        self.init(keys, remarks: remarks)
    }

    /// The keys that a token may have been signed with.
    ///
    /// - Returns: empty for a name that none of them has.
    func candidates(identifier: String?, _ algorithm: SignatureAlgorithm) -> [VerificationKey] {
        guard let identifier else { return keys.filter { $0.fits(algorithm) } }
        let named = keys.filter { $0.identifier.map { $0.utf8.elementsEqual(identifier.utf8) } ?? false }
        // Keys of PEM have no names: the one that a token names may be any of them.
        return (named.isEmpty ? keys.filter { $0.identifier == nil } : named).filter { $0.fits(algorithm) }
    }

    /// Whether any key has this name, or none at all.
    func knows(_ identifier: String) -> Bool {
        keys.contains { $0.identifier.map { $0.utf8.elementsEqual(identifier.utf8) } ?? true }
    }

    /// Why no key has this name, if one has that was passed over, or may have; for words.
    func remark(on identifier: String) -> String? {
        let own = Self.name(identifier)
        return remarks.first { $0.utf8.starts(with: "\(own) ".utf8) }.map { "it \($0.dropFirst(own.count + 1))" }
            ?? remarks.first { $0.utf8.starts(with: Self.cutBeginning.utf8) }
    }

    /// What remarks call a key.
    private static func name(_ identifier: String) -> String { "the key \"\(Shown.text(identifier))\"" }

    private static let cutBeginning = "of its "

    // MARK: JSON Web Key Set

    private static func readSet(_ bytes: [UInt8], _ allowsSecrets: Bool) throws(TokenKeyError) -> ([VerificationKey], [String]) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: bytes, bytesMax: Limits.keySetBytesMax)
        } catch {
            throw TokenKeyError("is no JSON: \(error.description)")
        }
        guard let object = value.object else { throw TokenKeyError("is no JSON object") }
        let members: [JSONValue]
        if let set = object["keys"] {
            guard let list = set.array else { throw TokenKeyError("is no JSON Web Key Set: \"keys\" is no array") }
            members = list
        } else if object["kty"] != nil {
            members = [value]
        } else {
            throw TokenKeyError("is no JSON Web Key Set: it has no \"keys\"")
        }
        var (keys, remarks): ([VerificationKey], [String]) = ([], [])
        for (index, member) in members.enumerated() {
            guard keys.count < Limits.keysMax else {
                remarks.append("\(cutBeginning)\(members.count) keys the first \(Limits.keysMax) that fit are used")
                break
            }
            do throws(TokenKeyError) {
                keys.append(try JSONWebKey(member).key(allowsSecrets: allowsSecrets))
            } catch {
                guard remarks.count < Limits.remarksMax else { continue }
                let name = member.object?["kid"]?.string.map(Self.name) ?? "its key \(index + 1)"
                remarks.append("\(name) \(error.description)")
            }
        }
        return (keys, remarks)
    }

    // MARK: PEM

    private static func readPEM(_ bytes: [UInt8]) throws(TokenKeyError) -> ([VerificationKey], [String]) {
        var (keys, remarks): ([VerificationKey], [String]) = ([], [])
        for block in try PEMBlock.blocks(of: bytes) {
            guard keys.count < Limits.keysMax else {
                remarks.append("the first \(Limits.keysMax) keys are used")
                break
            }
            let key: PublicKey?
            switch block.label {
            case "PUBLIC KEY": key = PublicKey(information: block.contents)
            case "CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE": key = PublicKey(certificate: block.contents)
            case "RSA PUBLIC KEY":
                throw TokenKeyError(
                    "has RSA's own form of a public key; \"openssl rsa -RSAPublicKey_in -in FILE -pubout\" makes the usual one")
            case let label where label.hasSuffix("PRIVATE KEY"):
                throw TokenKeyError(
                    "holds a private key, which only whoever signs tokens may have; \"openssl pkey -in FILE -pubout\" prints the "
                        + "public one")
            default:
                remarks.append("a block of \"\(Shown.text(block.label))\" is no key")
                continue
            }
            guard let key else { throw TokenKeyError("has a block of \"\(block.label)\" that cannot be read") }
            keys.append(try VerificationKey(key))
        }
        return (keys, remarks)
    }
}

/// A JSON Web Key. RFC 7517, RFC 7518 section 6, RFC 8037.
private struct JSONWebKey {
    private let members: JSONMembers

    init(_ value: JSONValue) throws(TokenKeyError) {
        guard let members = value.object else { throw TokenKeyError("is no JSON object") }
        self.members = members
    }

    func key(allowsSecrets: Bool) throws(TokenKeyError) -> VerificationKey {
        guard let type = try text("kty") else { throw TokenKeyError("has no \"kty\"") }
        if let use = try text("use"), use != "sig" {
            throw TokenKeyError("is not for signatures: its \"use\" is \(Shown.text(use))")
        }
        if let operations = members["key_ops"] {
            guard let list = operations.array else { throw TokenKeyError("has a \"key_ops\" that is no array") }
            guard list.contains(where: { $0.string == "verify" }) else { throw TokenKeyError("is not for checking: \"key_ops\"") }
        }
        var algorithm: SignatureAlgorithm?
        if let name = try text("alg") {
            algorithm = SignatureAlgorithm(name)
            if algorithm == nil { throw TokenKeyError("is for \(Shown.text(name)), which signs no tokens here") }
        }
        let identifier = try text("kid")
        switch type {
        case "RSA":
            let (modulus, exponent) = (try bytes("n"), try bytes("e"))
            guard modulus.count <= Limits.rsaBitsMax / 8 + 1, exponent.count <= 8 else {
                throw TokenKeyError("is a key of RSA with numbers that are too long")
            }
            let value = exponent.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard value >= 3, !value.isMultiple(of: 2) else { throw TokenKeyError("is a key of RSA with the exponent \(value)") }
            return try made(DER.rsaKey(modulus: modulus, exponent: exponent), identifier, algorithm)
        case "EC":
            guard let name = try text("crv") else { throw TokenKeyError("has no \"crv\"") }
            guard let curve = EllipticCurve(rawValue: name) else {
                throw TokenKeyError("is of the curve \(Shown.text(name)); P-256, P-384 and P-521 are known")
            }
            let (x, y) = (try bytes("x"), try bytes("y"))
            guard x.count == curve.coordinateCount, y.count == curve.coordinateCount else {
                throw TokenKeyError("has coordinates of another length than \(curve.rawValue) has")
            }
            return try made(DER.curveKey(curve, x: x, y: y), identifier, algorithm)
        case "OKP":
            guard let name = try text("crv") else { throw TokenKeyError("has no \"crv\"") }
            guard let curve = EdwardsCurve(rawValue: name) else {
                throw TokenKeyError("is of the curve \(Shown.text(name)); Ed25519 and Ed448 sign tokens")
            }
            guard let key = PublicKey(try bytes("x"), curve) else {
                throw TokenKeyError("has an \"x\" of another length than \(curve.rawValue) has")
            }
            return try VerificationKey(key, identifier: identifier, algorithm: algorithm)
        case "oct":
            guard allowsSecrets else { throw TokenKeyError("is a secret, in a set that anybody can fetch") }
            return try VerificationKey(secret: try bytes("k"), identifier: identifier, algorithm: algorithm)
        default:
            throw TokenKeyError("has the \"kty\" \(Shown.text(type)); RSA, EC, OKP and oct are known")
        }
    }

    private func made(
        _ information: [UInt8], _ identifier: String?, _ algorithm: SignatureAlgorithm?
    ) throws(TokenKeyError) -> VerificationKey {
        guard let key = PublicKey(information: information) else {
            throw TokenKeyError("is no point of its curve, or no key of RSA")
        }
        return try VerificationKey(key, identifier: identifier, algorithm: algorithm)
    }

    private func text(_ name: String) throws(TokenKeyError) -> String? {
        guard let value = members[name] else { return nil }
        guard let text = value.string else { throw TokenKeyError("has a \"\(name)\" that is no text") }
        return text
    }

    private func bytes(_ name: String) throws(TokenKeyError) -> [UInt8] {
        guard let text = try text(name) else { throw TokenKeyError("has no \"\(name)\"") }
        guard let bytes = Base64URL.decode(text.utf8), !bytes.isEmpty else {
            throw TokenKeyError("has a \"\(name)\" that is no Base64 of RFC 4648, section 5, without padding")
        }
        return bytes
    }
}

/// What stands between `-----BEGIN LABEL-----` and `-----END LABEL-----`. RFC 7468.
private struct PEMBlock {
    let label: String
    let contents: [UInt8]

    static func blocks(of bytes: [UInt8]) throws(TokenKeyError) -> [PEMBlock] {
        var blocks: [PEMBlock] = []
        var open: (label: String, text: [UInt8])?
        for line in bytes.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }) {
            let line = String(decoding: line.drop { $0 <= 0x20 }.reversed().drop { $0 <= 0x20 }.reversed(), as: UTF8.self)
            if line.hasPrefix("-----BEGIN "), line.hasSuffix("-----") {
                open = (String(line.dropFirst(11).dropLast(5)), [])
            } else if let block = open {
                guard line == "-----END \(block.label)-----" else {
                    open?.text.append(contentsOf: line.utf8)
                    continue
                }
                guard let contents = Base64.decode(String(decoding: block.text, as: UTF8.self)) else {
                    throw TokenKeyError("has a block of \"\(Shown.text(block.label))\" that is no Base64")
                }
                blocks.append(PEMBlock(label: block.label, contents: contents))
                open = nil
            }
        }
        if let open { throw TokenKeyError("has no -----END \(Shown.text(open.label))-----") }
        guard !blocks.isEmpty else {
            throw TokenKeyError("is neither PEM nor JSON: it holds no -----BEGIN PUBLIC KEY-----, and no {")
        }
        return blocks
    }
}
