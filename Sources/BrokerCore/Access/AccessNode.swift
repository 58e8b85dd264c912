/// A place in the tree of an access list: what the rules that pass here say, and which levels may follow.
struct AccessNode: Sendable {
    /// No such child.
    static let none: Int32 = -1

    /// The permissions of rules that end here.
    var here: AccessPermission = []
    /// The permissions of rules that go on with `#`.
    var rest: AccessPermission = []
    var hasLiterals = false
    /// The children for `+`, `%c` and `%u`.
    var single = none
    var clientIdentifier = none
    var userName = none

    var hasChildren: Bool {
        hasLiterals || single != Self.none || clientIdentifier != Self.none || userName != Self.none
    }
}
