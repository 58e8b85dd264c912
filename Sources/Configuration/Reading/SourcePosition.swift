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
