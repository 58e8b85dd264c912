import Administration
import Configuration
import Platform

/// The configuration that is in force, and where its lines stand. Belongs to the control thread.
///
/// A reload puts another in its place; whoever asks for it keeps this object, and finds what holds now.
final class RunningConfiguration {
    private(set) var value: BrokerConfiguration
    /// Reads the files again; nil when there are none.
    let reread: (@Sendable () -> ConfigurationResult)?
    /// Where the lines stand; empty without a file.
    private(set) var locations = ConfigurationLocations()
    /// When the files were read again last, in milliseconds since 1970; nil for never.
    private(set) var reloadedAt: UInt64?
    /// Where the listeners of the files are among those of the configuration, in the files' order.
    private var listenersOfFiles: [Int]
    /// SHA-256 of the lines, in hexadecimal; nil until somebody has asked.
    private var digest: String?

    init(_ value: BrokerConfiguration, reread: (@Sendable () -> ConfigurationResult)?) {
        (self.value, self.reread) = (value, reread)
        listenersOfFiles = Array(value.listeners.indices)
    }

    /// Finds out where the lines stand that are in force since the start.
    func locate() { if let reread { locate(reread().locations) } }

    /// Puts what was read again in its place.
    ///
    /// - Parameters:
    ///   - locations: where its lines stand.
    ///   - now: milliseconds since 1970.
    func exchange(_ reloaded: ReloadedConfiguration, locations: ConfigurationLocations, at now: UInt64) {
        (value, listenersOfFiles, reloadedAt) = (reloaded.configuration, reloaded.listenersOfFiles, now)
        locate(locations)
    }

    private func locate(_ locations: ConfigurationLocations) { (self.locations, digest) = (locations, nil) }

    /// Reads the files without using them; nil where there are none.
    func check() -> ConfigurationFindings? { reread.map { ConfigurationFindings($0().diagnostics) } }

    /// The SHA-256 of the lines in force, in hexadecimal. Made when somebody asks for the first time: the library that
    /// hashes takes 2 MB. nil without a file.
    private var digestOfLocations: String? {
        guard locations.file != nil else { return nil }
        if let digest { return digest }
        let text = locations.lines.map { "\($0.file):\($0.line):\($0.name) \($0.value)\n" }.joined()
        let made = HashFunction.sha256.digest(Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        digest = made
        return made
    }

    /// All options: the lines that name one, else its default.
    var report: ConfigurationReport {
        var options: [ConfigurationReport.Option] = []
        for option in ConfigurationOption.all where option.canonicalName == nil && option.status == .supported {
            let lines = locations.lines.filter {
                ConfigurationOption.named($0.name).map { ($0.canonicalName ?? $0.name) == option.name } ?? false
            }
            for line in lines {
                options.append(
                    .init(
                        name: line.name, value: ConfigurationOption.shown(line.value, of: line.name), isDefault: false,
                        listener: locations.listener(of: line).map {
                            ListenerName.of(value.listeners[listenersOfFiles[$0]].endpoint)
                        },
                        file: line.file, line: line.line, reloads: option.isReloadable))
            }
            guard lines.isEmpty else { continue }
            options.append(
                .init(
                    name: option.name, value: option.defaultText, isDefault: true, listener: nil, file: nil, line: nil,
                    reloads: option.isReloadable))
        }
        return ConfigurationReport(file: locations.file, digest: digestOfLocations, options: options)
    }
}

extension ConfigurationFindings {
    init(_ diagnostics: [Diagnostic]) {
        self.init(
            diagnostics.map { diagnostic in
                Finding(
                    isError: diagnostic.severity == .error, file: diagnostic.file.isEmpty ? nil : diagnostic.file,
                    line: diagnostic.line, message: (diagnostic.option.map { "\($0): " } ?? "") + diagnostic.message)
            })
    }
}
