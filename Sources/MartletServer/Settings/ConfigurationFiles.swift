public import Configuration
import Security
import Transports

/// The files that a configuration names, read as at a start but for nobody's use: users, access rules, keys and certificates.
public struct ConfigurationFiles {
    /// What makes them unusable: one line each, with the file and, where there is one, its line or the listener's.
    public private(set) var errors: [String] = []
    /// What is probably not meant as it stands in them.
    public private(set) var warnings: [String] = []

    /// Reads every file; nothing is kept.
    public init(checking configuration: BrokerConfiguration) {
        let workers = WorkerPool(name: "martlet-check", threads: 1, queue: 0)
        defer { workers.stop() }
        do throws(SecurityFilesError) {
            warnings = try SecurityTables(reading: configuration, workers: workers).warnings.map(\.description)
        } catch {
            errors = error.problems.map(\.description)
        }
        for listener in configuration.listeners {
            guard let settings = TLSSettings(listener, keyLogFile: nil, preSharedKey: { _ in nil }) else { continue }
            do throws(TLSFailure) {
                _ = try TLSContext(settings)
            } catch {
                errors.append("\(ListenerName.of(listener.endpoint)): \(error).")
            }
        }
    }
}
