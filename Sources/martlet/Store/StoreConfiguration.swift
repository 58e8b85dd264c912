import ArgumentParsing
import Configuration

/// The broker's configuration, as far as it says something about the store.
struct StoreConfiguration: ParsableArguments {
    @Option(
        name: [.short, .customLong("config-file")],
        help: ArgumentHelp(
            "The broker's configuration: its persistence_location is the directory, if none is named.", valueName: "file"),
        completion: .file)
    var configFile: String?

    /// Throws if there is neither a configuration nor a directory that the command line names.
    func require(or directory: String?) throws {
        guard directory != nil || configFile != nil else {
            throw ValidationError("Name the store's directory, or the broker's configuration with -c.")
        }
    }

    /// Where the broker has its store, and what it calls it.
    func location() throws -> (directory: String, name: String) {
        let persistence = try read()?.persistence ?? PersistenceConfiguration()
        return (persistence.location ?? ".", persistence.storeName)
    }

    /// The ports of the listeners, in their order, and 0 for a socket without one, as mosquitto has it; none without a configuration.
    func listenerPorts() throws -> [UInt16] {
        try read()?.listeners.map { listener in
            switch listener.endpoint {
            case .tcp(let port, _), .loopback(let port): port
            case .unixSocket: 0
            }
        } ?? []
    }

    private func read() throws -> BrokerConfiguration? {
        guard let configFile else { return nil }
        let reader = ConfigurationReader(files: DiskFiles(), environment: ConfigurationSource.environment)
        let result = reader.read(path: configFile, ports: [])
        for diagnostic in result.diagnostics where diagnostic.severity == .error { Console.complain("\(diagnostic)") }
        if result.hasErrors { throw ExitCode(1) }
        return result.configuration
    }
}
