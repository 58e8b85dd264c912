/// Why a value was refused.
enum Expectation: Sendable, Equatable {
    /// The value is not `what`.
    case expected(String)
    /// A sentence of its own.
    case sentence(String)
}
