/// What the configuration says of administration over HTTP.
public struct AdministrationSettings: Sendable {
    /// The roles that may see the payloads of messages.
    public enum Payloads: String, Sendable, CaseIterable {
        case none
        case admin
        case viewer
    }

    /// What a listener offers.
    public struct Parts: OptionSet, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        public static let health = Parts(rawValue: 1)
        public static let metrics = Parts(rawValue: 2)
        public static let api = Parts(rawValue: 4)
        public static let dashboard = Parts(rawValue: 8)
        public static let all: Parts = [.health, .metrics, .api, .dashboard]
    }

    /// What holds for one listener.
    public struct Listener: Sendable {
        public var parts = Parts.all
        /// Whether only this machine reaches it by TCP: then a request has to name a host that is this machine.
        public var isLoopback = false
        /// What somebody may do who does not log in; nil for nothing.
        public var anonymousRole: AdministrationRole?

        public init() {}
    }

    /// `martlet_http_user`.
    public var users: [String: AdministrationRole] = [:]
    /// `martlet_metrics_anonymous`.
    public var allowsAnonymousMetrics = false
    /// `martlet_http_host`: names besides this machine's that a request may be for.
    public var hosts: [String] = []
    /// `martlet_http_origin`: origins whose pages may use the API.
    public var origins: [String] = []
    /// `martlet_http_payloads`.
    public var payloads = Payloads.admin
    /// Whether there is a file of tokens, `martlet_http_token_file`.
    public var keepsTokens = false
    /// `memory_limit`: of what strangers make happen no more is kept than a small part of it; nil for no limit.
    public var memoryBytesMax: Int?
    /// By listener; for others that are not there, `Listener()` holds.
    public var listeners: [Int: Listener] = [:]

    public init() {}
}
