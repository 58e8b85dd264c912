public import MQTTCodec

/// A decision that a shard asks its shell for.
public struct AuthenticationRequest: Sendable {
    public enum Step: Sendable {
        /// A user name and perhaps a password, as CONNECT gave them.
        case password(userName: EncodedString?, password: [UInt8]?)
        /// CONNECT with an Authentication Method, or AUTH that begins a re-authentication.
        case begin(method: EncodedString, data: [UInt8]?)
        /// AUTH with the client's answer to a challenge.
        case proceed(method: EncodedString, data: [UInt8]?)
        /// The connection went away in the middle; nothing is to be answered.
        case abandon
    }

    public let clientIdentifier: EncodedString
    public let info: ConnectionInfo
    public let step: Step

    public init(clientIdentifier: EncodedString, info: ConnectionInfo, step: Step) {
        self.clientIdentifier = clientIdentifier
        self.info = info
        self.step = step
    }
}

/// The shell's answer to an `AuthenticationRequest`.
public enum AuthenticationOutcome: Sendable {
    /// The client is who it says. `data` goes back with the last packet of an enhanced authentication; `userName`, if
    /// given, replaces the one in CONNECT.
    case accepted(userName: EncodedString?, data: [UInt8]?)
    /// Send `data` to the client and wait for its answer.
    case challenge(data: [UInt8])
    /// The client is told the reason code, the log what lies behind it.
    case refused(ReasonCode, because: LoginFailure = .unspecified)
}

/// A login that was accepted.
public struct VerifiedLogin: Sendable {
    /// Nil for a client without a user name.
    public let userName: EncodedString?
    /// What CONNACK carries of an enhanced authentication.
    public let authenticationData: [UInt8]?

    package init(
        userName: EncodedString?, authenticationData: [UInt8]?
    ) {
        self.userName = userName
        self.authenticationData = authenticationData
    }
}

/// Why a client was not let in: for the operator's log. The client is told less, so that nobody finds out which users
/// there are.
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

    /// The failure as a part of a sentence: `wrong password`.
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
