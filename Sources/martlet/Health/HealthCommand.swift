import Commands
import Configuration
import Glibc
import MQTTCodec
import Platform
import Transports

/// `martlet health`: says whether a broker answers.
struct HealthCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Check whether a broker is healthy: connect, log in, ping; exits with 0 if it answers, else with 1.",
        discussion: """
            Without options it asks port 1883 of this machine; with -c the listener of the configuration that is the easiest to ask. A broker \
            that answers and refuses this login is alive, and that is what it prints. Where anonymous clients are refused, give it a \
            user of its own, or each question is a failed login in the broker's log. With -c it takes the login of MARTLET_USER, where the \
            environment has one.
            """)

    @Option(
        name: [.short, .customLong("config-file")],
        help: ArgumentHelp("The broker's configuration: one of its listeners is asked.", valueName: "file"),
        completion: .file)
    var configFile: String?

    @Option(help: "The broker's host. (default: 127.0.0.1)")
    var host: String?

    @Option(name: [.short, .long], help: "The broker's port. (default: 1883, with --tls 8883)")
    var port: UInt16?

    @Option(help: ArgumentHelp("The broker's Unix socket, in place of host and port.", valueName: "path"), completion: .file)
    var socket: String?

    @OptionGroup var connection: ConnectionOptions

    @Option(name: [.short, .long], help: "User name.")
    var user: String?

    @Option(help: ArgumentHelp("A file whose first line is the password.", valueName: "file"), completion: .file)
    var passwordFile: String?

    @Option(help: "Seconds to wait for the answer.")
    var timeout = 1.0

    @Flag(name: [.short, .long], help: "Print nothing.")
    var quiet = false

    func validate() throws {
        guard (0.01...60).contains(timeout) else { throw ValidationError("--timeout takes 0.01 to 60 seconds.") }
        guard socket == nil || (host == nil && port == nil) else {
            throw ValidationError("--socket replaces --host and --port; give one or the other.")
        }
        guard configFile == nil || (socket == nil && host == nil && port == nil && !connection.tls && !connection.websocket) else {
            throw ValidationError("With -c the configuration says where to ask; give it alone, or --host, --port and so on.")
        }
        guard passwordFile == nil || user != nil else { throw ValidationError("--password-file needs --user.") }
    }

    func run() throws {
        let target = try target()
        let layers = try layers(to: target)
        let connect = try connectPacket()
        let began = MonotonicClock.milliseconds()
        let patience = UInt64(timeout * 1000)
        var failure = HealthProbe.Failure("")
        for address in try addresses(of: target) {
            do throws(HealthProbe.Failure) {
                // The answer to a login may be held back, after others that failed: half of the time is for a question
                // without one.
                do throws(HealthProbe.Failure) {
                    var probe = try HealthProbe(address, layers, deadline: began + patience / 2)
                    report(try probe.ask(connect), target, milliseconds: MonotonicClock.milliseconds() - began)
                } catch  where error.isLate {
                    var probe = try HealthProbe(address, layers, deadline: began + patience)
                    try probe.askWithoutLogin()
                    if !quiet { Console.say("\(target.name) is alive: it answered, and has not decided this login yet.") }
                }
                return
            } catch {
                failure = error
            }
        }
        throw end("\(target.name): \(failure.reason).")
    }

    private func report(_ finding: HealthProbe.Finding, _ target: HealthTarget, milliseconds: UInt64) {
        guard !quiet else { return }
        switch finding {
        case .isWell:
            Console.say("\(target.name) is healthy: it accepted the connection and answered a ping within \(milliseconds) ms.")
        case .refuses(let code):
            Console.say("\(target.name) is alive: it answered, and refused the connection (\(Self.words(for: code))).")
        }
    }

    private func target() throws -> HealthTarget {
        if let configFile {
            // What is wrong with the file now says nothing about the broker that runs: what can be read of it counts.
            let reader = ConfigurationReader(files: DiskFiles(), environment: ConfigurationSource.environment)
            let configuration = reader.read(path: configFile, ports: []).configuration
            guard let target = HealthTarget(easiestOf: configuration) else {
                throw end("each listener of \(configFile) requires a client certificate or key; name one with --port and so on.")
            }
            return target
        }
        var target = HealthTarget()
        if let host { target.host = host }
        target.port = port ?? (connection.tls ? 8883 : 1883)
        target.path = socket
        target.usesTLS = connection.tls
        target.usesWebSocket = connection.websocket
        return target
    }

    private func addresses(of target: HealthTarget) throws -> [SocketAddress] {
        let place: ListenAddress.Host = target.path.map { .path($0) } ?? .named(target.host ?? "127.0.0.1")
        do throws(ResolutionError) {
            return try ListenAddress(host: place, port: target.port).resolve()
        } catch {
            throw end("\(error).")
        }
    }

    private func layers(to target: HealthTarget) throws -> ClientLayers {
        var layers = ClientLayers()
        if target.usesWebSocket { layers.webSocket = WebSocketClientSettings(host: target.path == nil ? target.name : "localhost") }
        guard target.usesTLS else { return layers }
        var settings = connection.certificates.settings(serverName: target.host ?? "localhost")
        // On this machine, by our own configuration, the question is whether it answers and not who it is.
        if configFile != nil { settings.verifiesServer = false }
        do throws(TLSFailure) {
            layers.tls = try TLSClientContext(settings)
        } catch {
            throw end("\(error).")
        }
        return layers
    }

    private func connectPacket() throws -> ConnectPacket {
        // Nobody's session: no other client has an identifier with this process and this nanosecond in it.
        let identifier = "martlet-health-\(getpid())-\(MonotonicClock.nanoseconds())"
        var packet = ConnectPacket(version: .v311, keepAliveSeconds: 60, clientIdentifier: EncodedString(identifier) ?? "")
        if let user {
            guard let name = EncodedString(user) else {
                throw end("--user takes at most 65535 bytes and no null character.")
            }
            packet.userName = name
        } else if configFile != nil, let user = try? FirstUser(environment: ConfigurationSource.environment, files: DiskFiles()) {
            // In a container the broker's own user is at hand.
            packet.userName = EncodedString(user.name)
            packet.password = Array(user.password.utf8)
        }
        if let passwordFile {
            do throws(WholeFile.Failure) {
                let bytes = try WholeFile.text(of: passwordFile, bytesMax: 65_536)
                packet.password = Array(bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") })
            } catch {
                throw end("--password-file \(passwordFile): \(Self.words(for: error)).")
            }
        }
        return packet
    }

    private func end(_ reason: String) -> ExitCode {
        if !quiet { Console.complain("Error: \(reason)") }
        return ExitCode(1)
    }

    private static func words(for failure: WholeFile.Failure) -> String {
        switch failure {
        case .refused(let error): error.reason
        case .isDirectory: "is a directory"
        case .isTooLarge: "is longer than a password may be"
        }
    }

    private static func words(for code: ConnectReturnCode) -> String {
        switch code {
        case .accepted: "accepted"
        case .unacceptableProtocolVersion: "MQTT 3.1.1 is not supported there"
        case .identifierRejected: "client identifier rejected"
        case .serverUnavailable: "server unavailable"
        case .badUserNameOrPassword: "bad user name or password"
        case .notAuthorized: "not authorised"
        }
    }
}

