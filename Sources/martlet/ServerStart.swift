import ArgumentParser
import Configuration
import Glibc
import MartletServer

/// Brings the broker up as the command line says, and runs it until a signal ends it.
struct ServerStart {
    private let options: ServeOptions

    init(_ options: ServeOptions) { self.options = options }

    func run() throws {
        let source = ConfigurationSource(options)
        let result = source.read()
        for diagnostic in result.diagnostics { Console.complain("\(diagnostic)") }
        if result.hasErrors { throw ExitCode(3) }
        if options.testConfig {
            try check(ConfigurationFiles(checking: result.configuration))
            return
        }
        do throws(ServerError) {
            let log = try Log(result.configuration.logging)
            let server = try Server(
                configuration: result.configuration, file: options.configFile, log: log, keyLogFile: options.tlsKeyLog,
                repairsStore: options.repair
            ) { source.read() }
            if options.daemon { try Daemon.detach() }
            try server.run()
        } catch {
            Console.complain("Error: \(error).")
            throw ExitCode(1)
        }
    }

    /// `--test-config`: says what is wrong with the files that the configuration names.
    private func check(_ files: ConfigurationFiles) throws {
        for warning in files.warnings { Console.complain("Warning: \(warning)") }
        for error in files.errors { Console.complain("Error: \(error)") }
        if !files.errors.isEmpty { throw ExitCode(3) }
        Console.say("Configuration file is OK.")
    }
}
