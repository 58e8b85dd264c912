/// One list of an access file, ready to be asked: the rules themselves, and a tree of their filters.
///
/// Within a list the order of the lines does not matter: a line that denies counts before every line that grants. So all that there is
/// to know of a topic is the union of the permissions whose filters match it, and one walk down the tree finds it, whatever the number
/// of lines. Immutable; shared by all sessions that it holds for, on every loop.
package final class AccessRules: Sendable {
    package let rules: [AccessRule]
    private let nodes: [AccessNode]
    private let edges: AccessEdges

    package init(_ rules: [AccessRule]) {
        self.rules = rules
        var builder = AccessTreeBuilder()
        for rule in rules { builder.insert(rule) }
        nodes = builder.nodes
        edges = AccessEdges(builder.edges)
    }

    package var isEmpty: Bool { rules.isEmpty }

    /// The union of the permissions that the list has for a topic.
    @inline(__always)
    package func permissions(for topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessPermission {
        guard !topic.isEmpty else { return [] }
        if topic[0] == UInt8(ascii: "$") {
            // Only a rule that says so with its first character is about such topics.
            let end = Self.levelEnd(topic, 0)
            guard let child = edges.child(of: 0, level: UnsafeRawBufferPointer(rebasing: topic[0..<end])) else { return [] }
            return walk(from: child, topic, end &+ 1, identity)
        }
        return walk(from: 0, topic, 0, identity)
    }

    /// The union of the permissions that the list has for a topic of at least three levels in rules whose first two are these, which are the
    /// topic's too.
    package func permissionsBelow(
        _ first: String, _ second: String, for topic: UnsafeRawBufferPointer, _ identity: AccessIdentity
    ) -> AccessPermission {
        let (first, second) = (Array(first.utf8), Array(second.utf8))
        guard let parent = first.withUnsafeBytes({ edges.child(of: 0, level: $0) }),
            let child = second.withUnsafeBytes({ edges.child(of: parent, level: $0) })
        else { return [] }
        return walk(from: child, topic, first.count + second.count + 2, identity)
    }

    /// What the rules below a node have for the levels from `offset` on; past the topic's end when none is left.
    private func walk(
        from index: Int32, _ topic: UnsafeRawBufferPointer, _ offset: Int, _ identity: AccessIdentity
    ) -> AccessPermission {
        let node = nodes[Int(index)]
        // `a/#` is about `a` too.
        var found = node.rest
        guard offset <= topic.count else { return found.union(node.here) }
        guard node.hasChildren else { return found }
        let end = Self.levelEnd(topic, offset)
        if node.single != AccessNode.none { found.formUnion(walk(from: node.single, topic, end &+ 1, identity)) }
        if node.clientIdentifier != AccessNode.none, let end = Self.end(of: identity.clientIdentifier, in: topic, from: offset) {
            let below = walk(from: node.clientIdentifier, topic, end &+ 1, identity)
            found.formUnion(below.intersection(identity.clientIdentifierPermissions))
        }
        if node.userName != AccessNode.none, let end = Self.end(of: identity.userName, in: topic, from: offset) {
            let below = walk(from: node.userName, topic, end &+ 1, identity)
            found.formUnion(below.intersection(identity.userNamePermissions))
        }
        if node.hasLiterals,
            let child = edges.child(of: index, level: UnsafeRawBufferPointer(rebasing: topic[offset..<end]))
        {
            found.formUnion(walk(from: child, topic, end &+ 1, identity))
        }
        return found
    }

    /// Where the level ends that begins at `offset`, which may be the topic's end.
    @inline(__always)
    package static func levelEnd(_ topic: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        var end = offset
        while end < topic.count, topic[end] != UInt8(ascii: "/") { end &+= 1 }
        return end
    }

    /// Where `value` ends if it stands at `offset`, as whole levels; an empty one stands nowhere.
    package static func end(of value: [UInt8], in topic: UnsafeRawBufferPointer, from offset: Int) -> Int? {
        let end = offset &+ value.count
        guard !value.isEmpty, end <= topic.count, end == topic.count || topic[end] == UInt8(ascii: "/") else { return nil }
        let isEqual = value.withUnsafeBytes {
            MemoryComparison.equal($0, UnsafeRawBufferPointer(rebasing: topic[offset..<end]))
        }
        return isEqual ? end : nil
    }
}
