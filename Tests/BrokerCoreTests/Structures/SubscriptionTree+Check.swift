import Testing

@testable import BrokerCore

extension SubscriptionTree {
    /// Checks that nodes, edges, levels, chains and index agree, given all records that should be there; O(records ×
    /// levels).
    func checkInvariants(records expected: [UInt32], sourceLocation: SourceLocation = #_sourceLocation) {
        var alive: Set<UInt32> = []
        for record in expected {
            var node = records[record].node
            while node != Self.root, alive.insert(node).inserted { node = nodes[node].parent }
        }
        #expect(nodes.count == alive.count + 1, "nodes", sourceLocation: sourceLocation)
        #expect(records.count == expected.count, "records", sourceLocation: sourceLocation)
        #expect(index.count == expected.count, "index", sourceLocation: sourceLocation)

        var children: [UInt32: UInt32] = [:]
        var texts: Set<UInt32> = []
        var literals = 0
        for node in alive {
            let (parent, level) = (nodes[node].parent, nodes[node].level)
            children[parent, default: 0] += 1
            let linked: UInt32
            switch level {
            case Self.singleLevelWildcard: linked = nodes[parent].singleLevelChild
            case Self.multiLevelWildcard: linked = nodes[parent].multiLevelChild
            default:
                linked = edges.child(of: parent, level: level)
                texts.insert(level)
                literals += 1
            }
            #expect(linked == node, "a node is not its parent's child", sourceLocation: sourceLocation)
        }
        #expect(edges.count == literals, "edges", sourceLocation: sourceLocation)
        #expect(levels.count == texts.count, "levels", sourceLocation: sourceLocation)

        var chained = 0
        for node in alive.union([Self.root]) {
            #expect(nodes[node].children == children[node, default: 0], "children", sourceLocation: sourceLocation)
            var previous = SubscriptionRecord.none
            var record = nodes[node].firstRecord
            while record != SubscriptionRecord.none, chained <= expected.count {
                let found = index.find(node: node, subscriber: records[record].subscriber, in: records.base)
                #expect(records[record].node == node, sourceLocation: sourceLocation)
                #expect(records[record].previousOfNode == previous, sourceLocation: sourceLocation)
                #expect(found == record, "the index misses a record", sourceLocation: sourceLocation)
                chained += 1
                previous = record
                record = records[record].nextOfNode
            }
        }
        #expect(chained == expected.count, "chains", sourceLocation: sourceLocation)
    }

    /// The records whose filters match, in ascending order; one found twice stands there twice.
    mutating func matching(_ topic: [UInt8]) -> [UInt32] {
        var found: [UInt32] = []
        topic.withUnsafeBytes { match($0) { found.append($0) } }
        return found.sorted()
    }
}