/// One question to a broker: it connects, logs in and sends PINGREQ. Blocks until the answers are there or the deadline
/// has passed.
struct HealthProbe {
    enum Finding {
        case isWell
        /// It answers, and does not let this login in: the return code of its CONNACK.
        case refuses(ConnectReturnCode)
    }

    typealias Failure = BlockingChannel.Failure

    private var channel: BlockingChannel
    private let deadline: UInt64
    private var received: [UInt8] = []

    /// Begins to connect.
    ///
    /// - Parameters:
    ///   - address: where the broker listens.
    ///   - layers: what the listener has on top of its socket.
    ///   - deadline: in milliseconds of the monotonic clock.
    init(_ address: SocketAddress, _ layers: ClientLayers, deadline: UInt64) throws(Failure) {
        channel = try BlockingChannel(to: address, layers)
        self.deadline = deadline
    }

    /// Asks, and lets the connection go.
    mutating func ask(_ connect: ConnectPacket) throws(Failure) -> Finding {
        defer { channel.close() }
        guard case .connack(let answer) = try answer(to: ControlPacket.connect(connect).encoded(version: .v311)) else {
            throw Self.stranger
        }
        guard answer.isAccepted else { return .refuses(answer.returnCode) }
        guard case .pingresp = try self.answer(to: ControlPacket.pingreq.encoded(version: .v311)) else {
            throw Failure("it accepts connections and does not answer")
        }
        send(DisconnectPacket())
        return .isWell
    }

