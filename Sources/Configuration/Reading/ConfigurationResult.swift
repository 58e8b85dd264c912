/// What the reader made of a configuration file.
///
/// `configuration` holds whatever could be understood, which is good enough to be shown or compared; the broker starts with it only
/// when `hasErrors` is false.
public struct ConfigurationResult: Sendable, Equatable {
    public var configuration: BrokerConfiguration
    /// In the order of the lines; what concerns a whole section follows at the end.
    public var diagnostics: [Diagnostic]
    /// Where its lines stand.
    public var places: ConfigurationPlaces

    /// A configuration, what there is to say about it, and where its lines stand, if it comes from a file.
    public init(
        configuration: BrokerConfiguration, diagnostics: [Diagnostic], places: ConfigurationPlaces = ConfigurationPlaces()
    ) {
        self.configuration = configuration
        self.diagnostics = diagnostics
        self.places = places
    }

    public var hasErrors: Bool {
        diagnostics.contains { $0.severity == .error }
    }
}
