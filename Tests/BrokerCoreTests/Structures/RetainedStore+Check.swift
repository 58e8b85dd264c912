import Testing

@testable import BrokerCore

extension RetainedStore {
    /// Checks that nodes, edges, levels and sibling chains agree, and that no node is left without a purpose; O(nodes).
    func checkInvariants(messages: Int, sourceLocation: SourceLocation = #_sourceLocation) {
        var visited = 0
        var held = 0
        var texts: Set<UInt32> = []
        var stack = [Self.root]
        while let node = stack.popLast() {
            visited += 1
            if nodes[node].message != nil { held += 1 }
            let isNeeded =
                node == Self.root || nodes[node].message != nil || nodes[node].firstChild != Self.none || nodes[node].scans > 0
            #expect(isNeeded, "an empty node is left", sourceLocation: sourceLocation)
            var previous = Self.none
            var child = nodes[node].firstChild
            while child != Self.none, visited <= nodes.count {
                let linked = edges.child(of: node, level: nodes[child].level)
                #expect(linked == child, sourceLocation: sourceLocation)
                #expect(nodes[child].parent == node, sourceLocation: sourceLocation)
                #expect(nodes[child].previousSibling == previous, sourceLocation: sourceLocation)
                texts.insert(nodes[child].level)
                stack.append(child)
                previous = child
                child = nodes[child].nextSibling
            }
        }
        #expect(visited == nodes.count, "nodes", sourceLocation: sourceLocation)
        #expect(edges.count == nodes.count - 1, "edges", sourceLocation: sourceLocation)
        #expect(levels.count == texts.count, "levels", sourceLocation: sourceLocation)
        #expect(held == messages, "messages", sourceLocation: sourceLocation)
        #expect(count == messages, "count", sourceLocation: sourceLocation)
    }

    /// A whole scan for a filter, `stepsAtOnce` nodes at a time: the topics found, in order of finding.
    mutating func scanned(_ filter: [UInt8], stepsAtOnce: Int = 1000) -> [[UInt8]] {
        var scan = filter.withUnsafeBytes { RetainedScan(filter: $0, store: self) }
        var found: [[UInt8]] = []
        while true {
            var steps = stepsAtOnce
            switch scan.next(in: &self, steps: &steps) {
            case .message(let message): found.append(Array(message.topic))
            case .pause: continue
            case .finished: return found
            }
        }
    }
}
