import Commands
import Configuration
import Glibc
import MartletServer
import Platform
import Transports

/// The options of every command of `martlet ctl`: where the broker is, and who asks.
struct ControlOptions: ParsableArguments {
    @Option(
        name: [.short, .customLong("config-file")],
        help: ArgumentHelp("The broker's configuration: its listener with protocol http_api is asked.", valueName: "file"),
        completion: .file)
    var configFile: String?

    @Option(help: ArgumentHelp("Where the broker's API is: http://host:port or https://host:port.", valueName: "url"))
    var url: String?

    @Option(help: ArgumentHelp("The Unix socket of the broker's API.", valueName: "path"), completion: .file)
    var socket: String?

    @Option(help: "A token; other users of this machine can see it here. (default: the environment variable MARTLET_TOKEN)")
    var token: String?

    @Option(help: ArgumentHelp("A file whose first line is a token.", valueName: "file"), completion: .file)
    var tokenFile: String?

    @OptionGroup var certificates: CertificateOptions

    @Option(help: "Seconds to wait for an answer.")
    var timeout = 10.0

    @Flag(help: "Print the API's answer as JSON.")
    var json = false

    func validate() throws {
        guard [configFile, url, socket].count(where: { $0 != nil }) <= 1 else {
            throw ValidationError("-c, --url and --socket each say where the broker is; give one of them.")
        }
        if let url, ControlAddress(url: url) == nil {
            throw ValidationError("--url takes http://host:port or https://host:port, with nothing behind it.")
        }
        guard token == nil || tokenFile == nil else { throw ValidationError("Give --token or --token-file, not both.") }
        guard (0.01...3600).contains(timeout) else { throw ValidationError("--timeout takes 0.01 to 3600 seconds.") }
    }

    /// The connection by which a command asks the broker: its address, its layers and its credentials.
    func service() throws -> BrokerService {
        let address = try address()
        return BrokerService(
            address, try layers(to: address), try credentials(), patienceMilliseconds: UInt64(timeout * 1000),
            advice: advice(address))
    }

    /// What writes to standard output.
    var output: ControlOutput {
        let width = isatty(1) == 1 ? TerminalScreen.size(of: 1).columns : nil
        return ControlOutput(width: width, isJSON: json, remark: Console.complain) { Console.put($0, to: 1) }
    }

    /// As it was given; else the socket of an installed broker, or of one that this user has started; else where a
    /// broker without configuration has it.
    func address() throws -> ControlAddress {
        if let url, let address = ControlAddress(url: url) { return address }
        if let socket { return .unixSocket(path: socket) }
        guard let configFile else { return try addressOfThisMachine() }
        // What is wrong with the file now says nothing about the broker that runs: what can be read of it counts.
        let reader = ConfigurationReader(files: DiskFiles(), environment: ConfigurationSource.environment)
        let configuration = reader.read(path: configFile, ports: []).configuration
        var complete = configuration
        let environment = ConfigurationSource.environment
        let path = LocalSocket.path(for: complete, variable: { environment[$0] }, makesDirectory: false)
        LocalSocket.add(to: &complete, at: path)
        // The broker's own socket, if this user has started it: else it is another user's, or runs elsewhere.
        if let own = ControlAddress(easiestOf: complete), BrokerService.isHeard(own) { return own }
        guard let address = ControlAddress(easiestOf: configuration) else {
            throw Self.end("\(configFile) has no listener with protocol http_api that can be asked from here.")
        }
        return address
    }

    private func addressOfThisMachine() throws -> ControlAddress {
        if access(ControlAddress.packagedSocket, W_OK) == 0 { return .unixSocket(path: ControlAddress.packagedSocket) }
        let isRefused = errno == EACCES
        let environment = ConfigurationSource.environment
        let own = LocalSocket.all { environment[$0] }.filter { BrokerService.isHeard(.unixSocket(path: $0)) }
        if let first = own.first {
            guard own.count == 1 || first.hasSuffix("/\(BrokerConfiguration.defaultPort).sock") else {
                let choice = own.map { "--socket \($0)" }.joined(separator: ", or ")
                throw Self.end("Several brokers run here; say which one: \(choice)")
            }
            return .unixSocket(path: first)
        }
        return isRefused ? .unixSocket(path: ControlAddress.packagedSocket) : .standard
    }

