internal import JSON
internal import JSONReader

/// A token as it comes: a JWS in its compact form, read strictly and not checked yet. RFC 7515, section 7.1.
///
///     base64url(header) . base64url(payload) . base64url(signature)
package struct CompactToken: Sendable {
    package let algorithm: SignatureAlgorithm
    /// `kid`: what the token calls its key.
    package let keyIdentifier: String?
    package let payload: [UInt8]
    package let signature: [UInt8]
    /// What is signed: header and payload as they came.
    package let signedBytes: [UInt8]

    /// - Parameters:
    ///   - bytes: the token, without anything around it.
    ///   - bytesMax: a longer one is refused before it is looked at; nil for 16 KiB.
    package init(_ bytes: [UInt8], bytesMax: Int? = nil) throws(TokenRefusal) {
        let bytesMax = bytesMax ?? Limits.tokenBytesMax
        guard bytes.count <= bytesMax else {
            throw TokenRefusal(.malformed, "it has \(bytes.count) bytes; more than \(bytesMax) are not read")
        }
        let parts = bytes.split(separator: UInt8(ascii: "."), maxSplits: 5, omittingEmptySubsequences: false)
        switch parts.count {
        case 3: break
        case 5: throw TokenRefusal(.malformed, "it is encrypted (JWE); only signed tokens are read")
        default: throw TokenRefusal(.notAToken, "it is no JSON Web Token: these are three texts with dots between them")
        }
        guard let header = Base64URL.decode(parts[0]), let payload = Base64URL.decode(parts[1]),
            let signature = Base64URL.decode(parts[2])
        else { throw TokenRefusal(.malformed, "it is not Base64 for URLs without padding") }
        let members = try Self.object(header, "its header")
        guard let name = members["alg"]?.string else { throw TokenRefusal(.malformed, "its header has no \"alg\"") }
        guard let algorithm = SignatureAlgorithm(name) else {
            let isNone = name.utf8.map { $0 | 0x20 }.elementsEqual("none".utf8)
            throw TokenRefusal(
                .algorithm, isNone ? "it is not signed: its algorithm is none" : "its algorithm \(Shown.text(name)) is not known")
        }
        guard !signature.isEmpty else { throw TokenRefusal(.signature, "it has no signature") }
        // No extension is understood, so that none may be asked for. [RFC 7515, section 4.1.11]
        if members["crit"] != nil { throw TokenRefusal(.malformed, "its header asks for extensions (crit); none is known") }
        // Of RFC 7797: it changes what is signed, and is to be announced in "crit".
        if members["b64"] != nil { throw TokenRefusal(.malformed, "its header has \"b64\", which is not known") }
        if let kind = members["typ"] {
            guard let text = kind.string, Self.isWanted(kind: text) else {
                throw TokenRefusal(.malformed, "its type is \(Shown.text(kind.string ?? "no text")), and neither JWT nor at+jwt")
            }
        }
        if let kind = members["cty"]?.string, kind.utf8.map({ $0 | 0x20 }).elementsEqual("jwt".utf8) {
            throw TokenRefusal(.malformed, "another token is wrapped in it (cty)")
        }
        if let identifier = members["kid"] {
            guard let text = identifier.string else { throw TokenRefusal(.malformed, "its \"kid\" is no text") }
            keyIdentifier = text
        } else {
            keyIdentifier = nil
        }
        (self.algorithm, self.payload, self.signature) = (algorithm, payload, signature)
        signedBytes = Array(bytes[..<(parts[1].endIndex)])
    }

    /// Whether bytes look like a token: for sources that leave passwords to others.
    package static func looksLikeToken(_ bytes: some Collection<UInt8>) -> Bool {
        bytes.count { $0 == UInt8(ascii: ".") } == 2 && bytes.starts(with: "eyJ".utf8)
    }

    /// The claims: a JSON object.
    func claims() throws(TokenRefusal) -> JSONMembers { try Self.object(payload, "its claims") }

    private static func object(_ bytes: [UInt8], _ name: String) throws(TokenRefusal) -> JSONMembers {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: bytes, bytesMax: bytes.count)
        } catch {
            throw TokenRefusal(.malformed, "\(name): \(Shown.text(error.description))")
        }
        guard let object = value.object else { throw TokenRefusal(.malformed, "\(name) is no JSON object") }
        return object
    }

    /// Tokens of other kinds may be signed with the same keys, and mean something else. [RFC 8725, section 3.11]
    private static func isWanted(kind: String) -> Bool {
        var text = kind.utf8.map { (65...90).contains($0) ? $0 | 0x20 : $0 }[...]
        let prefix = Array("application/".utf8)
        if text.starts(with: prefix) { text = text.dropFirst(prefix.count) }
        return ["jwt", "at+jwt", "jose"].contains { text.elementsEqual($0.utf8) }
    }
}

/// Why a token is not accepted.
package struct TokenRefusal: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: Sendable, Equatable {
        /// It is no token at all: somebody else may know what it is.
        case notAToken
        case malformed
        /// Its algorithm is none that the operator allows.
        case algorithm
        /// No key has the name that it gives: the key may be new.
        case unknownKey
        case signature
        /// It is no longer valid, or not yet.
        case time
        /// It is another's, or for another broker.
        case claims
    }

    package let kind: Kind
    /// A part of a sentence, in which the token is "it", without anything of the token that is secret.
    package let description: String

    package init(_ kind: Kind, _ description: String) { (self.kind, self.description) = (kind, description) }
}
