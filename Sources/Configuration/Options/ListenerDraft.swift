/// A listener whose section is being read. What it takes from the broker's settings is decided at the end of the file.
struct ListenerDraft: Sendable {
    var configuration: ListenerConfiguration
    /// `listener_allow_anonymous`.
    var allowsAnonymous: Bool?
    /// `listener_auto_id_prefix`.
    var assignedIdentifierPrefix: String?
    /// `martlet_durability` in the listener's section.
    var durability: Durability?
    /// The plug-ins that serve this listener alone.
    var plugins: [PluginConfiguration] = []
    /// `use_identity_as_username`, `use_subject_as_username`.
    var usesIdentityAsUserName = false
    var usesSubjectAsUserName = false
    /// The `listener` line; nil for the default listener.
    var position: SourcePosition?

    /// A draft of a listener that is complete.
    init(_ configuration: ListenerConfiguration) { self.configuration = configuration }

    init(endpoint: ListenerEndpoint, position: SourcePosition?) {
        configuration = ListenerConfiguration(endpoint: endpoint)
        self.position = position
    }
}
