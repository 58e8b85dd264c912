/// A line `user:secret` of a file of passwords or of SCRAM entries.
struct CredentialLine {
    let user: ArraySlice<UInt8>
    let secret: ArraySlice<UInt8>

    /// Parts a line at its first colon, and takes blanks from around both parts; nil for one without a colon.
    init?(_ text: [UInt8]) {
        guard text.first != UInt8(ascii: "#"), let colon = text.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        user = text[..<colon].trimmedBlanks
        secret = text[(colon + 1)...].trimmedBlanks
    }
}
