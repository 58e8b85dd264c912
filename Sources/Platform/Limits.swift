/// The bounds of this module: each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of a wrong name that is compared with the right ones; a longer one gets no suggestion.
    static let comparedNameBytesMax = 64
}