    /// What to try when nobody answers there.
    private func advice(_ address: ControlAddress) -> String {
        if case .unixSocket(let path) = address {
            if access(path, W_OK) == 0 { return "Does the broker run? Try: systemctl status martlet" }
            if errno == EACCES {
                return "This socket is for root and the user of the broker. Try: sudo martlet ctl ..."
            }
        }
        guard configFile == nil, url == nil, socket == nil else { return "" }
        return "There is no \(ControlAddress.packagedSocket) either: the broker seems to be stopped. Try: systemctl status martlet"
    }

    private func layers(to address: ControlAddress) throws -> ClientLayers {
        guard case .tcp(let host, _, let usesTLS) = address, usesTLS else { return ClientLayers() }
        do throws(TLSFailure) {
            return ClientLayers(tls: try TLSClientContext(certificates.settings(serverName: host)))
        } catch {
            throw Self.end("\(error).")
        }
    }

    private func credentials() throws -> BrokerService.Credentials {
        var text = token ?? ConfigurationSource.environment["MARTLET_TOKEN"]
        if let tokenFile {
            do throws(WholeFile.Failure) {
                let bytes = try WholeFile.text(of: tokenFile, bytesMax: 65_536)
                text = String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
            } catch {
                throw Self.end("--token-file \(tokenFile) cannot be read.")
            }
        }
        guard let text, !text.isEmpty else { return .none }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Self.end("A token consists of printable ASCII characters without spaces.")
        }
        return .token(text)
    }

    private static func end(_ reason: String) -> ExitCode {
        Console.complain("Error: \(reason)")
        return ExitCode(1)
    }
}

extension ControlAddress {
    /// The listener with protocol http_api that is the easiest to ask: a Unix socket, else one without TLS. nil if
    /// there is none, or each demands what only a proxy has.
    init?(easiestOf configuration: BrokerConfiguration) {
        let open = configuration.listeners.filter { $0.application == .httpAPI && $0.proxyProtocolVersion == nil }
        let addresses = open.map { listener -> ControlAddress in
            switch listener.endpoint {
            case .unixSocket(let path): .unixSocket(path: path)
            case .tcp(let port, let host):
                .tcp(host: HealthTarget.reachable(host, listener.addressFamily), port: port, usesTLS: listener.tls.isEnabled)
            case .loopback(let port):
                .tcp(host: listener.addressFamily == .ipv6 ? "::1" : "127.0.0.1", port: port, usesTLS: listener.tls.isEnabled)
            }
        }
        let socket = addresses.first { if case .unixSocket = $0 { true } else { false } }
        let plain = addresses.first { if case .tcp(_, _, false) = $0 { true } else { false } }
        guard let address = socket ?? plain ?? addresses.first else { return nil }
        self = address
    }
}

