/// Stores a line's value.
struct OptionSetter<Root: Sendable>: Sendable {
    /// Only the first word of the line counts.
    let isOneWord: Bool
    /// Stores the value of the text, or returns what was expected instead. `isFirst`: no line before gave this option.
    let set: @Sendable (_ text: String, _ root: inout Root, _ isFirst: Bool) -> Expectation?
}
