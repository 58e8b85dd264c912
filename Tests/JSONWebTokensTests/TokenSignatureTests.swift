import JSON
import Testing

@testable import JSONWebTokens

/// Signatures: those of the RFCs, those of other libraries, and those that only look like some.
@Suite struct TokenSignatureTests {
    // MARK: Vectors

    @Test(arguments: RFCVector.all) func `the examples of the RFCs verify, and do not when a bit is changed`(vector: RFCVector)
        throws
    {
        let keys = try TokenKeys(reading: Array(vector.key.utf8), allowsSecrets: true)
        let token = try CompactToken(Array(vector.token.utf8))
        let key = try #require(keys.candidates(identifier: nil, token.algorithm).first)
        #expect(key.verifies(token.signature, of: token.signedBytes, by: token.algorithm))
        for index in token.signature.indices {
            var changed = token.signature
            changed[index] ^= 1
            #expect(!key.verifies(changed, of: token.signedBytes, by: token.algorithm))
        }
        #expect(!key.verifies(token.signature, of: token.signedBytes + [0x20], by: token.algorithm))
        #expect(!key.verifies(token.signature + [0], of: token.signedBytes, by: token.algorithm))
        #expect(!key.verifies(Array(token.signature.dropLast()), of: token.signedBytes, by: token.algorithm))
        #expect(!key.verifies([], of: token.signedBytes, by: token.algorithm))
    }

