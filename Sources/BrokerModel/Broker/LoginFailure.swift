/// Why a client was not let in: for the operator's log. The client is told less, so that nobody finds out which users there are.
public enum LoginFailure: Sendable, Equatable {
    case unspecified
    case unknownUser
    case wrongPassword
    /// Anonymous clients are not let in, and this one gave no user name.
    case noUserName
    case noPassword
    case unknownMethod
    /// The listener has nobody to compare the user with.
    case noUsersKnown
    case noCertificateName
    /// What the login has proved is another user than the certificate or the session has.
    case otherUser
    /// Its identifier, user or address is.
    case banned

    /// As a part of a sentence: `wrong password`.
    public var words: String {
        switch self {
        case .unspecified: "the login was not accepted"
        case .unknownUser: "unknown user"
        case .wrongPassword: "wrong password"
        case .noUserName: "no user name, and anonymous clients are not allowed"
        case .noPassword: "no password"
        case .unknownMethod: "unknown authentication method"
        case .noUsersKnown: "its listener has no users (password_file) and does not allow anonymous clients"
        case .noCertificateName: "no certificate or key that names a user"
        case .otherUser: "another user than the one of the certificate or the session"
        case .banned: "banned"
        }
    }
}
