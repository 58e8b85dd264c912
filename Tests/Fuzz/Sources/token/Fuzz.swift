import FuzzKit
import JSON

@testable import JSONWebTokens

/// The first byte says what the rest is: a token, keys, or claims.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let bytes = script.remainder()
    switch choice & 3 {
    case 0: checkToken(bytes)
    case 1: checkKeys(bytes)
    case 2: checkSecret(bytes)
    default: checkClaims(bytes)
    }
    return 0
}

/// Nobody knows the secret, and a token without its signature is nobody's.
private func checkToken(_ bytes: [UInt8]) {
    do throws(TokenRefusal) {
        let token = try CompactToken(bytes)
        expect(!token.signature.isEmpty, "a token without a signature")
        expect(bytes.starts(with: token.signedBytes), "what is signed does not stand in the token")
        _ = try verifier.verify(bytes, keys: keys, bearer: bearer, now: now)
        preconditionFailure("somebody is let in without the secret")
    } catch {
        expect(!error.description.isEmpty, "refused without a reason")
        expect(
            !error.description.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F }, "a control character in the words")
    }
}

private func checkKeys(_ bytes: [UInt8]) {
    do throws(TokenKeyError) {
        let set = try TokenKeys(reading: bytes, allowsSecrets: true)
        expect(!set.keys.isEmpty && set.keys.count <= 256, "\(set.keys.count) keys")
        expect(set.remarks.count <= 17, "\(set.remarks.count) remarks")
        for key in set.keys {
            for algorithm in SignatureAlgorithm.allCases {
                expect(!key.verifies([UInt8](repeating: 1, count: 64), of: [1], by: algorithm), "a signature of ones")
            }
        }
    } catch {
        expect(!error.description.isEmpty, "refused without a reason")
    }
}

private func checkSecret(_ bytes: [UInt8]) {
    guard let set = try? TokenKeys(secret: bytes) else { return }
    guard case .secret(let count)? = set.keys.first?.kind else { preconditionFailure("a secret that is none") }
    expect(count >= 32, "a secret of \(count) bytes")
}

/// Claims as a token has them whose signature is good.
private func checkClaims(_ bytes: [UInt8]) {
    let header = Array(Base64URL.encode(Array(#"{"alg":"HS256"}"#.utf8)).utf8)
    let dot = UInt8(ascii: ".")
    guard let token = try? CompactToken(header + [dot] + Array(Base64URL.encode(bytes).utf8) + [dot, 65, 65], bytesMax: 1 << 20),
        let claims = try? token.claims(), let login = try? verifier.login(by: claims, bearer: bearer, now: now)
    else { return }
    expect(login.expiresAt.map { $0 > now - 30 } ?? false, "a login without an end, or past it")
    expect(login.userName?.isEmpty == false, "nobody is let in")
    if let access = login.access {
        expect(access.rules.count <= 1024 && access.rules.allSatisfy { !$0.topic.isEmpty }, "rules without bound")
    }
}

private let now: Int64 = 1_800_000_000
private let bearer = TokenBearer(userName: "anna", clientIdentifier: "c")

private let verifier: TokenVerifier = {
    var rules = TokenRules()
    (rules.algorithms, rules.rolesClaim) = (SignatureAlgorithm.allCases, "realm_access.roles")
    rules.required.append(RequiredClaim(name: "tenant", value: "%u"))
    return TokenVerifier(rules)
}()

private let keys: TokenKeys = {
    let secret = (0..<64).map { _ in UInt8.random(in: 128...255) }
    guard let key = try? VerificationKey(secret: secret) else { preconditionFailure("no key") }
    return TokenKeys([key])
}()
