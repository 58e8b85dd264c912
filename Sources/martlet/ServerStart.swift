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
        if result.hasErrors {
            // One look finds everything: what is wrong with the files that are named, too.
            for error in ConfigurationFiles(checking: result.configuration).errors { Console.complain("Error: \(error)") }
            throw ExitCode(3)
        }
        if options.testConfig {
            try check(ConfigurationFiles(checking: result.configuration))
            return
        }
        var log: Log?
        do throws(ServerError) {
            let made = try Log(result.configuration.logging)
            log = made
            let server = try Server(
                configuration: result.configuration, file: options.configFile, log: made, keyLogFile: options.tlsKeyLog,
                repairsStore: options.repair
            ) { source.read() }
            if options.daemon { try Daemon.detach() }
            try server.run()
        } catch {
            tell(error, log, result.configuration.logging)
            throw ExitCode(1)
        }
    }

    /// On the terminal, and wherever else the log goes: in the background there is no terminal.
    private func tell(_ error: ServerError, _ log: Log?, _ logging: LoggingConfiguration) {
        let text = "\(error)"
        let line = "Error: \(text)\(text.hasSuffix(".") ? "" : ".")"
        Console.complain(line)
        if logging.destinations.contains(where: { ![.standardError, .standardOutput].contains($0) }) { log?.complain(line) }
    }

    /// `--test-config`: says what is wrong with the files that the configuration names.
    private func check(_ files: ConfigurationFiles) throws {
        for warning in files.warnings { Console.complain("Warning: \(warning)") }
        for error in files.errors { Console.complain("Error: \(error)") }
        if !files.errors.isEmpty { throw ExitCode(3) }
        Console.say("Configuration file is OK.")
    }
}
