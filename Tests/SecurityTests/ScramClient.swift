import BrokerModel
import Bytes
import Platform

@testable import Security

/// The client's side of SCRAM-SHA-256, written from RFC 5802 beside the server's.
final class ScramClient {
    let user: String
    let password: String
    private let header: String
    /// What the server has to send in the end, once a challenge has come.
    private(set) var expectedVerifier: String?
    private let nonce = "fyko+d2lbbFgONRv9qkxdawL"

    init(user: String, password: String, header: String = "n,,") {
        self.user = user
        self.password = password
        self.header = header
    }

    private var bare: String { "n=\(user.replacing("=", with: "=3D").replacing(",", with: "=2C")),r=\(nonce)" }

    func run(with exchange: ScramExchange) -> AuthenticationOutcome {
        let outcome = exchange.begin(data: Array((header + bare).utf8))
        guard let challenge = outcome.challenge else { return outcome }
        return exchange.proceed(data: Array("\(withoutProof(challenge)),p=\(Base64.encode(proof(challenge)))".utf8))
    }

    private func withoutProof(_ challenge: String) -> String {
        "c=\(Base64.encode(Array(header.utf8))),\(challenge.split(separator: ",")[0])"
    }

    private func proof(_ challenge: String) -> [UInt8] {
        let parts = challenge.split(separator: ",")
        let salted = HashFunction.sha256.derivedKey(
            password: Array(password.utf8), salt: Base64.decode(parts[1].dropFirst(2)) ?? [],
            iterations: Int(parts[2].dropFirst(2)) ?? 1)
        let clientKey = HashFunction.sha256.authenticationCode(Array("Client Key".utf8), key: salted)
        let message = Array("\(bare),\(challenge),\(withoutProof(challenge))".utf8)
        let signature = HashFunction.sha256.authenticationCode(message, key: HashFunction.sha256.digest(clientKey))
        let serverKey = HashFunction.sha256.authenticationCode(Array("Server Key".utf8), key: salted)
        expectedVerifier = "v=\(Base64.encode(HashFunction.sha256.authenticationCode(message, key: serverKey)))"
        return zip(clientKey, signature).map { $0 ^ $1 }
    }
}
