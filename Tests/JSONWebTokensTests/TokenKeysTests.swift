import Testing

@testable import JSONWebTokens

/// Keys as files and servers have them.
@Suite struct TokenKeysTests {
    @Test func `a set gives its keys, by their names`() throws {
        let keys = try keys(MadeTokens.keySet)
        #expect(keys.keys.map(\.identifier) == ["rsa", "p256", "p384", "p521", "ed25519", "ed448"])
        #expect(
            keys.keys.map(\.kind) == [
                .rsa(2048), .ellipticCurve(.p256), .ellipticCurve(.p384), .ellipticCurve(.p521), .edwards(.ed25519),
                .edwards(.ed448),
            ])
        #expect(keys.remarks.isEmpty)
    }

    @Test func `PEM gives public keys and those of certificates`() throws {
        let text = "text before\r\n" + MadeTokens.rsaPEM + "\r\n" + MadeTokens.certificatePEM + "\n" + MadeTokens.ed25519PEM
        #expect(try keys(text).keys.map(\.kind) == [.rsa(2048), .rsa(2048), .edwards(.ed25519)])
    }

    @Test func `RFC 7517's set gives both keys, and the one for encryption is passed over with words`() throws {
        let set = #"""
            {"keys":[
              {"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
               "use":"enc","kid":"1"},
              {"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
               "e":"AQAB","alg":"RS256","kid":"2011-04-29"}]}
            """#
        let keys = try keys(set)
        #expect(keys.keys.map(\.identifier) == ["2011-04-29"])
        #expect(keys.keys.first?.algorithm == .rs256)
        #expect(keys.keys.first?.fits(.rs384) == false)
        #expect(keys.keys.first?.fits(.ps256) == false)
        #expect(keys.remarks == ["the key \"1\" is not for signatures: its \"use\" is enc"])
    }

    @Test func `RFC 7517's symmetric keys are taken from a file, and not from what anybody can fetch`() throws {
        let set = #"""
            {"keys":[{"kty":"oct","alg":"A128KW","k":"GawgguFyGrWKav7AX4VKUg"},
            {"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow","kid":"HMAC key"}]}
            """#
        let keys = try TokenKeys(reading: Array(set.utf8), allowsSecrets: true)
        #expect(keys.keys.map(\.kind) == [.secret(64)])
        #expect(keys.remarks == ["its key 1 is for A128KW, which signs no tokens here"])
        #expect(refusal(set) == "holds no key that tokens can be checked with: its key 1 is for A128KW, which signs no tokens here")
    }

    @Test(arguments: [
        (#"{"keys":{}}"#, #"is no JSON Web Key Set: "keys" is no array"#),
        (#"{}"#, #"is no JSON Web Key Set: it has no "keys""#),
        (#"{"keys":[]}"#, "holds no key that tokens can be checked with"),
        (#"{"keys":[1]}"#, "holds no key that tokens can be checked with: its key 1 is no JSON object"),
        (
            #"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
            "holds no key that tokens can be checked with: its key 1 has coordinates of another length than P-256 has"
        ),
        // A point that is not on the curve.
        (
            #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"}"#,
            "holds no key that tokens can be checked with: its key 1 is no point of its curve, or no key of RSA"
        ),
        (
            #"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#,
            "holds no key that tokens can be checked with: its key 1 is of the curve secp256k1; P-256, P-384 and P-521 are known"
        ),
        (
            #"{"kty":"OKP","crv":"X25519","x":"AA"}"#,
            "holds no key that tokens can be checked with: its key 1 is of the curve X25519; Ed25519 and Ed448 sign tokens"
        ),
        (
            #"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#,
            "holds no key that tokens can be checked with: its key 1 is a key of RSA with 17 bits; at least 2048 are safe"
        ),
        (
            #"{"kty":"RSA","n":"AQ==","e":"AQAB"}"#,
            "holds no key that tokens can be checked with: its key 1 has a \"n\" that is no Base64 of RFC 4648, section 5, without padding"
        ),
        (
            #"{"kty":"RSA","n":"AQAB","e":"AQ"}"#,
            "holds no key that tokens can be checked with: its key 1 is a key of RSA with the exponent 1"
        ),
        (
            #"{"kty":"RSA","n":"AQAB","e":"AQAB","key_ops":["encrypt"]}"#,
            "holds no key that tokens can be checked with: its key 1 is not for checking: \"key_ops\""
        ),
        (#"{"kty":"RSA","kty":"EC"}"#, "is no JSON: line 1: duplicate object key near '\"kty\"'"),
        ("", "is neither PEM nor JSON: it holds no -----BEGIN PUBLIC KEY-----, and no {"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA", "has no -----END PUBLIC KEY-----"),
        ("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----", "has a block of \"PUBLIC KEY\" that is no Base64"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "has a block of \"PUBLIC KEY\" that cannot be read"),
    ]) func `what is no key is said in words`(text: String, words: String) {
        #expect(refusal(text) == words)
    }

    @Test func `of ten thousand keys the first are used, with a remark`() throws {
        let key = #"{"kty":"oct","k":"\#(String(repeating: "A", count: 43))"}"#
        let set = #"{"keys":[\#(Array(repeating: key, count: 10_000).joined(separator: ","))]}"#
        let keys = try TokenKeys(reading: Array(set.utf8), allowsSecrets: true)
        #expect(keys.keys.count == 256 && keys.remarks == ["of its 10000 keys the first 256 that fit are used"])
        let long = Array("{}".utf8) + Array(repeating: UInt8(ascii: " "), count: 1 << 20)
        #expect(throws: TokenKeyError.self) { try TokenKeys(reading: long, allowsSecrets: true) }
    }

    @Test func `a small key of RSA is refused in a set and as PEM, and a private key is never read`() {
        #expect(
            refusal(MadeTokens.smallKeySet)
                == "holds no key that tokens can be checked with: the key \"small\" is a key of RSA with 1024 bits; at least 2048 are safe"
        )
        #expect(refusal(MadeTokens.privatePEM)?.hasPrefix("holds a private key, which only whoever signs tokens may have") == true)
    }

    @Test func `an algorithm that does not fit its key is refused`() {
        let key =
            #"{"kty":"EC","crv":"P-256","alg":"RS256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#
        #expect(
            refusal(key) == "holds no key that tokens can be checked with: its key 1 is for RS256, and is a key of the curve P-256")
    }

    @Test func `of ten thousand keys the first 256 are used, and the file is bounded`() throws {
        let key = #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#
        let many = try keys("{\"keys\":[" + Array(repeating: key, count: 10_000).joined(separator: ",") + "]}")
        #expect(many.keys.count == 256)
        #expect(many.remarks == ["of its 10000 keys the first 256 that fit are used"])
        let broken = try keys("{\"keys\":[" + Array(repeating: "{}", count: 10_000).joined(separator: ",") + ",\(key)]}")
        #expect(broken.keys.count == 1)
        #expect(broken.remarks.count == 16)
        #expect(refusal(String(repeating: " ", count: 1 << 20) + "{") == "has 1048577 bytes; more than 1048576 are not read")
    }

    @Test func `a secret is a line of a file, or Base64, and at least as long as its hash`() throws {
        #expect(try TokenKeys(secret: Array((MadeTokens.secret + "\r\n").utf8)).keys.first?.kind == .secret(64))
        #expect(
            try TokenKeys(secret: Array("base64:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n".utf8)).keys.first?.kind
                == .secret(32))
        #expect(
            try TokenKeys(secret: Array("base64:-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_8".utf8)).keys.first?.kind == .secret(32))
        let short = #expect(throws: TokenKeyError.self) { try TokenKeys(secret: Array("secret".utf8)) }
        #expect(
            short?.description
                == "has 6 bytes, and a secret needs the length of its hash: at least 32 for HS256, 48 for HS384, 64 for HS512")
        #expect(throws: TokenKeyError.self) { try TokenKeys(secret: Array("base64:!".utf8)) }
        let key = try VerificationKey(secret: Array(MadeTokens.secret.utf8.prefix(48)))
        #expect(key.fits(.hs256) && key.fits(.hs384) && !key.fits(.hs512) && !key.fits(.rs256))
    }

    private func keys(_ text: String) throws(TokenKeyError) -> TokenKeys {
        try TokenKeys(reading: Array(text.utf8), allowsSecrets: false)
    }

    private func refusal(_ text: String) -> String? {
        do throws(TokenKeyError) {
            _ = try keys(text)
            return nil
        } catch {
            return error.description
        }
    }
}
