/// Grows the tree of an access list, rule by rule.
package struct AccessTreeBuilder {
    package struct Edge: Hashable {
        package let parent: Int32
        package let level: [UInt8]
    }

    package private(set) var nodes = [AccessNode()]
    package private(set) var edges: [Edge: Int32] = [:]

    package mutating func insert(_ rule: AccessRule) {
        let end = insert(rule.filter.levels)
        if end.isRest {
            nodes[end.node].rest.formUnion(rule.permission)
        } else {
            nodes[end.node].here.formUnion(rule.permission)
        }
    }

    /// Makes the way of a filter's levels.
    ///
    /// - Returns: the node at which it ends, and whether a `#` follows there.
    package mutating func insert(_ levels: [AccessFilter.Level]) -> (node: Int, isRest: Bool) {
        var node = 0
        for level in levels {
            switch level {
            case .rest:
                return (node, true)
            case .literal(let text):
                nodes[node].hasLiterals = true
                let edge = Edge(parent: Int32(node), level: text)
                let child = edges[edge] ?? grow()
                edges[edge] = child
                node = Int(child)
            case .single: node = follow(\.single, from: node)
            case .clientIdentifier: node = follow(\.clientIdentifier, from: node)
            case .userName: node = follow(\.userName, from: node)
            }
        }
        return (node, false)
    }

    private mutating func follow(_ child: WritableKeyPath<AccessNode, Int32>, from node: Int) -> Int {
        if nodes[node][keyPath: child] == AccessNode.none { nodes[node][keyPath: child] = grow() }
        return Int(nodes[node][keyPath: child])
    }

    private mutating func grow() -> Int32 {
        nodes.append(AccessNode())
        return Int32(nodes.count - 1)
    }
}
