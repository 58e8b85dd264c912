/// The bounds of simulations that no parameter sets.
enum Limits {
    /// Steps in which the tasks that a simulation's body has left come to their ends; what goes on after them stays.
    static let lastStepsMax = 100_000
}
