import Configuration
import Glibc
import MartletServer
import Platform

/// Where the configuration comes from: the file, or the defaults, with what the command line changes. It is read at the start and at
/// each reload.
struct ConfigurationSource: Sendable {
    private let path: String?
    private let ports: [UInt16]
    private let isVerbose: Bool
    private let isQuiet: Bool
    private let threads: Int?
    /// Whether it is read to run a broker, which makes what it needs of itself.
    private let isForRunning: Bool
    /// The broker's own socket for its administration: where it was at the start, before the broker became another user.
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
