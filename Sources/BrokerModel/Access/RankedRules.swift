/// A list of rules in which the first that matches a topic decides, ready to be asked: a tree of their filters, where every end carries the
/// place of its rule in the list.
///
/// One walk down the tree finds the first rule that grants and the first that denies, whatever their number. Immutable.
package struct RankedRules: Sendable {
    /// Where the first matching rules of each kind stand in the list; `none` for no such rule.
    package struct Ranks: Sendable {
        package static let none = Int32.max

        package var granting = none
        package var denying = none

        /// What the list says.
        package var verdict: AccessVerdict {
            if granting == denying { return .deferred }
            return granting < denying ? .granted : .denied
        }

        @inline(__always)
        package mutating func take(_ other: Ranks) {
            granting = min(granting, other.granting)
            denying = min(denying, other.denying)
        }
    }

    private let nodes: [AccessNode]
    /// By node: the rules that end there, and those that go on with `#`.
    private var here: [Ranks]
    private var rest: [Ranks]
    private let edges: AccessEdges

    /// - Parameter rules: the first of several that match counts.
    package init(_ rules: [RoleRule]) {
        var builder = AccessTreeBuilder()
        var ends: [(node: Int, isRest: Bool)] = []
        for rule in rules { ends.append(builder.insert(rule.filter.levels)) }
        nodes = builder.nodes
        edges = AccessEdges(builder.edges)
        here = Array(repeating: Ranks(), count: nodes.count)
        rest = here
        for (rank, (rule, end)) in zip(rules, ends).enumerated() {
            var ranks = Ranks()
            if rule.allows { ranks.granting = Int32(rank) } else { ranks.denying = Int32(rank) }
            if end.isRest { rest[end.node].take(ranks) } else { here[end.node].take(ranks) }
        }
    }

    /// The first rules that match a topic.
    @inline(__always)
    package func ranks(for topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> Ranks {
        guard !topic.isEmpty else { return Ranks() }
        guard topic[0] == UInt8(ascii: "$") else { return walk(from: 0, topic, 0, identity) }
        // Only a rule that says so with its first character is about such topics.
        let end = AccessRules.levelEnd(topic, 0)
        guard let child = edges.child(of: 0, level: UnsafeRawBufferPointer(rebasing: topic[0..<end])) else { return Ranks() }
        return walk(from: child, topic, end &+ 1, identity)
    }

    /// The first of those rules whose first two levels are these, which are the topic's too.
    package func ranksBelow(_ first: String, _ second: String, for topic: UnsafeRawBufferPointer, _ identity: AccessIdentity)
        -> Ranks
    {
        let (first, second) = (Array(first.utf8), Array(second.utf8))
        guard let parent = first.withUnsafeBytes({ edges.child(of: 0, level: $0) }),
            let child = second.withUnsafeBytes({ edges.child(of: parent, level: $0) })
        else { return Ranks() }
        return walk(from: child, topic, first.count + second.count + 2, identity)
    }

    /// What the rules below a node say of the levels from `offset` on; past the topic's end when none is left.
    private func walk(
        from index: Int32, _ topic: UnsafeRawBufferPointer, _ offset: Int, _ identity: AccessIdentity
    ) -> Ranks {
        let node = nodes[Int(index)]
        // `a/#` is about `a` too.
        var found = rest[Int(index)]
        guard offset <= topic.count else {
            found.take(here[Int(index)])
            return found
        }
        guard node.hasChildren else { return found }
        let end = AccessRules.levelEnd(topic, offset)
        if node.single != AccessNode.none { found.take(walk(from: node.single, topic, end &+ 1, identity)) }
        if node.clientIdentifier != AccessNode.none,
            let end = AccessRules.end(of: identity.clientIdentifier, in: topic, from: offset)
        {
            var below = walk(from: node.clientIdentifier, topic, end &+ 1, identity)
            if !identity.clientIdentifierPermissions.contains(.read) { below.granting = Ranks.none }
            found.take(below)
        }
        if node.userName != AccessNode.none, let end = AccessRules.end(of: identity.userName, in: topic, from: offset) {
            var below = walk(from: node.userName, topic, end &+ 1, identity)
            if !identity.userNamePermissions.contains(.read) { below.granting = Ranks.none }
            found.take(below)
        }
        if node.hasLiterals,
            let child = edges.child(of: index, level: UnsafeRawBufferPointer(rebasing: topic[offset..<end]))
        {
            found.take(walk(from: child, topic, end &+ 1, identity))
        }
        return found
    }
}
