/// What the reader made of a configuration file.
///
/// `configuration` holds whatever could be understood, which is good enough to be shown or compared; the broker starts with it only
/// when `hasErrors` is false.
public struct ConfigurationResult: Sendable, Equatable {
    public var configuration: BrokerConfiguration
    /// In the order of the lines; what concerns a whole section follows at the end.
    public var diagnostics: [Diagnostic]

    public init(configuration: BrokerConfiguration, diagnostics: [Diagnostic]) {
        self.configuration = configuration
        self.diagnostics = diagnostics
    }

    public var hasErrors: Bool {
        diagnostics.contains { $0.severity == .error }
    }
}
