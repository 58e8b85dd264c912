/// A line that names an option.
struct ConfigurationLine: Sendable, Equatable {
    var position: SourcePosition
    /// The first word.
    var name: String
    /// The rest, without blanks at its ends. May be empty.
    var value: String
}
