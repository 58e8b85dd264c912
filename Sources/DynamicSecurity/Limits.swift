/// The bounds of dynamic security, each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of a file of clients, groups and roles: a larger one is not read. About a million clients.
    static let fileBytesMax = 512 << 20
}
