/// One place where clients connect, and what holds for those that do.
public struct ListenerConfiguration: Sendable, Equatable {
    /// `listener`: where it listens.
    public var endpoint: ListenerEndpoint
    /// `protocol`.
    public var application = ListenerProtocol.mqtt
    /// `accept_protocol_versions`: the protocol levels that are let in: 3 (MQTT 3.1), 4 (3.1.1) and 5.
    public var acceptedProtocolVersions: Set<UInt8> = [3, 4, 5]
    /// `socket_domain`: the one address family; nil is both.
    public var addressFamily: AddressFamily?
    /// `bind_interface`: the one network interface.
    public var interface: String?
    /// `max_connections`; nil is no limit.
    public var connectionsMax: Int?
    /// `max_qos`: the highest QoS that a client may publish with.
    public var qosMax: UInt8 = 2
    /// `max_topic_alias`: topic aliases that a client may use towards the broker.
    public var topicAliasMax: UInt16 = 10
    /// `max_topic_alias_broker`: topic aliases that the broker uses towards a client.
    public var topicAliasMaxBroker: UInt16 = 10
    /// `mount_point`: what every topic of these clients is prefixed with inside the broker.
    public var mountPoint: String?
    /// `use_username_as_clientid`.
    public var usesUserNameAsClientIdentifier = false
    /// `enable_proxy_protocol`: the version of the PROXY header that each connection begins with; nil is none.
    public var proxyProtocolVersion: UInt8?
    /// `proxy_protocol_v2_require_tls`: the header has to say that the client came with TLS.
    public var proxyProtocolRequiresTLS = false
    /// `martlet_proxy_trusted`: whose PROXY headers are believed (empty: anybody's), or without those whose X-Forwarded-For (empty: nobody's).
    public var trustedProxies: [NetworkRange] = []
    /// `http_dir`: the directory of static files.
    public var httpDirectory: String?
    /// `martlet_http_serve`: what a listener with protocol http_api offers.
    public var httpOffers = Set(HTTPOffer.allCases)
    /// Whether the broker starts without it, with a line in its log, where its place cannot be had: clients are served all the same.
    public var isDispensable = false
    /// Whether the broker has it of itself, and no file names it: mosquitto's API does not tell of it.
    public var isBrokersOwn = false
    /// Whether a running broker has closed it, because its files do not name it any more: it keeps its place among the others, by which clients
    /// and sessions are known to have come from it. Never of a configuration that was read.
    public var isClosed = false
    /// `websockets_origin`: the origins that browsers may come from. Empty: any.
    public var webSocketOrigins: [String] = []
    /// `martlet_durability`: what an acknowledgement to these clients promises while persistence is on; its own, or else the broker's.
    public var durability = Durability.commit
    public var tls = ListenerTLSConfiguration()
    /// What holds for this listener: its own settings, or else the broker's.
    public var security = SecurityConfiguration()

    /// Whether it has a port, and other machines may not connect to it.
    public var isForThisMachine: Bool {
        if case .unixSocket = endpoint { false } else { !isReachableFromElsewhere }
    }

    /// Whether other machines may connect, as far as the configuration tells.
    var isReachableFromElsewhere: Bool {
        switch endpoint {
        case .loopback, .unixSocket: false
        case .tcp(_, let host?): !host.hasPrefix("127.") && !["::1", "localhost"].contains(host)
        case .tcp(_, nil): interface != "lo"
        }
    }

    /// Whether it is a Unix socket from which the broker is administered: it lets in no client of MQTT, and nobody from elsewhere.
    public var isAdministrationSocket: Bool {
        if case .unixSocket = endpoint { application == .httpAPI } else { false }
    }

    /// Whether this machine alone can administer the broker there, and no client of MQTT comes by it.
    public var isLocalAdministration: Bool { application == .httpAPI && !isReachableFromElsewhere }

    public init(endpoint: ListenerEndpoint) {
        self.endpoint = endpoint
    }

    /// Whether both listen at the same place.
    public func isAtPlace(of other: ListenerConfiguration) -> Bool {
        endpoint == other.endpoint && interface == other.interface && addressFamily == other.addressFamily
    }

    /// Whether connections of both have the same layers, so that those of the one may go on as the other's.
    public func speaksAs(_ other: ListenerConfiguration) -> Bool {
        application == other.application && tls.isEnabled == other.tls.isEnabled
            && proxyProtocolVersion == other.proxyProtocolVersion
    }
}

/// Where a listener listens.
public enum ListenerEndpoint: Sendable, Hashable {
    /// A port of `host`, or of every address when that is nil.
    case tcp(port: UInt16, host: String?)
    /// A port of 127.0.0.1 and, where there is IPv6, of ::1.
    case loopback(port: UInt16)
    case unixSocket(path: String)
}

/// The protocol that is spoken on a listener.
public enum ListenerProtocol: String, Sendable, Equatable, CaseIterable {
    case mqtt
    case webSockets = "websockets"
    case httpAPI = "http_api"
}

/// Something that is offered over HTTP.
public enum HTTPOffer: String, Sendable, Equatable, CaseIterable {
    /// Whether the broker lives and is ready.
    case health
    /// Figures for Prometheus.
    case metrics
    /// What programs ask and order.
    case api
    /// Pages for people.
    case dashboard
}

/// A family of network addresses.
public enum AddressFamily: String, Sendable, Equatable, CaseIterable {
    case ipv4
    case ipv6
}

/// What of a client's certificate (or pre-shared key) becomes its user name.
public enum CertificateUserName: Sendable, Equatable {
    case none
    /// The common name, or the identity of the pre-shared key.
    case identity
    case subject
}
