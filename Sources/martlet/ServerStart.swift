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
            Console.say("Configuration file is OK.")
            return
        }
        do throws(ServerError) {
            let log = try Log(result.configuration.logging)
            let server = try Server(
                configuration: result.configuration, file: options.configFile, log: log, keyLogFile: options.tlsKeyLog
            ) { source.read() }
            if options.daemon { try Daemon.detach() }
            try server.run()
        } catch {
            Console.complain("Error: \(error).")
            throw ExitCode(1)
        }
    }
}
