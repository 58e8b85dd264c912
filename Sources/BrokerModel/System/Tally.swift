public import MQTTCodec

/// How often each of a few things has happened. Not for the way of a message: each addition looks its key up.
public struct Tally<Key: Hashable & Sendable>: Sendable, Equatable {
    /// What has happened at least once.
    public private(set) var counts: [Key: UInt64] = [:]

    public init() {}

    public subscript(key: Key) -> UInt64 { counts[key] ?? 0 }

    /// It has happened once more.
    public mutating func count(_ key: Key) { counts[key, default: 0] &+= 1 }

    /// It has happened so many times more.
    public mutating func add(_ key: Key, _ count: UInt64) { counts[key, default: 0] &+= count }

    /// Adds what was counted elsewhere.
    public mutating func add(_ other: Tally) { counts.merge(other.counts, uniquingKeysWith: &+) }
}

/// A login that was decided: by whom, and how.
public struct LoginTally: Hashable, Sendable {
    public enum Result: String, Sendable {
        case accepted
        case refused
        /// Nobody could say: as many logins wait as may.
        case unavailable
    }

    /// Who has decided: `password_file`, `dynamic_security`, the name of an Authentication Method, `certificate`, `pre_shared_key`, or
    /// `anonymous` where nothing was checked. No peer can choose another one.
    public let backend: String
    public let result: Result

    public init(_ backend: String, _ result: Result) { (self.backend, self.result) = (backend, result) }

    /// The counts that most brokers have.
    public static var usual: [LoginTally] {
        [LoginTally("anonymous", .accepted), LoginTally("password_file", .accepted), LoginTally("password_file", .refused)]
    }
}

/// The end of a client's connection.
public struct DisconnectTally: Hashable, Sendable {
    public let listener: Int
    /// nil for a connection that its client closed, or that broke, without a word.
    public let reason: ReasonCode?

    public init(listener: Int, reason: ReasonCode?) { (self.listener, self.reason) = (listener, reason) }

    /// The counts that every listener has.
    public static func usual(of listener: Int) -> [DisconnectTally] {
        [nil, .normalDisconnection, .keepAliveTimeout].map { DisconnectTally(listener: listener, reason: $0) }
    }

    /// The reason as the metrics call it.
    public var label: String {
        switch reason {
        case nil: "connection_closed"
        case .normalDisconnection?: "normal_disconnection"
        case let reason?: reason.label
        }
    }
}

/// Why a connection came to nothing, as the metrics call it.
public enum RefusedConnection: Hashable, Sendable {
    /// `max_connections` or `global_max_connections`.
    case tooMany
    /// `martlet_max_connections_per_second_per_address`
    case tooFast
    /// `martlet_proxy_trusted`
    case untrustedProxy
    /// What goes before MQTT was not as it should be.
    case proxyProtocol, tls, webSocket
    /// No CONNECT came in time.
    case silence
    /// CONNECT, or what came in its place, was refused.
    case connect(ReasonCode)

    /// The counts that are not of single clients.
    public static var usual: [RefusedConnection] { [.tooMany, .tooFast, .tls, .silence] }

    public var label: String {
        switch self {
        case .tooMany: "too_many_connections"
        case .tooFast: "too_many_per_second"
        case .untrustedProxy: "untrusted_proxy"
        case .proxyProtocol: "proxy_protocol"
        case .tls: "tls"
        case .webSocket: "websocket"
        case .silence: "connect_timeout"
        case .connect(let reason): reason.label
        }
    }
}

/// What a client may not do.
public enum DeniedAction: String, CaseIterable, Hashable, Sendable {
    case publish
    case subscribe
    /// A message that waited for its client was dropped, for the rules are others now.
    case receive
    /// A will was not published, for the rules are others now.
    case will
}

extension ReasonCode {
    /// The standard's words as one word of a metric, `keep_alive_timeout`.
    public var label: String { String(description.lowercased().map { $0 == " " || $0 == "-" ? "_" : $0 }) }
}
