/// Everything that an operator can tell the broker, as typed values: what the configuration file says, completed with the defaults
/// of mosquitto 2.1 where it is silent.
///
/// A plain value: made once by `ConfigurationReader` (or `default(ports:)`), then only read. Maxima of type `Int?` mean "no limit" when
/// they are nil. `listeners` is complete: each one carries the security settings that hold for it, whether they were written globally
/// or for it alone, so that nobody but the reader needs to know of `per_listener_settings`.
public struct BrokerConfiguration: Sendable, Equatable {
    public var general = GeneralConfiguration()
    public var messaging = MessagingConfiguration()
    public var limits = LimitsConfiguration()
    public var persistence = PersistenceConfiguration()
    public var logging = LoggingConfiguration()
    public var administration = AdministrationConfiguration()
    public var cluster = ClusterConfiguration()
    /// The settings that hold for every listener which has none of its own.
    public var security = SecurityConfiguration()
    public var listeners: [ListenerConfiguration] = []
    public var bridges: [BridgeConfiguration] = []

    public init() {}

    /// The listeners that let somebody in.
    public var openListeners: [ListenerConfiguration] { listeners.filter { !$0.isClosed } }

    /// What the broker does without a configuration file: it listens on the loopback addresses only, on `ports` (or on 1883 when there
    /// are none), and lets anonymous clients in.
    public static func `default`(ports: [UInt16] = []) -> BrokerConfiguration {
        var configuration = BrokerConfiguration()
        configuration.security.allowsAnonymous = true
        configuration.listeners = loopbackListeners(ports: ports, security: configuration.security)
        return configuration
    }

    /// Adds what a broker without a configuration file has for those who watch it: HTTP on the loopback addresses, as mosquitto does.
    public mutating func addLocalAdministration() {
        var listener = ListenerConfiguration(endpoint: .loopback(port: Self.administrationPort))
        listener.application = .httpAPI
        listener.isDispensable = true
        listener.security = security
        listeners.append(listener)
    }

    /// The listeners of a broker that was told of none: one for each port on the loopback addresses.
    static func loopbackListeners(ports: [UInt16], security: SecurityConfiguration) -> [ListenerConfiguration] {
        (ports.isEmpty ? [defaultPort] : ports).map { port in
            var listener = ListenerConfiguration(endpoint: .loopback(port: port))
            listener.security = security
            return listener
        }
    }

    /// mosquitto's for HTTP.
    public static let administrationPort: UInt16 = 9883

    /// The port that IANA registered for MQTT.
    public static let defaultPort: UInt16 = 1883
}