    @Test func `RFC 7515's unsigned token is refused`() {
        #expect(
            refusal(
                "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
            )?.kind == .algorithm)
    }

    @Test(arguments: ["none", "None", "NONE", "nOnE"]) func `no spelling of none is an algorithm`(name: String) {
        let header = Base64URL.encode(Array(#"{"alg":"\#(name)"}"#.utf8))
        for signature in ["", "AA"] {
            let refusal = refusal("\(header).e30.\(signature)")
            #expect(refusal?.description == "it is not signed: its algorithm is none")
        }
    }

    // MARK: Other libraries

    @Test(arguments: MadeTokens.valid.indices) func `what joserfc and PyJWT sign is accepted, with the algorithm allowed alone`(
        index: Int
    ) throws {
        let (algorithm, token) = MadeTokens.valid[index]
        let login = try verify(token, [try #require(SignatureAlgorithm(algorithm))])
        #expect(login.userName == "anna")
        #expect(login.expiresAt == MadeTokens.now + 3600)
    }

    @Test(arguments: MadeTokens.valid.indices) func `the same is refused when every other algorithm is allowed`(index: Int) throws {
        let (name, token) = MadeTokens.valid[index]
        let algorithm = try #require(SignatureAlgorithm(name))
        #expect(refusal(token, SignatureAlgorithm.allCases.filter { $0 != algorithm })?.kind == .algorithm)
    }

    @Test(arguments: MadeTokens.valid.indices)
    func `no token of another verifies with any single key of the set that is not its own`(index: Int) throws {
        let (_, token) = MadeTokens.valid[index]
        let parsed = try CompactToken(Array(token.utf8))
        for key in try TokenKeys(reading: Array(MadeTokens.keySet.utf8), allowsSecrets: false).keys {
            let isOwn = key.identifier == parsed.keyIdentifier
            #expect(key.verifies(parsed.signature, of: parsed.signedBytes, by: parsed.algorithm) == isOwn)
        }
    }

    // MARK: Attacks

    @Test func `an HMAC made with the text of a public key is refused, whatever is allowed`() {
        let refusal = refusal(MadeTokens.confused, SignatureAlgorithm.allCases)
        #expect(refusal?.description == "no key that it may be signed with is for HS256")
    }

    @Test func `a public key is not taken for a secret`() {
        for text in [
            MadeTokens.rsaPEM, MadeTokens.certificatePEM, "\u{FEFF} \n" + MadeTokens.ed25519PEM,
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH anna", "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY anna",
            "---- BEGIN SSH2 PUBLIC KEY ----\nAAAAB3NzaC1yc2EAAAADAQABAAABAQ",
        ] {
            #expect(throws: TokenKeyError.self) { try TokenKeys(secret: Array(text.utf8)) }
        }
    }

    @Test(arguments: [
        MadeTokens.withoutSalt, MadeTokens.otherMask, MadeTokens.plainAsPSS, MadeTokens.pssAsPlain, MadeTokens.otherHash,
        MadeTokens.derSignature,
    ]) func `a signature of another scheme, salt, mask, hash or form is refused`(token: String) {
        #expect(refusal(token, SignatureAlgorithm.allCases)?.kind == .signature)
    }

    @Test func `a key that the token itself brings is not looked at`() {
        #expect(refusal(MadeTokens.embeddedKey, SignatureAlgorithm.allCases)?.kind == .signature)
    }

    @Test(arguments: ["p256", "p384", "p521"]) func `a signature of zeros, of the curve's order and of greater numbers is refused`(
        name: String
    ) throws {
        let keys = try TokenKeys(reading: Array(MadeTokens.keySet.utf8), allowsSecrets: false)
        let key = try #require(keys.keys.first { $0.identifier == name })
        let (algorithm, count): (SignatureAlgorithm, Int) =
            switch name {
            case "p256": (.es256, 32)
            case "p384": (.es384, 48)
            default: (.es512, 66)
            }
        let zero = [UInt8](repeating: 0, count: count)
        let one = zero.dropLast() + [1]
        let all = [UInt8](repeating: 0xFF, count: count)
        var halves = [zero, Array(one), all]
        if name == "p256" {
            halves.append(Self.orderOfP256)
            halves.append(Self.orderOfP256.dropLast() + [Self.orderOfP256[31] + 1])
        }
        for r in halves {
            for s in halves {
                #expect(!key.verifies(r + s, of: Array("a.b".utf8), by: algorithm))
            }
        }
    }

    private static let orderOfP256: [UInt8] = [
        0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xBC, 0xE6, 0xFA, 0xAD,
        0xA7, 0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63, 0x25, 0x51,
    ]

    /// Wycheproof's case SignatureMalleability: S has to be below the order of the group (RFC 8032, section 5.1.7).
    @Test func `an EdDSA signature whose S is larger than the order is refused, though it is the same point`() throws {
        let token = try CompactToken(Array(try #require(MadeTokens.valid.first { $0.algorithm == "EdDSA" }).token.utf8))
        let keys = try TokenKeys(reading: Array(MadeTokens.keySet.utf8), allowsSecrets: false)
        let key = try #require(keys.candidates(identifier: token.keyIdentifier, .eddsa).first)
        #expect(token.signature.count == 64 && key.verifies(token.signature, of: token.signedBytes, by: .eddsa))
        var larger = token.signature
        var carry = 0
        for (place, byte) in Self.orderOfEd25519.enumerated() {
            let sum = Int(larger[32 + place]) + Int(byte) + carry
            (larger[32 + place], carry) = (UInt8(truncatingIfNeeded: sum), sum >> 8)
        }
        #expect(carry == 0 && !key.verifies(larger, of: token.signedBytes, by: .eddsa))
        // Points of small order as R, with S of 0: SmallOrder.
        for first: UInt8 in [0, 1, 0xEC, 0xED, 0xEE] {
            let point = [first] + [UInt8](repeating: first < 2 ? 0 : 0xFF, count: 30) + [first < 2 ? 0 : 0x7F]
            #expect(!key.verifies(point + [UInt8](repeating: 0, count: 32), of: token.signedBytes, by: .eddsa))
        }
    }

    /// In little-endian order.
    private static let orderOfEd25519: [UInt8] = [
        0xED, 0xD3, 0xF5, 0x5C, 0x1A, 0x63, 0x12, 0x58, 0xD6, 0x9C, 0xF7, 0xA2, 0xDE, 0xF9, 0xDE, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0,
        0, 0, 0, 0, 0x10,
    ]

    /// Wycheproof's cases of numbers that no signature is, for both paddings.
    @Test(arguments: ["RS256", "PS256"]) func `an RSA signature of 0, 1, or more than the modulus is refused`(name: String) throws {
        let token = try CompactToken(Array(try #require(MadeTokens.valid.first { $0.algorithm == name }).token.utf8))
        let keys = try TokenKeys(reading: Array(MadeTokens.keySet.utf8), allowsSecrets: false)
        let key = try #require(keys.candidates(identifier: token.keyIdentifier, token.algorithm).first)
        let count = token.signature.count
        for bytes in [
            [UInt8](repeating: 0, count: count), [UInt8](repeating: 0, count: count - 1) + [1],
            [UInt8](repeating: 0xFF, count: count),
        ] {
            #expect(!key.verifies(bytes, of: token.signedBytes, by: token.algorithm))
        }
        // The same number with a zero in front.
        #expect(!key.verifies([0] + token.signature, of: token.signedBytes, by: token.algorithm))
    }

    @Test func `an HMAC that is cut or longer is refused`() throws {
        let token = try CompactToken(Array(try #require(MadeTokens.valid.first { $0.algorithm == "HS256" }).token.utf8))
        let key = try VerificationKey(secret: Array(MadeTokens.secret.utf8))
        #expect(key.verifies(token.signature, of: token.signedBytes, by: .hs256))
        for count in 0..<32 {
            #expect(!key.verifies(Array(token.signature.prefix(count)), of: token.signedBytes, by: .hs256))
        }
        #expect(!key.verifies(token.signature + [0], of: token.signedBytes, by: .hs256))
    }

    // MARK: Names of keys

    @Test func `a name that no key has is an unknown key, and one that a key of another kind has is refused`() throws {
        let token = try #require(MadeTokens.valid.first { $0.algorithm == "ES256" }).token
        let others = try TokenKeys(reading: Array(MadeTokens.smallerSet(without: "p256").utf8), allowsSecrets: false)
        let refusal = #expect(throws: TokenRefusal.self) { try Self.verifier([.es256]).verify(token, others) }
        #expect(refusal == TokenRefusal(.unknownKey, "no key has the name \"p256\""))
        for (remark, words) in [
            ("the key \"p256\" is not for signatures: its \"use\" is enc", "it is not for signatures: its \"use\" is enc"),
            ("of its 300 keys the first 256 that fit are used", "of its 300 keys the first 256 that fit are used"),
        ] {
            let passedOver = TokenKeys(others.keys, remarks: ["the key \"p2\" has no \"kty\"", remark])
            let refusal = #expect(throws: TokenRefusal.self) { try Self.verifier([.es256]).verify(token, passedOver) }
            #expect(refusal == TokenRefusal(.unknownKey, "no key has the name \"p256\" (\(words))"))
        }
    }

    @Test func `keys of PEM have no names, and are tried for any`() throws {
        let keys = try TokenKeys(reading: Array((MadeTokens.rsaPEM + "\n" + MadeTokens.p256PEM).utf8), allowsSecrets: false)
        for name in ["RS256", "PS512", "ES256"] {
            let token = try #require(MadeTokens.valid.first { $0.algorithm == name }).token
            #expect(try Self.verifier([try #require(SignatureAlgorithm(name))]).verify(token, keys).userName == "anna")
        }
    }

    @Test func `a token without a name for its key is refused where very many might be it`() throws {
        let key = try VerificationKey(secret: Array(MadeTokens.secret.utf8))
        let token = try #require(MadeTokens.valid.first { $0.algorithm == "HS256" }).token
        let few = TokenKeys(Array(repeating: key, count: 16))
        #expect(try Self.verifier([.hs256]).verify(token, few).userName == "anna")
        let many = TokenKeys(Array(repeating: key, count: 17))
        #expect(throws: TokenRefusal(.signature, "it does not say which key it is signed with (kid), and 17 might be")) {
            try Self.verifier([.hs256]).verify(token, many)
        }
    }

    // MARK: Helpers

    private static func verifier(_ algorithms: [SignatureAlgorithm]) -> TokenVerifier {
        var rules = TokenRules()
        rules.algorithms = algorithms
        rules.audiences = ["mqtt"]
        return TokenVerifier(rules)
    }

    private func verify(_ token: String, _ algorithms: [SignatureAlgorithm]) throws -> TokenLogin {
        let set = try TokenKeys(reading: Array(MadeTokens.keySet.utf8), allowsSecrets: false)
        let secret = try TokenKeys(secret: Array(MadeTokens.secret.utf8))
        let isSymmetric = (try? CompactToken(Array(token.utf8)))?.algorithm.isSymmetric == true
        return try Self.verifier(algorithms).verify(token, isSymmetric && token != MadeTokens.confused ? secret : set)
    }

    private func refusal(_ token: String, _ algorithms: [SignatureAlgorithm] = SignatureAlgorithm.allCases) -> TokenRefusal? {
        do {
            _ = try verify(token, algorithms)
            return nil
        } catch {
            return error as? TokenRefusal
        }
    }
}

extension TokenVerifier {
    func verify(_ token: String, _ keys: TokenKeys) throws(TokenRefusal) -> TokenLogin {
        try verify(
            Array(token.utf8), keys: keys, bearer: TokenBearer(userName: "anna", clientIdentifier: "c"), now: MadeTokens.now)
    }
}

extension MadeTokens {
    /// The set with the key of a name called otherwise.
    static func smallerSet(without name: String) -> String {
        String(
            decoding: Array(keySet.utf8).split(separator: 0x0A).map { line in
                line.elementsEqual(#"   "kid": "\#(name)","#.utf8) ? Array(#"   "kid": "other","#.utf8) : Array(line)
            }.joined(separator: [0x0A]).map { $0 }, as: UTF8.self)
    }
}

/// A token of an RFC's appendix, with its key.
struct RFCVector: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let key: String
    let token: String

    private static let claims =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

    static let all = [
        RFCVector(
            testDescription: "RFC 7515 A.1, HS256",
            key: #"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}"#,
            token: "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\(claims).dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
        RFCVector(
            testDescription: "RFC 7515 A.2, RS256",
            key:
                #"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL"#
                + "-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa"
                + #"2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#,
            token: "eyJhbGciOiJSUzI1NiJ9.\(claims)."
                + "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKB"
                + "YNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6Bf"
                + "I7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"),
        RFCVector(
            testDescription: "RFC 7515 A.3, ES256",
            key:
                #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
            token:
                "eyJhbGciOiJFUzI1NiJ9.\(claims).DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
        ),
        RFCVector(
            testDescription: "RFC 7515 A.4, ES512",
            key:
                #"{"kty":"EC","crv":"P-521","x":"AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk","#
                + #""y":"ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2"}"#,
            token: "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA."
                + "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdO"
                + "O8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"),
        RFCVector(
            testDescription: "RFC 8037 A.4, Ed25519",
            key: #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
            token: "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc."
                + "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"),
    ]
}
