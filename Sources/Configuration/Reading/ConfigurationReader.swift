/// Reads configuration files in mosquitto's format, with Martlet's own options beside mosquitto's.
///
/// Nothing is read but what `files` gives, and nothing happens but what the result says: the reader opens no port and creates no file.
/// A value; every `read` starts afresh.
public struct ConfigurationReader: Sendable {
    private let files: any FileSource
    private let environment: [String: String]

    /// `environment`: what `MOSQUITTO_PERSISTENCE_LOCATION` is looked up in and, with `martlet_expand_environment true`, every `${NAME}`.
    public init(files: any FileSource, environment: [String: String]) {
        self.files = files
        self.environment = environment
    }

    /// Reads the main file at `path` and what it includes. `ports` are those of the command line: they count only when the file opens no
    /// listener, as with mosquitto. Never fails: what is wrong stands in the result's diagnostics, all of it, up to
    /// `Limits.diagnosticsMax`.
    public func read(path: String, ports: [UInt16] = []) -> ConfigurationResult {
        var reading = ConfigurationReading(files: files, environment: environment, path: path)
        reading.readMainFile()
        return reading.finish(ports: ports)
    }
}
