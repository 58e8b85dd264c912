internal import Cryptography

/// A private key of Ed25519 as NATS writes it: a seed, in Base32, of a user.
public struct NKey: Sendable, Hashable {
    private let seed: [UInt8]
    /// What the server knows it by: `U…`.
    public let publicKey: String

    /// Reads a seed: `SU` and 56 characters more. Throws what is wrong with it.
    public init(seed text: String) throws(NKeyError) {
        guard let bytes = Base32.decode(text.utf8), bytes.count == 36 else {
            throw NKeyError(description: "a user's seed is 58 characters of Base32: SU…")
        }
        let checksum = UInt16(bytes[34]) | UInt16(bytes[35]) << 8
        guard checksum == Self.checksum(bytes[..<34]) else { throw NKeyError(description: "the seed's checksum is wrong") }
        // Five bits that say what it is, and five that say whose.
        guard bytes[0] & 0xF8 == Self.seedPrefix, (bytes[0] & 7) << 5 | bytes[1] >> 3 == Self.userPrefix else {
            throw NKeyError(description: "it is not a user's seed, which begins with SU")
        }
        seed = Array(bytes[2..<34])
        guard let key = Ed25519.publicKey(seed: seed) else { throw NKeyError(description: "OpenSSL makes no key of the seed") }
        let named = [Self.userPrefix] + key
        let sum = Self.checksum(named[...])
        publicKey = Base32.encode(named + [UInt8(truncatingIfNeeded: sum), UInt8(truncatingIfNeeded: sum >> 8)])
    }

    /// The signature of a server's nonce; nil if OpenSSL has no memory.
    func signature(of nonce: String) -> [UInt8]? { Ed25519.signature(of: Array(nonce.utf8), seed: seed) }

    private static let seedPrefix: UInt8 = 18 << 3
    private static let userPrefix: UInt8 = 20 << 3

    /// CRC-16 of XMODEM.
    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt16 {
        bytes.reduce(0) { sum, byte in
            (0..<8).reduce(sum ^ UInt16(byte) << 8) { sum, _ in sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021 }
        }
    }
}

/// The error of a seed. It does not tell the seed.
public struct NKeyError: Error, Equatable, CustomStringConvertible {
    public let description: String
}

/// RFC 4648's Base32 without padding.
private enum Base32 {
    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        var (pending, bits): (UInt32, UInt32) = (0, 0)
        for byte in bytes {
            pending = pending << 8 | UInt32(byte)
            bits += 8
            while bits >= 5 {
                bits -= 5
                text.append(alphabet[Int(pending >> bits & 31)])
            }
        }
        if bits > 0 { text.append(alphabet[Int(pending << (5 - bits) & 31)]) }
        return String(decoding: text, as: UTF8.self)
    }

    static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var (pending, bits): (UInt32, UInt32) = (0, 0)
        for character in text {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            pending = pending << 5 | UInt32(value)
            bits += 5
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: pending >> bits))
            }
        }
        return pending & (1 << bits - 1) == 0 ? bytes : nil
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)
}
