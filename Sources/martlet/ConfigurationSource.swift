import Commands
import Configuration
import Glibc
import MartletServer
import Platform

/// Where the configuration comes from: the file, or the defaults, with what the command line changes. It is read at the
/// start and at each reload.
struct ConfigurationSource: Sendable {
    private let path: String?
    private let ports: [UInt16]
    private let isVerbose: Bool
    private let isQuiet: Bool
    private let threads: Int?
    /// Whether it is read to run a broker, which makes what it needs of itself.
    private let isForRunning: Bool
    /// The broker's own socket for its administration: where it was at the start, before the broker became another
    /// user.
    private let ownSocket = Locked<String?>(nil)

    init(_ options: ServeOptions) {
        path = options.configFile
        ports = options.port
        isVerbose = options.verbose
        isQuiet = options.quiet
        threads = options.threads
        isForRunning = !options.testConfig
    }

    /// Reads it now. What Martlet cannot do yet stands among the errors.
    func read() -> ConfigurationResult {
        var result = ConfigurationResult(configuration: .default(ports: ports), diagnostics: [])
        if let path {
            result = ConfigurationReader(files: DiskFiles(), environment: Self.environment).read(path: path, ports: ports)
        }
        if path == nil {
            result.configuration.addLocalAdministration()
            do throws(FirstUserRefusal) {
                let user = try FirstUser(environment: Self.environment, files: DiskFiles())
                if let user { result.configuration.add(user) }
            } catch {
                result.diagnostics.append(error.diagnostic)
            }
        }
        let socket = ownSocket.withLock { known in
            known =
                known
                ?? LocalSocket.path(
                    for: result.configuration, variable: { Self.environment[$0] }, makesDirectory: isForRunning)
            return known
        }
        LocalSocket.add(to: &result.configuration, at: socket)
        if isVerbose { result.configuration.logging.types = .all }
        if isQuiet { result.configuration.logging.destinations = [] }
        if let threads { result.configuration.general.threads = threads == 0 ? nil : threads }
        result.diagnostics += ConfigurationSupport.objections(to: result)
        return result
    }

    /// The process's environment variables.
    static var environment: [String: String] {
        var variables: [String: String] = [:]
        var entry: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> = environ
        while let text = entry.pointee {
            let pair = String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if pair.count == 2 { variables[String(pair[0])] = String(pair[1]) }
            entry += 1
        }
        return variables
    }
}

/// What the command line can say about running the broker.
struct ServeOptions: ParsableArguments {
    @Option(
        name: [.short, .customLong("config-file")], help: ArgumentHelp("The configuration file.", valueName: "file"),
        completion: .file)
    var configFile: String?

    @Option(
        name: .shortAndLong,
        help: "A port from 1 to 65535 to listen on, if the file has no listener; may be given up to 10 times.")
    var port: [UInt16] = []

    @Flag(name: [.short, .long], help: "Log everything, whatever the configuration file says.")
    var verbose = false

    @Flag(name: [.short, .long], help: "Log nothing.")
    var quiet = false

    @Flag(name: [.short, .long], help: "Run in the background.")
    var daemon = false

    @Flag(help: "Check the configuration and the files it names, say what is wrong, and exit: 0 if all is right.")
    var testConfig = false

    @Option(help: "How many event loops to run; 0 for one a core (one on one or two cores).")
    var threads: Int?

    @Option(
        name: .customLong("tls-keylog"),
        help: ArgumentHelp("Append the secrets of all TLS connections to a file, for debugging with Wireshark.", valueName: "file"),
        completion: .file)
    var tlsKeyLog: String?

    @Flag(help: "Start a damaged store with what is intact; a copy of the damaged files is kept.")
    var repair = false

    func validate() throws {
        guard !port.contains(0) else { throw ValidationError("-p takes a port from 1 to 65535, not 0.") }
        guard port.count <= 10 else { throw ValidationError("-p may be given at most 10 times, not \(port.count).") }
        guard !(verbose && quiet) else { throw ValidationError("-v and -q contradict each other; give one of them.") }
        if let threads, !(0...64).contains(threads) {
            throw ValidationError("--threads takes 0 to 64, not \(threads).")
        }
    }
}
