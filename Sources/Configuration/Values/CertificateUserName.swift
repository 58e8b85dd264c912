/// What of a client's certificate (or pre-shared key) becomes its user name.
public enum CertificateUserName: Sendable, Equatable {
    case none
    /// The common name, or the identity of the pre-shared key.
    case identity
    case subject
}
