public import BrokerModel
public import Cluster

/// The facts about the broker that do not change while it runs.
public struct BrokerFacts: Sendable {
    public var version: String
    /// The name of the node.
    public var node: String
    /// Milliseconds since 1970.
    public var startedAt: UInt64

    public init(version: String, node: String, startedAt: UInt64) {
        (self.version, self.node, self.startedAt) = (version, node, startedAt)
    }
}

/// How the broker is at this moment, as far as the control thread knows.
public struct BrokerCondition: Sendable {
    /// How long ago each loop has been heard of, in milliseconds.
    public var loopAges: [UInt64] = []
    /// Whether every listener accepts.
    public var isListening = true
    public var isStopping = false
    /// Nil without a store.
    public var store: Store?
    /// Where the store is; nil without a store, or if nobody knows.
    public var storeDisk: Disk?
    public var residentBytes: UInt64 = 0
    /// User and system time of the process, in seconds.
    public var processorSeconds = 0.0
    /// `memory_limit`; nil for none.
    public var heapBytesMax: UInt64?
    /// Whether as much memory is in use as may.
    public var isMemoryFull = false
    /// When the configuration was read again last, in milliseconds since 1970.
    public var reloadedAt: UInt64?
    /// The cluster that this is a node of; nil on a broker that is alone.
    public var cluster: ClusterStatus?
    /// Who is asked about logins, where there are several to ask, or services.
    public var loginSources: [LoginSource] = []

    /// A source of logins, and what became of the questions to it.
    public struct LoginSource: Sendable {
        public var name: String
        public var asked: UInt64 = 0
        public var allowed: UInt64 = 0
        public var refused: UInt64 = 0
        public var unknown: UInt64 = 0
        public var failed: UInt64 = 0
        /// Answers that were given again, without a question to it or instead of one that failed.
        public var remembered: UInt64 = 0
        public var latency = Histogram()
        /// Whether it has failed the last few times, and how.
        public var isDown = false
        public var lastFailure = ""

        public init(name: String) { self.name = name }
    }

    public enum Store: String, Sendable {
        case good = "ok"
        /// Nothing new is promised until there is room.
        case full
        case failed
    }

    /// Room for files.
    public struct Disk: Sendable {
        public var freeBytes: UInt64
        public var totalBytes: UInt64

        public init(freeBytes: UInt64, totalBytes: UInt64) { (self.freeBytes, self.totalBytes) = (freeBytes, totalBytes) }
    }

    public init() {}
}

/// A place where clients connect.
public struct AdministeredListener: Sendable {
    public enum Application: String, Sendable {
        case mqtt
        case webSockets = "websockets"
        case httpAPI = "httpapi"
    }

    /// As every answer and label names it.
    public var name: String
    public var application: Application
    /// Nil for a Unix socket.
    public var port: UInt16?
    /// The address it listens on; nil for every one and for a Unix socket.
    public var host: String?
    /// Of a Unix socket.
    public var path: String?
    public var usesTLS = false
    public var requiresCertificate = false
    public var allowsAnonymous = false
    /// Whether user names that clients give may be tokens, and stand in no answer and no audit.
    public var hidesUserNames = false
    /// How many connections there are.
    public var connections = 0
    /// How many were accepted since the start; of HTTP they are not counted.
    public var connectionsAccepted: UInt64?
    /// Nil for no limit.
    public var connectionsMax: Int?
    public var certificate: Certificate?
    /// Whether nobody gets in: a reload has closed it, or it could not be opened. It keeps its place.
    public var isClosed = false

    public struct Certificate: Sendable {
        /// The file that it was read from.
        public var name: String
        public var subject: String?
        /// Milliseconds since 1970.
        public var notAfter: UInt64?

        public init(name: String, subject: String?, notAfter: UInt64?) {
            (self.name, self.subject, self.notAfter) = (name, subject, notAfter)
        }
    }

    public init(name: String, application: Application) {
        (self.name, self.application) = (name, application)
    }
}

/// The configuration in force.
public struct ConfigurationReport: Sendable {
    public struct Option: Sendable {
        public var name: String
        /// As one would write it; nil for nothing. Secrets are masked already.
        public var value: String?
        public var isDefault: Bool
        /// As `AdministeredListener.name`; nil for what holds everywhere.
        public var listener: String?
        /// Where it stands; nil for a default and for an argument.
        public var file: String?
        public var line: Int?
        /// Whether a reload takes a new value.
        public var reloads: Bool

        public init(
            name: String, value: String?, isDefault: Bool, listener: String?, file: String?, line: Int?,
            reloads: Bool
        ) {
            (self.name, self.value, self.isDefault, self.listener) = (name, value, isDefault, listener)
            (self.file, self.line, self.reloads) = (file, line, reloads)
        }
    }

    /// Nil for none.
    public var file: String?
    /// SHA-256 of all that was read, in hexadecimal; nil where nothing was.
    public var digest: String?
    public var options: [Option]

    public init(file: String? = nil, digest: String? = nil, options: [Option] = []) {
        (self.file, self.digest, self.options) = (file, digest, options)
    }
}

/// What reading the configuration has brought up.
public struct ConfigurationFindings: Sendable {
    public struct Finding: Sendable {
        public var isError: Bool
        public var file: String?
        public var line: Int?
        public var message: String

        public init(isError: Bool, file: String?, line: Int?, message: String) {
            (self.isError, self.file, self.line, self.message) = (isError, file, line, message)
        }
    }

    public var findings: [Finding]
    public var hasErrors: Bool { findings.contains { $0.isError } }

    public init(_ findings: [Finding]) { self.findings = findings }
}

/// A line of the log.
public struct AdministeredLogLine: Sendable {
    public var topic: LogTopics
    public var text: String
    /// Milliseconds since 1970.
    public var at: UInt64
    public var fields: LogFields?

    public init(topic: LogTopics, text: String, at: UInt64, fields: LogFields? = nil) {
        (self.topic, self.text, self.at, self.fields) = (topic, text, at, fields)
    }
}
