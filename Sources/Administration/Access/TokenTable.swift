internal import Cryptography
internal import Platform

/// The tokens of programs: who they are, and what their secrets hash to.
///
/// The file has a line for each, `NAME:ROLE[:EXPIRY]:SHA256`, the expiry in seconds since 1970, the hash of the whole secret in hexadecimal;
/// empty lines and those that begin with # are passed over. A secret is `mrt_` and 43 characters: of 256 bits nobody guesses one, so a fast
/// hash will do.
public struct TokenTable: Sendable {
    public struct Token: Sendable, Equatable {
        public let name: String
        public let role: AdministrationRole
        /// Seconds since 1970; nil for ever.
        public let expiresAt: UInt64?
        let hash: [UInt8]

        var line: String {
            let digits = hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            return "\(name):\(role.rawValue)\(expiresAt.map { ":\($0)" } ?? ""):\(digits)"
        }
    }

    public private(set) var tokens: [Token] = []

    public init() {}

    /// Reads a file's text. Lines that are none are counted, not taken.
    ///
    /// - `refused`: called with the number of each line that is none, from 1.
    public init(_ text: String, refused: (Int) -> Void = { _ in }) {
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (place, line) in lines.enumerated() {
            let line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            guard !line.isEmpty, line.first != UInt8(ascii: "#") else { continue }
            guard let token = Self.token(String(decoding: Array(line), as: UTF8.self)),
                tokens.count < Limits.tokensMax,
                !tokens.contains(where: { $0.name == token.name })
            else {
                refused(place + 1)
                continue
            }
            tokens.append(token)
        }
    }

    private static func token(_ line: String) -> Token? {
        let parts = line.split(separator: ":", omittingEmptySubsequences: false).map { String($0) }
        guard parts.count == 3 || parts.count == 4, isName(parts[0]),
            let role = AdministrationRole(rawValue: parts[1]),
            let hash = bytes(parts[parts.count - 1])
        else { return nil }
        guard parts.count == 4 else {
            return Token(name: parts[0], role: role, expiresAt: nil, hash: hash)
        }
        // Up to the year 9999; more is none of seconds.
        guard let expiresAt = UInt64(parts[2]), expiresAt <= 253_402_300_799 else { return nil }
        return Token(name: parts[0], role: role, expiresAt: expiresAt, hash: hash)
    }

    private static func bytes(_ digits: String) -> [UInt8]? {
        let digits = Array(digits.utf8)
        guard digits.count == 64 else { return nil }
        let bytes = stride(from: 0, to: 64, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
        return bytes.count == 32 ? bytes : nil
    }

    static func isName(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// The file's text.
    public var text: String { tokens.map { $0.line + "\n" }.joined() }

    /// Finds the token whose secret it is; nil for nobody's, and for one that has expired.
    func find(_ secret: String, now: Moment) -> Token? {
        let hash = HashFunction.sha256.digest(Array(secret.utf8))
        // Which of them it is may show in the time, not how much of a hash is right.
        return tokens.first {
            ConstantTime.equal($0.hash, hash) && ($0.expiresAt ?? .max) > now.wallMilliseconds / 1000
        }
    }

    /// A new one with its secret; nil if there is one of that name or there are too many.
    public mutating func make(_ name: String, _ role: AdministrationRole, expiresAt: UInt64?) -> (
        token: Token, secret: String
    )? {
        guard Self.isName(name), tokens.count < Limits.tokensMax,
            !tokens.contains(where: { $0.name == name })
        else { return nil }
        let secret = "mrt_" + Secret.make()
        let token = Token(
            name: name, role: role, expiresAt: expiresAt,
            hash: HashFunction.sha256.digest(Array(secret.utf8)))
        tokens.append(token)
        return (token, secret)
    }

    /// Forgets one, and returns it; nil if there is none of that name.
    public mutating func remove(_ name: String) -> Token? {
        tokens.firstIndex { $0.name == name }.map { tokens.remove(at: $0) }
    }
}

/// What nobody guesses.
enum Secret {
    /// 256 random bits as 43 characters.
    static func make() -> String {
        Base64URL.encode(
            [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
                RandomBytes.fill(UnsafeMutableRawBufferPointer(buffer))
                count = buffer.count
            })
    }
}
