/// The settings that say who may see and steer the broker over HTTP, and how far.
public struct AdministrationConfiguration: Sendable, Equatable {
    /// `martlet_http_user`: what users may do, by their names.
    public var users: [String: HTTPRole] = [:]
    /// `martlet_http_token_file`: the tokens of programs; nil is none.
    public var tokenFile: String?
    /// `martlet_http_host`: the names by which requests may call this machine, besides those of loopback.
    public var hosts: [String] = []
    /// `martlet_http_origin`: the origins whose pages may use the API.
    public var origins: [String] = []
    /// `martlet_http_payloads`: who may see the payloads of messages.
    public var payloads = PayloadRight.admin
    /// `martlet_metrics_anonymous`: whether measurements are for everybody.
    public var areMetricsAnonymous = false
    /// `martlet_audit_log`: the file that says who has changed what; nil is the log.
    public var auditFile: String?

    public init() {}
}

/// What a user may do over HTTP.
public enum HTTPRole: String, Sendable, Equatable, CaseIterable {
    /// See.
    case viewer
    /// See and change.
    case admin
}

/// The roles that may see the payloads of messages.
public enum PayloadRight: String, Sendable, Equatable, CaseIterable {
    case none
    case admin
    case viewer
}
