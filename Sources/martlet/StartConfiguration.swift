import ArgumentParser
import Configuration
import Glibc
import MartletServer

/// The configuration that the command line asks for: the file's, or the default, with what the options change.
struct StartConfiguration {
    private let options: Serve

    init(_ options: Serve) { self.options = options }

    /// Reads it; says everything that is wrong with it, and ends the command if that is more than a warning.
    func read() throws -> BrokerConfiguration {
        var configuration = BrokerConfiguration.default(ports: options.port)
        if let path = options.configFile {
            let result = ConfigurationReader(files: DiskFiles(), environment: Self.environment).read(
                path: path, ports: options.port)
            for diagnostic in result.diagnostics { Console.complain("\(diagnostic)") }
            if result.hasErrors { throw ExitCode(3) }
            configuration = result.configuration
        }
        if options.verbose { configuration.logging.types = .all }
        if let threads = options.threads { configuration.general.threads = threads == 0 ? nil : threads }
        let objections = ConfigurationSupport.objections(to: configuration)
        for objection in objections { Console.complain("Error: \(objection)") }
        if !objections.isEmpty { throw ExitCode(3) }
        return configuration
    }

    /// The process's environment variables.
    private static var environment: [String: String] {
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
