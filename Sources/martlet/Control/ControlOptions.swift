import ArgumentParsing
import Configuration
import ControlCommands
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
        if let url, ControlPlace(url: url) == nil {
            throw ValidationError("--url takes http://host:port or https://host:port, with nothing behind it.")
        }
        guard token == nil || tokenFile == nil else { throw ValidationError("Give --token or --token-file, not both.") }
        guard (0.01...3600).contains(timeout) else { throw ValidationError("--timeout takes 0.01 to 3600 seconds.") }
    }

    /// Who asks the broker.
    func service() throws -> BrokerService {
        let place = try place()
        return BrokerService(
            place, try layers(to: place), try credentials(), patienceMilliseconds: UInt64(timeout * 1000), advice: advice(place))
    }

    /// What writes to standard output.
    var output: ControlOutput {
        let width = isatty(1) == 1 ? TerminalScreen.size(of: 1).columns : nil
        return ControlOutput(width: width, isJSON: json, remark: Console.complain) { Console.put($0, to: 1) }
    }

    /// As it was given; else the socket of an installed broker, or of one that this user has started; else where a broker without configuration
    /// has it.
    func place() throws -> ControlPlace {
        if let url, let place = ControlPlace(url: url) { return place }
        if let socket { return .unixSocket(path: socket) }
        guard let configFile else { return try placeOfThisMachine() }
        // What is wrong with the file now says nothing about the broker that runs: what can be read of it counts.
        let reader = ConfigurationReader(files: DiskFiles(), environment: ConfigurationSource.environment)
        let configuration = reader.read(path: configFile, ports: []).configuration
        var complete = configuration
        let environment = ConfigurationSource.environment
        let path = LocalSocket.path(for: complete, variable: { environment[$0] }, makesDirectory: false)
        LocalSocket.add(to: &complete, at: path)
        // The broker's own socket, if this user has started it: else it is another user's, or runs elsewhere.
        if let own = ControlPlace(easiestOf: complete), BrokerService.isHeard(own) { return own }
        guard let place = ControlPlace(easiestOf: configuration) else {
            throw Self.end("\(configFile) has no listener with protocol http_api that can be asked from here.")
        }
        return place
    }

    private func placeOfThisMachine() throws -> ControlPlace {
        if access(ControlPlace.packagedSocket, W_OK) == 0 { return .unixSocket(path: ControlPlace.packagedSocket) }
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
        return isRefused ? .unixSocket(path: ControlPlace.packagedSocket) : .standard
    }

    /// What to try when nobody answers there.
    private func advice(_ place: ControlPlace) -> String {
        if case .unixSocket(let path) = place {
            if access(path, W_OK) == 0 { return "Does the broker run? Try: systemctl status martlet" }
            if errno == EACCES {
                return "This socket is for root and the user of the broker. Try: sudo martlet ctl ..."
            }
        }
        guard configFile == nil, url == nil, socket == nil else { return "" }
        return "There is no \(ControlPlace.packagedSocket) either: the broker seems to be stopped. Try: systemctl status martlet"
    }

    private func layers(to place: ControlPlace) throws -> ClientLayers {
        guard case .tcp(let host, _, let usesTLS) = place, usesTLS else { return ClientLayers() }
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

extension ControlPlace {
    /// The listener with protocol http_api that is the easiest to ask: a Unix socket, else one without TLS. nil if there is none, or
    /// each demands what only a proxy has.
    init?(easiestOf configuration: BrokerConfiguration) {
        let open = configuration.listeners.filter { $0.application == .httpAPI && $0.proxyProtocolVersion == nil }
        let places = open.map { listener -> ControlPlace in
            switch listener.endpoint {
            case .unixSocket(let path): .unixSocket(path: path)
            case .tcp(let port, let host):
                .tcp(host: HealthTarget.reachable(host, listener.addressFamily), port: port, usesTLS: listener.tls.isEnabled)
            case .loopback(let port):
                .tcp(host: listener.addressFamily == .ipv6 ? "::1" : "127.0.0.1", port: port, usesTLS: listener.tls.isEnabled)
            }
        }
        let socket = places.first { if case .unixSocket = $0 { true } else { false } }
        let plain = places.first { if case .tcp(_, _, false) = $0 { true } else { false } }
        guard let place = socket ?? plain ?? places.first else { return nil }
        self = place
    }
}