    /// Asks without a login, whose answer a broker may hold back: whether it says that it does not speak a version that
    /// nobody does.
    mutating func askWithoutLogin() throws(Failure) {
        defer { channel.close() }
        // CONNECT of MQTT's level 127. [MQTT-3.1.2-2 v3.1.1]
        let connect: [UInt8] = [0x10, 12, 0, 4, 0x4D, 0x51, 0x54, 0x54, 127, 2, 0, 0, 0, 0]
        guard case .connack = try answer(to: connect) else { throw Self.stranger }
    }

    private mutating func answer(to packet: [UInt8]) throws(Failure) -> ControlPacket {
        var output = packet[...]
        while true {
            if output.isEmpty, let packet = try nextPacket() { return packet }
            guard let chunk = try channel.exchange(&output, deadline: deadline) else {
                throw received.isEmpty ? Failure("it closes the connection without an answer") : Self.stranger
            }
            received += chunk
        }
    }

    /// The packet at the front of what was received, once it is whole.
    private mutating func nextPacket() throws(Failure) -> ControlPacket? {
        let found: (packet: ControlPacket, count: Int)?
        do {
            found = try received.withUnsafeBytes { bytes in
                switch FrameScan.scan(bytes) {
                case .incomplete: return nil
                case .malformed(let error): throw error
                case .packet(let firstByte, let headerLength, let bodyLength):
                    guard bytes.count >= headerLength + bodyLength else { return nil }
                    let body = UnsafeRawBufferPointer(rebasing: bytes[headerLength..<(headerLength + bodyLength)])
                    let packet = try ControlPacket.decode(firstByte: firstByte, body: body, version: .v311, from: .server)
                    return (packet, headerLength + bodyLength)
                }
            }
        } catch {
            throw Self.stranger
        }
        guard let found else { return nil }
        received.removeFirst(found.count)
        return found.packet
    }

    /// Whether the goodbye arrives changes nothing.
    private func send(_ goodbye: DisconnectPacket) {
        var output = ControlPacket.disconnect(goodbye).encoded(version: .v311)[...]
        try? channel.write(&output)
        channel.shutdownSending()
    }

    private static let stranger = Failure("what listens there does not answer as an MQTT broker")
}

/// Where a broker is asked, and through which layers.
struct HealthTarget {
    /// nil for a Unix socket.
    var host: String?
    var port: UInt16 = 1883
    var path: String?
    var usesTLS = false
    var usesWebSocket = false

    /// What the operator calls it: `127.0.0.1:1883`, `[::1]:1883`, `/run/martlet/mqtt.sock`.
    var name: String {
        if let path { return path }
        let host = host ?? ""
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// This machine's port 1883.
    init() { host = "127.0.0.1" }

    /// The listener that is the easiest to ask: without TLS if there is one. nil if each of them demands what only its
    /// clients have: a PROXY header, a certificate, a pre-shared key.
    init?(easiestOf configuration: BrokerConfiguration) {
        let open = configuration.listeners.filter { listener in
            let tls = listener.tls
            return listener.application != .httpAPI && listener.proxyProtocolVersion == nil
                && (!tls.isEnabled || tls.certificateFile != nil && !tls.requiresCertificate)
        }
        guard let listener = open.first(where: { !$0.tls.isEnabled }) ?? open.first else { return nil }
        switch listener.endpoint {
        case .tcp(let port, let host): (self.host, self.port) = (Self.reachable(host, listener.addressFamily), port)
        case .loopback(let port): (host, self.port) = (listener.addressFamily == .ipv6 ? "::1" : "127.0.0.1", port)
        case .unixSocket(let path): self.path = path
        }
        usesTLS = listener.tls.isEnabled
        usesWebSocket = listener.application == .webSockets
    }

    /// A listener on all addresses is asked on the loopback one.
    static func reachable(_ host: String?, _ family: AddressFamily?) -> String {
        switch host {
        case nil: family == .ipv6 ? "::1" : "127.0.0.1"
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        case let host?: host
        }
    }
}
