/// The bounds of passwords, logins and their files that no option sets and several files share: each with its unit and
/// what happens beyond it.
enum Limits {
    // Files.

    /// Iterations that a line of a password file may ask for: about ten seconds of a core. More are an error.
    static let iterationsMax = 10_000_000

    /// The cost that a hash of bcrypt may ask for: seconds of a core. More are an error.
    static let bcryptCostMax = 16
}
