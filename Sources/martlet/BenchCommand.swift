public import Bench
import Commands
import MQTTCodec
import MartletServer
import Transports

/// `martlet bench`: puts a broker under load and says what it did.
struct BenchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Put a broker under load, this one or any other, and measure.",
        discussion: """
            Scenarios, each with what it measures:
              fanout    publishers to one topic, on which every subscriber is
              pair      publisher i to topic i, on which subscriber i is
              fanin     publishers each to their topic, one subscriber to all
              wild      as fanout, with eight kinds of wildcard filters
              topics    subscribers spread over topics, publishes round robin
              shared    as fanout, the subscribers being one share group
              publish   acknowledged publishes that nobody subscribes to
              away      as publish, kept for a session that is away
              conns     idle connections with a subscription: rate, CPU and memory
              retained  retained messages, then one subscriber to all of them
              churn     connect, subscribe, publish, receive, disconnect, again and again
              latency   pairs at a fixed rate, whether or not the broker keeps up
              flood     as latency, alone and then beside publishers that send as fast as they can: seconds for each

            Results: "published" and "delivered" are messages a second; "latency" is from the publisher's send to the subscriber's read, \
            p99 being what 99 of 100 messages do not exceed. "broker CPU" is the processor time that the broker's process used, shared out \
            among the messages delivered (with publish and away: acknowledged): 1 µs for each means that one processor does a million a \
            second at most. It needs --pid. KB and MB are 1,000 and 1,000,000 bytes.

            Without --rate publishers wait for what they published to arrive, so that nothing is dropped. With it messages are sent when \
            they are due and timed from then, also those that a busy broker delays.

            With away and --persistent sessions outlive their connections; when the run is over they are removed, with their queues.
            """)

    @Option(help: "The broker's host.")
    var host = "127.0.0.1"

    @Option(name: [.short, .long], help: "The broker's port. (default: 1883, with --tls 8883)")
    var port: UInt16?

    @Option(
        help: "The port that subscribers connect to, if messages are to reach them over a bridge. (default: that of the publishers)"
    )
    var subscriberPort: UInt16?

    @OptionGroup(title: "Transport")
    var transport: BenchTransportOptions

    @Option(help: "The broker's process on this machine, to measure its CPU and memory: --pid $(pidof martlet).")
    var pid: Int32?

    @Option(name: [.short, .long], help: "The scenario to run.")
    var scenario = Scenario.fanout

    @Option(
        help:
            "How many publish; with churn how many come and go at a time, with flood how many flood. (default: the scenario's own)")
    var publishers: Int?

    @Option(
        help:
            "How many subscribe; with conns how many connect, with retained how many messages, with away how many are away. (default: the scenario's own)"
    )
    var subscribers: Int?

    @Option(name: [.short, .long], help: "QoS of the messages: 0, 1 or 2.")
    var qos: UInt8 = 0

    @Option(help: "QoS of the subscriptions. (default: that of the messages)")
    var subscriberQos: UInt8?

    @Option(help: "Bytes of each payload; from 16 on loss and latency are measured.")
    var size = 64

    @Option(help: "Messages published per second, by all publishers together. (default: as many as come back)")
    var rate: Double?

    @Option(name: [.customShort("V"), .long], help: "3 for MQTT 3.1, 4 for 3.1.1, 5 for 5.0.")
    var mqttVersion: UInt8 = 4

    @Option(help: "How many topics the scenario topics has.")
    var topics = 50

    @Option(help: "QoS 1 and 2 messages that a publisher may have unacknowledged.")
    var inflight = 100

    @Option(help: "Messages in flight before publishers wait. (default: the scenario's own)")
    var window: Int?

    @Option(help: "How long to measure.")
    var seconds = 5.0

    @Option(help: "How long to warm up before that.")
    var warmup = 1.0

    @Option(name: [.short, .long], help: "User name.")
    var user: String?

    @Option(name: [.customShort("P"), .long], help: "Password.")
    var password: String?

    @Flag(help: "Keep sessions when their connections end, until the run is over.")
    var persistent = false

    @Option(help: "Name of the share group.")
    var group = "bench"

    @Option(help: "Threads of the load generator.")
    var threads = 1

    @Flag(help: "Print the result as one line of JSON: figures, arguments, versions, and a series over time.")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Write an HTML page with charts of rate and latency over time, all in one file.", valueName: "file"))
    var html: String?

    @Flag(help: "Show nothing while it runs.")
    var quiet = false

    func validate() throws {
        guard qos <= 2, (subscriberQos ?? 0) <= 2 else { throw ValidationError("QoS must be 0, 1 or 2.") }
        guard (3...5).contains(mqttVersion) else { throw ValidationError("--mqtt-version takes 3, 4 or 5.") }
        guard (0...268_000_000).contains(size) else { throw ValidationError("--size takes 0 to 268000000.") }
        guard (1...60_000).contains(inflight) else { throw ValidationError("--inflight takes 1 to 60000.") }
        guard (1...64).contains(threads) else { throw ValidationError("--threads takes 1 to 64.") }
        guard seconds > 0, seconds <= 86_400, (0...3600).contains(warmup) else {
            throw ValidationError("--seconds takes more than 0 and at most 86400, --warmup 0 to 3600.")
        }
        for count in [publishers, subscribers, topics, window].compactMap({ $0 }) {
            guard (0...10_000_000).contains(count) else { throw ValidationError("Counts must be 0 to 10000000.") }
        }
        guard password == nil || user != nil || mqttVersion == 5 else {
            throw ValidationError("A password without a user name needs MQTT 5.0.")
        }
        for text in [user, password, group].compactMap({ $0 }) {
            guard EncodedString(text) != nil else {
                throw ValidationError("A text can have at most 65535 bytes and no null character.")
            }
        }
        guard TopicFilter("$share/\(group)/bench") != nil else {
            throw ValidationError("--group takes a name without /, + and #.")
        }
    }

    func run() throws {
        do throws(BenchError) {
            let runner = try BenchRunner(options, programVersion: ProductVersion.text, isQuiet: quiet)
            let page = try html.map { path throws(BenchError) in try ReportFile(path) }
            let report = try runner.run()
            Console.say(json ? report.json : report.table)
            if let page, let html {
                try page.write(report.html)
                if !quiet { Console.complain("The page with charts is \(html).") }
            }
        } catch {
            Console.complain("Error: \(error)")
            throw ExitCode(1)
        }
    }

    private var options: BenchOptions {
        var options = BenchOptions()
        options.host = host
        options.port = port
        options.subscriberPort = subscriberPort
        options.transport = transport.transport
        options.process = pid
        options.scenario = scenario
        options.publishers = publishers
        options.subscribers = subscribers
        options.qos = QoS(rawValue: qos) ?? .atMostOnce
        options.subscriberQoS = subscriberQos.flatMap { QoS(rawValue: $0) }
        options.size = size
        options.rate = rate
        options.version = ProtocolVersion(rawValue: mqttVersion) ?? .v311
        options.topics = topics
        options.inFlight = inflight
        options.window = window
        options.seconds = seconds
        options.warmupSeconds = warmup
        options.user = user
        options.password = password
        options.keepsSessions = persistent
        options.group = group
        options.threads = threads
        return options
    }
}

