/// A place in the tree of an access list: what the rules that pass here say, and which levels may follow.
package struct AccessNode: Sendable {
    /// No such child.
    package static let none: Int32 = -1

    /// The permissions of rules that end here.
    package var here: AccessPermission = []
    /// The permissions of rules that go on with `#`.
    package var rest: AccessPermission = []
    package var hasLiterals = false
    /// The children for `+`, `%c` and `%u`.
    package var single = none
    package var clientIdentifier = none
    package var userName = none

    package var hasChildren: Bool {
        hasLiterals || single != Self.none || clientIdentifier != Self.none || userName != Self.none
    }
}
