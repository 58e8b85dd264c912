/// The bounds of what is read, each with its unit and what happens beyond it.
enum Limits {
    /// Arrays and objects in each other: deeper JSON is refused.
    static let depthMax = 32
    /// Bytes of a text: a longer one is refused before it is looked at.
    static let bytesMax = 16 << 20
}
