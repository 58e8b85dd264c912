internal import Cryptography

/// A password as a file keeps it: a hash, and its text.
public struct StoredPassword: Sendable, Equatable {
    /// As files have it, `$argon2id$…`, `$7$…` or `$6$…`.
    public let text: String
    private let hash: PasswordHash

    /// Takes a text; nil for one that is no hash.
    public init?(_ text: String) {
        guard let hash = try? PasswordHash(text) else { return nil }
        (self.text, self.hash) = (text, hash)
    }

    private init(_ hash: PasswordHash) { (text, self.hash) = (hash.text, hash) }

    /// Whether the password is the one; nil when there is no memory to find out. Takes milliseconds to seconds.
    public func matches(_ password: [UInt8]) -> Bool? { hash.matches(password) }

    /// What no password matches, and costs as much to check as one that is kept now.
    public static func impossible() -> StoredPassword { StoredPassword(PasswordRecipe.argon2id(.standard).impossibleHash()) }

    public static func == (left: StoredPassword, right: StoredPassword) -> Bool { left.text == right.text }
}
