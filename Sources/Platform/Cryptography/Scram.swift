internal import Bytes

/// What SCRAM-SHA-256 makes of a password: with the one key the client proves that it knows it, with the other the
/// server does. [RFC 5802, section 3]
package struct ScramKeys: Sendable {
    /// RFC 7677's least, and what PostgreSQL takes; it is the client that does the work.
    package static let iterationsStandard = 4096

    package let client: [UInt8]
    package let server: [UInt8]
    /// What the server keeps of the client's.
    package var stored: [UInt8] { HashFunction.sha256.digest(client) }

    /// - Parameters:
    ///   - password: as SASLprep has it.
    ///   - salt: of any length.
    ///   - iterations: from 1 to `Int32.max`.
    package init(password: [UInt8], salt: [UInt8], iterations: Int) {
        let salted = HashFunction.sha256.derivedKey(password: password, salt: salt, iterations: iterations)
        client = HashFunction.sha256.authenticationCode(Array("Client Key".utf8), key: salted)
        server = HashFunction.sha256.authenticationCode(Array("Server Key".utf8), key: salted)
    }

    /// The client's proof of its key, for all that was said; and of a proof the key.
    package static func proof(of client: [UInt8], stored: [UInt8], _ message: String) -> [UInt8] {
        zip(client, HashFunction.sha256.authenticationCode(Array(message.utf8), key: stored)).map { $0 ^ $1 }
    }

    /// The server's last word, which proves its key, for all that was said.
    package static func verifier(server: [UInt8], _ message: String) -> [UInt8] {
        Array("v=\(Base64.encode(HashFunction.sha256.authenticationCode(Array(message.utf8), key: server)))".utf8)
    }
}

/// One run of SCRAM-SHA-256 (RFC 5802, RFC 7677), the client's side: both sides prove that they know the password, and
/// none of it is sent. Without channel binding.
package struct ScramClientExchange: Sendable {
    /// Why a server gets no proof.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// What is said first.
    package var first: [UInt8] { Array("n,,\(bare)".utf8) }
    /// Whether the server has proved that it knows the password.
    package private(set) var isProved = false
    private let nonce: String
    private let bare: String
    private let password: [UInt8]
    private let iterations: ClosedRange<Int>
    private var verifier: [UInt8]?

    /// - Parameters:
    ///   - user: as SASLprep has it; nothing where the server knows already.
    ///   - password: as SASLprep has it.
    ///   - iterationsMin: fewer would give the password away to who only pretends to be the server.
    ///     [RFC 7677, section 4]
    ///   - nonce: printable, without a comma, and never the same; nil makes one.
    package init(
        user: [UInt8], password: [UInt8], iterationsMin: Int = ScramKeys.iterationsStandard, nonce: String? = nil
    ) {
        self.nonce = nonce ?? Self.makeNonce()
        self.password = password
        iterations = iterationsMin...Limits.scramIterationsMax
        let escaped = user.flatMap { byte -> [UInt8] in
            switch byte {
            case UInt8(ascii: ","): Array("=2C".utf8)
            case UInt8(ascii: "="): Array("=3D".utf8)
            default: [byte]
            }
        }
        bare = "n=\(String(decoding: escaped, as: UTF8.self)),r=\(self.nonce)"
    }

    private static func makeNonce() -> String {
        var bytes = [UInt8](repeating: 0, count: 18)
        bytes.withUnsafeMutableBytes { RandomBytes.fill($0) }
        return Base64.encode(bytes)
    }

    /// The client's last word, which proves that it knows the password; once.
    package mutating func answer(to serverFirst: [UInt8]) throws(Failure) -> [UInt8] {
        let serverFirst = String(decoding: serverFirst, as: UTF8.self)
        let parts = serverFirst.split(separator: ",", omittingEmptySubsequences: false)
        guard verifier == nil, parts.count >= 3, parts[0].hasPrefix("r=\(nonce)"), parts[0].utf8.count > nonce.utf8.count + 2,
            parts[1].hasPrefix("s="), let salt = Base64.decode(parts[1].dropFirst(2)), !salt.isEmpty,
            parts[2].hasPrefix("i="), let count = Int(parts[2].dropFirst(2))
        else { throw Failure(description: "the server's SCRAM challenge cannot be read") }
        guard iterations.contains(count) else {
            throw Failure(
                description: "the server asks for \(count) iterations of SCRAM; \(iterations.lowerBound) to "
                    + "\(iterations.upperBound) are right")
        }
        let keys = ScramKeys(password: password, salt: salt, iterations: count)
        let withoutProof = "c=biws,\(parts[0])"
        let message = "\(bare),\(serverFirst),\(withoutProof)"
        verifier = ScramKeys.verifier(server: keys.server, message)
        let proof = ScramKeys.proof(of: keys.client, stored: keys.stored, message)
        return Array("\(withoutProof),p=\(Base64.encode(proof))".utf8)
    }

    /// Whether the server's last word proves that it knows the password too.
    package mutating func finish(_ serverFinal: [UInt8]) -> Bool {
        guard let verifier else { return false }
        isProved = ConstantTime.equal(serverFinal, verifier)
        return isProved
    }
}

extension Limits {
    /// Iterations of SCRAM that a server may ask for; more are refused, for they cost seconds.
    static let scramIterationsMax = 1_000_000
}
