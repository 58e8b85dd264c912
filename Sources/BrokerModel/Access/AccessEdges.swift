/// The literal levels of an access tree: (parent, text) → child, by open addressing. Immutable once made.
package struct AccessEdges: Sendable {
    private struct Edge: Sendable {
        package var hash: UInt32
        package var parent: Int32
        package var child: Int32
        package var offset: Int32
        package var count: Int32
    }

    /// The operator chooses the names in it and a client only looks them up, so that no seed is needed.
    private static let hashing = TopicHash(seed: 0x6d61_7274_6c65_7421)

    /// A power of two of places, at most half of them taken, so that a search always ends.
    private var slots: [Edge]
    private var texts: [UInt8] = []

    package init(_ edges: [AccessTreeBuilder.Edge: Int32]) {
        var capacity = 4
        while capacity < edges.count * 2 { capacity *= 2 }
        slots = Array(repeating: Edge(hash: 0, parent: 0, child: AccessNode.none, offset: 0, count: 0), count: capacity)
        for (edge, child) in edges {
            let hash = edge.level.withUnsafeBytes { Self.hash(edge.parent, $0) }
            var slot = Int(truncatingIfNeeded: hash) & (capacity - 1)
            while slots[slot].child != AccessNode.none { slot = (slot + 1) & (capacity - 1) }
            slots[slot] = Edge(
                hash: hash, parent: edge.parent, child: child, offset: Int32(texts.count), count: Int32(edge.level.count))
            texts += edge.level
        }
    }

    @inline(__always)
    package func child(of parent: Int32, level: UnsafeRawBufferPointer) -> Int32? {
        let hash = Self.hash(parent, level)
        let mask = slots.count &- 1
        var slot = Int(truncatingIfNeeded: hash) & mask
        while true {
            let edge = slots[slot]
            if edge.child == AccessNode.none { return nil }
            if edge.hash == hash, edge.parent == parent, isText(of: edge, level) { return edge.child }
            slot = (slot &+ 1) & mask
        }
    }

    @inline(__always)
    private func isText(of edge: Edge, _ level: UnsafeRawBufferPointer) -> Bool {
        texts.withUnsafeBytes { texts in
            MemoryComparison.equal(
                UnsafeRawBufferPointer(rebasing: texts[Int(edge.offset)..<Int(edge.offset &+ edge.count)]), level)
        }
    }

    @inline(__always)
    private static func hash(_ parent: Int32, _ level: UnsafeRawBufferPointer) -> UInt32 {
        UInt32(truncatingIfNeeded: hashing.hash(level)) ^ UInt32(bitPattern: parent) &* 0x9e37_79b9
    }
}
