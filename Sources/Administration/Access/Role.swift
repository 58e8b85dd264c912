internal import MQTTCodec

/// What somebody may do over HTTP.
public enum AdministrationRole: String, Sendable, CaseIterable {
    /// Read what is measured, and nothing else.
    case metrics
    /// See.
    case viewer
    /// See and change.
    case admin

    func fulfils(_ need: Route.Need) -> Bool {
        switch need {
        case .nothing, .metrics: true
        case .viewer: self != .metrics
        case .admin: self == .admin
        }
    }
}

/// The identity of the one who asks, as far as it is known.
struct Identity: Sendable {
    enum Means: String, Sendable {
        case none
        case anonymous
        case password
        case token
        case session
        /// The peer's process, on a Unix socket.
        case peer
        /// Another node of the cluster has found out who asks.
        case node
    }

    /// What stands for it from one request to the next.
    enum Credential: Sendable {
        /// A trusted process, or nobody in particular.
        case none
        case token(TokenTable.Token)
        /// By its key in the table.
        case session([UInt8])
        /// By the name that access rules know.
        case user(EncodedString)
    }

    /// Of the user or the token.
    var name: String?
    /// Nil for somebody who may do nothing.
    var role: AdministrationRole?
    var means: Means
    var credential = Credential.none
    /// Until when this is so, in milliseconds since 1970; nil for ever.
    var expiresAt: UInt64?

    static let nobody = Identity(name: nil, role: nil, means: .none)
}
