/// What concerns the broker's process rather than its clients.
public struct GeneralConfiguration: Sendable, Equatable {
    /// `martlet_threads`: how many event loops run; nil chooses by the cores that the broker may use.
    public var threads: Int?
    /// `martlet_compat`: whose defaults count where the versions of mosquitto differ.
    public var compatibility = MosquittoCompatibility.version2_1
    /// `martlet_profile`: a set of values that counts where the file is silent; nil is none.
    public var profile: ConfigurationProfile?
    /// `martlet_expand_environment`: `${NAME}` inside a value of the file stands for the environment's NAME.
    public var expandsEnvironment = false
    /// `user`: whom the broker becomes after it has opened its ports as root.
    public var userName = "mosquitto"
    /// `pid_file`: where the process identifier is written.
    public var processIdentifierFile: String?
    /// `sys_interval`: the period of the `$SYS` topics; nil switches them off.
    public var systemTopicIntervalSeconds: Int? = 10
    /// `enable_control_api`: the broker answers on `$CONTROL/broker/v1`.
    public var enablesControlAPI = false
    /// `set_tcp_nodelay`: Nagle's algorithm is off on the clients' connections, whatever this says.
    public var disablesTCPDelay = true
    /// `martlet_connect_timeout`: how long a connection may take until its CONNECT is complete.
    public var connectTimeoutSeconds = 30
    /// `martlet_node_name`: what the broker is called below `$SYS/brokers/`; nil for the host's name.
    public var nodeName: String?
    /// `packet_buffer_size`: how many bytes the header of a WebSocket's HTTP request may have.
    public var webSocketHeaderBytesMax = 4096

    /// The files that secrets were read from.
    public var secretFiles: [SecretFile] = []

    public init() {}
}

/// The version of mosquitto whose defaults are taken.
public enum MosquittoCompatibility: String, Sendable, Equatable, CaseIterable {
    case version2_0 = "2.0"
    case version2_1 = "2.1"
}
