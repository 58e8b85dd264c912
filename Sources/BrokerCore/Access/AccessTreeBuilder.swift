/// Grows the tree of an access list, rule by rule.
struct AccessTreeBuilder {
    struct Edge: Hashable {
        let parent: Int32
        let level: [UInt8]
    }

    private(set) var nodes = [AccessNode()]
    private(set) var edges: [Edge: Int32] = [:]

    mutating func insert(_ rule: AccessRule) {
        var node = 0
        for level in rule.filter.levels {
            switch level {
            case .rest:
                nodes[node].rest.formUnion(rule.permission)
                return
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
        nodes[node].here.formUnion(rule.permission)
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
