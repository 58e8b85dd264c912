/// A line that names an option.
struct ConfigurationLine: Sendable, Equatable {
    var position: SourcePosition
    /// The first word.
    var name: String
    /// The rest, without blanks at its ends. May be empty.
    var value: String
}

/// Where a line stands.
struct SourcePosition: Sendable, Equatable {
    /// The file as it was named.
    var file: String
    /// Counted from 1.
    var line: Int

    /// How a message about `other` names this place: the file only if it is another one.
    func place(from other: SourcePosition) -> String {
        file == other.file ? "line \(line)" : "\(file):\(line)"
    }
}
