internal import Bytes

/// A user's name and password as the scheme Basic carries them, RFC 7617.
public struct BasicCredentials: Sendable, Equatable {
    public let username: String
    public let password: [UInt8]

    /// Reads the value of the field Authorization; nil when it is of another scheme, no Base64, has no colon, or the name is no UTF-8.
    public init?(_ value: String) {
        let bytes = Array(value.utf8)
        guard bytes.count > 6, HTTPText.isSame(value.prefix(6), "Basic "),
            let decoded = Base64.decode(String(decoding: HTTPText.trimmed(bytes[6...]), as: UTF8.self)),
            let colon = decoded.firstIndex(of: UInt8(ascii: ":")),
            let username = String(validating: decoded[..<colon], as: UTF8.self)
        else { return nil }
        self.username = username
        password = Array(decoded[(colon + 1)...])
    }
}
