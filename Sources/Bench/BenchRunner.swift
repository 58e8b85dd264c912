internal import Glibc
public import MQTTCodec
public import Platform
public import Transports

/// Runs one benchmark, from the first connection to the result.
public struct BenchRunner {
    private let workload: Workload
    private let options: BenchOptions
    private let maker: ChannelMaker
    private let view: LiveView
    private let programVersion: String

    /// Resolves the host and reads the files; throws what is wrong with the options.
    ///
    /// - Parameters:
    ///   - options: what the command line says.
    ///   - programVersion: of the program that measures, for the report.
    ///   - isQuiet: shows nothing while it runs, not even on a terminal.
    public init(_ options: BenchOptions, programVersion: String, isQuiet: Bool) throws(BenchError) {
        self.options = options
        self.programVersion = programVersion
        workload = try Workload(options)
        view = LiveView(LiveView.form(isQuiet: isQuiet), seconds: options.seconds)
        if let process = options.process, ProcessUsage.read(process: process) == nil {
            throw .options("There is no process \(process).")
        }
        maker = try ChannelMaker(options)
        ResourceLimits.raiseFileDescriptors()
    }

    /// Measures. Takes the warm-up's and the run's seconds, and what connecting takes.
    public func run() throws(BenchError) -> BenchReport {
        let started = WallTime.now()
        // With layers of its own, whose handshake is none of the load's.
        let contact = try FirstContact(options, ChannelMaker(options))
        let facts = RunFacts(
            options: options, workload: workload, programVersion: programVersion, started: started, brokerVersion: contact.version,
            brokerProcess: options.process.flatMap { ProcessUsage.name(process: $0) }, machine: Machine.read())
        view.title = "\(options.scenario.rawValue) → \(facts.broker)"
        let monitor = RunMonitor(workload, view: view)
        var maker = maker
        maker.choose(contact.address)
        defer { monitor.clear() }
        var result = try runScenario(maker, monitor)
        maker.describe(&result)
        return BenchReport(result: result, facts: facts, series: monitor.points, distributions: monitor.distributions)
    }

    private func runScenario(_ maker: ChannelMaker, _ monitor: RunMonitor) throws(BenchError) -> BenchResult {
        switch options.scenario {
        case .fanout, .pair, .fanin, .wild, .topics, .shared, .publish, .away, .latency:
            try StreamRun(workload: workload, maker: maker, monitor: monitor).run()
        case .conns: try ConnectionRun(workload: workload, maker: maker, monitor: monitor).run()
        case .retained: try RetainedRun(workload: workload, maker: maker, monitor: monitor).run()
        case .flood: try FloodRun(workload: workload, maker: maker, monitor: monitor).run()
        case .churn: try ChurnRun(workload: workload, maker: maker, monitor: monitor).run()
        }
    }
}

/// Why there is no result.
public enum BenchError: Error, Sendable {
    /// The options contradict each other.
    case options(String)
    /// The host has no address.
    case unresolved(ResolutionError)
    /// The files for TLS cannot be used.
    case tls(TLSFailure)
    /// The kernel refused.
    case system(SystemError)
    /// No connection to the broker can be made: host and port as they were given, and the kernel's reason.
    case unreachable(broker: String, SystemError)
    /// The file of a report cannot be written.
    case file(String)
    /// The broker is not there, or does not let us in.
    case connections(String)
}

extension BenchError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .options(let text), .connections(let text), .file(let text): text
        case .unreachable(let broker, let error):
            "Cannot connect to \(broker): \(error.reason). \(Self.remedy(error.errno, broker))"
        case .unresolved(let error): "\(error)"
        case .tls(let failure): "\(failure)"
        case .system(let error): "\(error)"
        }
    }

    private static func remedy(_ number: Int32, _ broker: String) -> String {
        switch number {
        case ECONNREFUSED: "Nothing listens there; start a broker (martlet), or name another with --host and --port."
        case ETIMEDOUT: "Nobody answers; is the host right, and does a firewall let the port through?"
        case ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL: "Is the host right, and is this machine on its network?"
        case EMFILE, ENFILE: "Too many files are open; raise the limit with ulimit -n."
        default: "Name the broker with --host and --port."
        }
    }
}

/// What to measure, and against whom.
public struct BenchOptions: Sendable {
    public var host = "127.0.0.1"
    /// nil for the transport's usual one.
    public var port: UInt16?
    /// Where subscribers connect instead, at the other end of a bridge; nil for the same broker.
    public var subscriberPort: UInt16?
    public var transport = BenchTransport()
    /// The broker's process, nil when it is not to be looked at.
    public var process: Int32?
    public var scenario = Scenario.fanout
    /// nil for the scenario's own.
    public var publishers: Int?
    /// nil for the scenario's own; for `retained` how many messages, for `conns` how many connections, for `away` how
    /// many are away.
    public var subscribers: Int?
    public var qos = QoS.atMostOnce
    /// nil for that of the messages.
    public var subscriberQoS: QoS?
    /// Bytes of the payload.
    public var size = 64
    /// Messages published per second by all publishers together; nil for as many as come back.
    public var rate: Double?
    public var version = ProtocolVersion.v311
    public var topics = 50
    /// How many QoS 1 and 2 messages a publisher has unacknowledged.
    public var inFlight = 100
    /// How many published messages may be on their way before publishers wait; nil for the scenario's own.
    public var window: Int?
    public var seconds = 5.0
    public var warmupSeconds = 1.0
    public var user: String?
    public var password: String?
    /// Whether the clients' sessions outlive their connections; they are removed when the run is over.
    public var keepsSessions = false
    public var group = "bench"
    public var threads = 1

    public init() {}

    /// The port that is connected to.
    var brokerPort: UInt16 { port ?? transport.usualPort }

    /// Host and port, with brackets around a host that has colons itself.
    var brokerAddress: String { host.contains(":") ? "[\(host)]:\(brokerPort)" : "\(host):\(brokerPort)" }
}

/// What carries the connections of a load: TCP, with TLS, WebSocket or both on top.
public struct BenchTransport: Sendable {
    public var usesTLS = false
    public var usesWebSocket = false
    /// The authorities whose certificates the broker may show; nil for the system's authorities.
    public var authoritiesFile: String?
    /// Whether the broker's certificate is looked at.
    public var verifiesBroker = true
    /// The load's own certificate and key, for a broker that demands one.
    public var certificateFile: String?
    public var keyFile: String?
    /// Whether all TLS connections but the first resume a session.
    public var resumesSessions = false

    public init() {}

    /// What it is called in a result.
    var name: String {
        switch (usesTLS, usesWebSocket) {
        case (false, false): "TCP"
        case (true, false): "TLS"
        case (false, true): "WebSocket"
        case (true, true): "WebSocket over TLS"
        }
    }

    /// The port that brokers have for it if nobody says otherwise.
    var usualPort: UInt16 { usesTLS ? 8883 : 1883 }

    /// nil without TLS.
    func tlsSettings(host: String) -> TLSClientSettings? {
        guard usesTLS else { return nil }
        var settings = TLSClientSettings(serverName: host)
        settings.authoritiesFile = authoritiesFile
        settings.verifiesServer = verifiesBroker
        settings.certificateFile = certificateFile
        settings.keyFile = keyFile
        settings.resumesSessions = resumesSessions
        return settings
    }
}