extension Scenario: ExpressibleByArgument {}

/// The options of `martlet bench` that say what its connections go through.
struct BenchTransportOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Let all TLS connections but the first resume a session.")
    var resume = false

    func validate() throws {
        guard connection.tls || !resume else { throw ValidationError("--resume needs --tls.") }
    }

    var transport: BenchTransport {
        var transport = BenchTransport()
        transport.usesTLS = connection.tls
        transport.usesWebSocket = connection.websocket
        transport.authoritiesFile = connection.certificates.cafile
        transport.verifiesBroker = !connection.certificates.insecure
        transport.certificateFile = connection.certificates.cert
        transport.keyFile = connection.certificates.key
        transport.resumesSessions = resume
        return transport
    }
}

/// The options that say which certificates are trusted over TLS, and which one is shown.
struct CertificateOptions: ParsableArguments {
    @Option(help: "CA certificates for the broker's certificate, PEM. (default: the system's)", completion: .file)
    var cafile: String?

    @Flag(help: "Do not verify the broker's certificate.")
    var insecure = false

    @Option(help: "The client certificate, PEM, for a broker that requires one.", completion: .file)
    var cert: String?

    @Option(help: "The private key of --cert, PEM.", completion: .file)
    var key: String?

    /// Whether any of them was given.
    var areGiven: Bool { cafile != nil || insecure || cert != nil || key != nil }

    func validate() throws {
        guard cafile == nil || !insecure else {
            throw ValidationError("--insecure and --cafile exclude each other: with --insecure no certificate is verified.")
        }
        guard (cert == nil) == (key == nil) else { throw ValidationError("--cert and --key need each other.") }
    }

    /// The settings of a connection to a server of that name.
    func settings(serverName: String) -> TLSClientSettings {
        var settings = TLSClientSettings(serverName: serverName)
        settings.authoritiesFile = cafile
        settings.verifiesServer = !insecure
        settings.certificateFile = cert
        settings.keyFile = key
        return settings
    }
}

/// The options of a command that connects to a broker: what its connections go through.
struct ConnectionOptions: ParsableArguments {
    @Flag(help: "Connect with TLS.")
    var tls = false

    @OptionGroup var certificates: CertificateOptions

    @Flag(help: "Connect with WebSocket; with --tls over TLS.")
    var websocket = false

    func validate() throws {
        guard tls || !certificates.areGiven else {
            throw ValidationError("--cafile, --insecure, --cert and --key need --tls.")
        }
    }
}
