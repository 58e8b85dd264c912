/// Ends the process when something that must hold does not: a find.
@inline(__always)
public func expect(_ condition: @autoclosure () -> Bool, _ words: @autoclosure () -> String) {
    if !condition() { preconditionFailure(words()) }
}
