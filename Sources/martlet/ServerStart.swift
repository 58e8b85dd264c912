import ArgumentParsing
import BrokerCore
import BrokerModel
import Configuration
import Glibc
import MartletServer
import ServerLoops

/// Brings the broker up as the command line says, and runs it until a signal ends it.
struct ServerStart {
    private let options: ServeOptions

    init(_ options: ServeOptions) { self.options = options }

    func run() throws {
        let source = ConfigurationSource(options)
        let result = source.read()
        for diagnostic in result.diagnostics { Console.complain("\(diagnostic)") }
        if options.testConfig || result.hasErrors {
            // One look finds everything: what is wrong with the files, ports and rights that are named, too.
            try check(result)
            return
        }
        var log: Log?
        do throws(ServerError) {
            let made = try Log(result.configuration.logging)
            log = made
            // Whoever reads the log later did not see the terminal.
            if hasOtherDestination(result.configuration.logging) {
                for diagnostic in result.diagnostics { made.write(.warning, "\(diagnostic)") }
            }
            let server = try Server(
                configuration: result.configuration, file: options.configFile, log: made, keyLogFile: options.tlsKeyLog,
                repairsStore: options.repair
            ) { source.read() }
            if options.daemon { try Daemon.detach() }
            try server.run()
        } catch {
            for diagnostic in error.diagnostics(in: result) { tell("\(diagnostic)", log, result.configuration.logging) }
            throw ExitCode(1)
        }
    }

    /// On the terminal, and wherever else the log goes: in the background there is no terminal.
    private func tell(_ line: String, _ log: Log?, _ logging: LoggingConfiguration) {
        Console.complain(line)
        if hasOtherDestination(logging) { log?.complain(line) }
    }

    private func hasOtherDestination(_ logging: LoggingConfiguration) -> Bool {
        logging.destinations.contains { ![.standardError, .standardOutput].contains($0) }
    }

    /// Says what would keep the broker from starting. Throws exit code 3 when something does.
    private func check(_ result: ConfigurationResult) throws {
        let check = StartCheck(result, file: options.configFile, keyLogFile: options.tlsKeyLog)
        for diagnostic in check.diagnostics { Console.complain("\(diagnostic)") }
        if result.hasErrors || check.hasErrors { throw ExitCode(3) }
        Console.say("Configuration file is OK.")
    }
}
