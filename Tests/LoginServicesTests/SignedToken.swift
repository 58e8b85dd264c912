import Platform

@testable import JSONWebTokens

/// Tokens as an issuer makes them that has a secret.
enum SignedToken {
    static func made(header: String, claims: String, secret: String) -> [UInt8] {
        let signed = "\(Base64URL.encode(Array(header.utf8))).\(Base64URL.encode(Array(claims.utf8)))"
        let code = HashFunction.sha256.authenticationCode(Array(signed.utf8), key: Array(secret.utf8))
        return Array("\(signed).\(Base64URL.encode(code))".utf8)
    }
}