/// `martlet ctl bridge`.
struct ControlBridgeCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "bridge",
        abstract: "List bridges to other brokers, show one, add, change, pause, resume or remove one.",
        discussion: """
            A bridge is added with the lines of a `connection` section, see martlet.conf(5): as arguments, or from a file with --lines, \
            which keeps passwords out of the list of processes. It runs at once; a broker with persistence keeps it when it is started \
            again. `change` replaces the options that are named. Bridges of the configuration's files are paused and resumed here, and \
            changed there. For example:

              martlet ctl bridge add site 'address broker.example:1883' 'topic plant/# out 1'
              martlet ctl bridge add site --lines site.conf
              martlet ctl bridge change site 'topic plant/# out 1' 'topic orders/# in 1' --unset keepalive_interval
              martlet ctl bridge pause site
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, show, add, change, pause, resume, remove
    }

    @Argument(help: "list, show, add, change, pause, resume or remove.")
    var action = Action.list

    @Argument(help: "The bridge's name.", completion: ClientCompletion.bridges)
    var name: String?

    @Argument(help: ArgumentHelp("An option of its section with its value, as one argument.", valueName: "line"))
    var lines: [String] = []

    @Option(name: .customLong("lines"), help: ArgumentHelp("A file with such lines; - for standard input.", valueName: "file"))
    var file: String?

    @Option(help: ArgumentHelp("An option that change removes.", valueName: "option"))
    var unset: [String] = []

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard (action == .list) == (name == nil) else { throw ValidationError(name == nil ? "Say which." : "list takes no name.") }
        let hasLines = !lines.isEmpty || file != nil
        guard hasLines || action != .add else { throw ValidationError("Give its address, as in 'address HOST:PORT'.") }
        guard hasLines || !unset.isEmpty || action != .change else { throw ValidationError("Say what to change.") }
        guard !hasLines || action == .add || action == .change else { throw ValidationError("Lines are for add and change only.") }
        guard unset.isEmpty || action == .change else { throw ValidationError("--unset is for change only.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, name) {
        case (.list, _), (_, nil): try control.bridges()
        case (.show, let name?): try control.bridge(name)
        case (.add, let name?): try control.addBridge(name, try readFile() + lines)
        case (.change, let name?): try control.changeBridge(name, try readFile() + lines, unset: unset)
        case (.pause, let name?): try control.setBridge(name, isPaused: true)
        case (.resume, let name?): try control.setBridge(name, isPaused: false)
        case (.remove, let name?): try control.removeBridge(name)
        }
    }

    private func readFile() throws -> [String] {
        guard let file else { return [] }
        do throws(WholeFile.Failure) {
            let bytes = try WholeFile.text(of: file == "-" ? "/dev/stdin" : file, bytesMax: 1 << 20)
            let lines = bytes.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
            return lines.map { String(decoding: $0, as: UTF8.self) }
        } catch {
            throw ValidationError("--lines \(file) cannot be read.")
        }
    }
}

/// `martlet ctl trace`.
struct ControlTraceCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "trace",
        abstract: "Follow the packets of a client or an address, or the way of a topic's messages.",
        discussion: """
            Ctrl-C ends it. With --keep it runs in the background until its time is over: `print` shows it, `stop` ends and deletes it.

              martlet ctl trace --client sensor-7 --for 10m --payload text
              martlet ctl trace --topic 'plant/+/alarm'
              martlet ctl trace list
              martlet ctl trace stop 3
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, print, stop
    }

    enum Payload: String, ExpressibleByArgument, CaseIterable {
        case none, text, hex
    }

    @Argument(help: "list, print or stop; without it a trace is started.")
    var action: Action?

    @Argument(help: ArgumentHelp("Which one, as list names it.", valueName: "id"))
    var id: String?

    @Option(help: "A Client Identifier.", completion: ClientCompletion.kind)
    var client: String?

    @Option(help: "A topic filter.")
    var topic: String?

    @Option(help: "An IP address, or a network such as 192.0.2.0/24.")
    var address: String?

    @Option(name: .customLong("for"), help: "How long at most: 90s, 10m, 24h.", transform: Self.seconds)
    var duration = 600

    @Option(help: "How payloads are shown: none, text or hex.")
    var payload = Payload.none

    @Option(help: "The most bytes of a payload to show.")
    var payloadLimit = 1024

    @Flag(help: "Start it in the background and print its identifier.")
    var keep = false

    @OptionGroup(title: "Connection") var options: ControlOptions

    private var subjects: [TraceChoice.Subject] {
        [client.map { .client($0) }, topic.map { .topic($0) }, address.map { .address($0) }].compactMap { $0 }
    }

    func validate() throws {
        switch action {
        case nil:
            guard subjects.count == 1 else {
                throw ValidationError("Give one of --client, --topic and --address; or list, print or stop.")
            }
        case .list:
            guard id == nil, subjects.isEmpty else { throw ValidationError("list takes nothing else.") }
        case .print, .stop:
            guard id != nil, subjects.isEmpty else {
                throw ValidationError("Say which trace: `martlet ctl trace list` names them.")
            }
        }
        guard (0...16_384).contains(payloadLimit) else { throw ValidationError("--payload-limit takes 0 to 16384.") }
        guard duration <= 86_400 else { throw ValidationError("--for takes at most 24h.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, id) {
        case (.print, let id?): try control.recordedTrace(id)
        case (.stop, let id?): try control.stopTrace(id)
        case (nil, _): try follow(control, service)
        default: try control.traces()
        }
    }

    private func follow(_ control: Control, _ service: BrokerService) throws {
        guard let subject = subjects.first else { return }
        let choice = TraceChoice(subject, seconds: duration, payload: payload.rawValue, payloadLimit: payloadLimit)
        if !keep { TraceEnd.holdSignals() }
        let id = try control.beginTrace(choice)
        guard !keep else { return control.announceTrace(id) }
        TraceEnd.await(id, of: service, seconds: duration)
        try control.followTrace(id)
        try control.endTrace(id)
    }

    private static func seconds(_ text: String) throws -> Int {
        guard let seconds = Control.seconds(text) else { throw ValidationError("--for takes a time such as 90s, 10m or 2h.") }
        return seconds
    }
}
