/// Where the clients of a listener have their user names from.
public enum UserNameSource: Sendable {
    /// CONNECT, and whatever checks it.
    case login
    /// The common name in the certificate, or the identity of the pre-shared key, that the transport has verified.
    case identity
    /// The whole subject of that certificate.
    case subject
}
