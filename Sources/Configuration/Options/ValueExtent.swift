/// How much of a line belongs to its value.
enum ValueExtent: Sendable {
    /// The first word, as with mosquitto's numbers and booleans.
    case word
    /// The words up to one that begins with #, where a comment begins.
    case words
    /// All that is there: paths, names and passwords may hold blanks and #.
    case line
}
