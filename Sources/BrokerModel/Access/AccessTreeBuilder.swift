public import MQTTCodec

/// Grows the tree of an access list, rule by rule.
package struct AccessTreeBuilder {
    package struct Edge: Hashable {
        package let parent: Int32
        package let level: [UInt8]
    }

    package private(set) var nodes = [AccessNode()]
    package private(set) var edges: [Edge: Int32] = [:]
    package private(set) var attributes: [AttributeEdge] = []
    package private(set) var conditions: [AccessConditionEnd] = []

    /// A level that stands for an attribute. Those below one node are chained.
    package struct AttributeEdge: Sendable {
        package let name: [UInt8]
        package let child: Int32
        /// The next one below the same node.
        package let next: Int32
    }

    package mutating func insert(_ rule: AccessRule) {
        let end = insert(rule.filter.levels)
        if !rule.networks.isEmpty {
            add(AccessConditionEnd(isRest: end.isRest, permission: rule.permission, networks: rule.networks), at: end.node)
        } else if end.isRest {
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
            case .attribute(let name): node = follow(attribute: name, from: node)
            }
        }
        return (node, false)
    }

    /// Has a rule end at a node that does not always hold.
    package mutating func add(_ end: AccessConditionEnd, at node: Int) {
        var end = end
        end.next = nodes[node].conditions
        conditions.append(end)
        nodes[node].conditions = Int32(conditions.count - 1)
    }

    private mutating func follow(attribute name: [UInt8], from node: Int) -> Int {
        var place = nodes[node].attributes
        while place != AccessNode.none {
            let edge = attributes[Int(place)]
            if edge.name == name { return Int(edge.child) }
            place = edge.next
        }
        let child = grow()
        attributes.append(AttributeEdge(name: name, child: child, next: nodes[node].attributes))
        nodes[node].attributes = Int32(attributes.count - 1)
        return Int(child)
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

/// What a line of an access file grants, or takes away.
///
/// The permission to publish may be one for some messages alone: then it is a set of pairs of QoS and RETAIN, each of
/// which has a bit, so that what several lines grant adds up, and a message costs no other question than one bit.
public struct AccessPermission: OptionSet, Sendable, Hashable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Messages of the topic may reach the client.
    public static let read = AccessPermission(rawValue: 1)
    /// The client may publish to the topic.
    public static let write = AccessPermission(rawValue: 2)
    /// Neither, whatever another line of the same list grants.
    public static let deny = AccessPermission(rawValue: 4)

    /// The client may publish messages of this QoS, with or without RETAIN.
    public static func write(_ qos: QoS, retain: Bool) -> AccessPermission {
        AccessPermission(rawValue: 8 << (2 * UInt16(qos.rawValue) + (retain ? 1 : 0)))
    }

    /// All that lets a client publish in some way.
    public static let someWrite = AccessPermission(rawValue: 2 | 0b111111 << 3)

    /// What a subscription of this QoS asks for: of rules about subscribing RETAIN means nothing.
    package static func subscribing(_ qos: QoS) -> AccessPermission { [write(qos, retain: false), write(qos, retain: true)] }

    /// Each pair of QoS and RETAIN that a message can have.
    package static let everyMessage: [AccessPermission] = [QoS.atMostOnce, .atLeastOnce, .exactlyOnce].flatMap { qos in
        [write(qos, retain: false), write(qos, retain: true)]
    }

    /// To publish messages with one of these QoS and one of these values of RETAIN.
    public static func messages(qos: [QoS], retain: [Bool]) -> AccessPermission {
        var found: AccessPermission = []
        for qos in qos { for retain in retain { found.insert(write(qos, retain: retain)) } }
        return found
    }
}

/// One line of an access file: a permission, and the topics that it is about.
public struct AccessRule: Sendable, Hashable {
    public let permission: AccessPermission
    public let filter: AccessFilter
    /// Where it stands in its file, counted from 1; 0 for nowhere.
    public let line: Int
    /// The networks of which the client comes from one; empty for a rule that holds from anywhere.
    public let networks: [AddressRange]

    public init(_ permission: AccessPermission, _ filter: AccessFilter, line: Int = 0, networks: [AddressRange] = []) {
        self.permission = permission
        self.filter = filter
        self.line = line
        self.networks = networks
    }
}

/// The end of a rule that holds for some messages, or from some addresses alone. Those of one node are chained.
package struct AccessConditionEnd: Sendable {
    /// Whether the rule goes on with `#`.
    package let isRest: Bool
    /// What it says; of a rule of a role, the messages that it is about.
    package let permission: AccessPermission
    /// Of a rule of a role: where it stands in its list, and whether it allows.
    package var ranks = RankedRules.Ranks()
    /// Empty for anywhere.
    package let networks: [AddressRange]
    /// The next one of the same node.
    package var next = AccessNode.none

    package init(isRest: Bool, permission: AccessPermission, networks: [AddressRange], ranks: RankedRules.Ranks = .init()) {
        (self.isRest, self.permission, self.networks, self.ranks) = (isRest, permission, networks, ranks)
    }
}

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
    /// The first of the children for attributes, and the first rule that ends here and does not always hold.
    package var attributes = none
    package var conditions = none

    package var hasChildren: Bool {
        hasLiterals || single != Self.none || clientIdentifier != Self.none || userName != Self.none || attributes != Self.none
    }
}

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

/// One list of an access file, ready to be asked: the rules themselves, and a tree of their filters.
///
/// Within a list the order of the lines does not matter: a line that denies counts before every line that grants. So
/// all that there is to know of a topic is the union of the permissions whose filters match it, and one walk down the
/// tree finds it, whatever the number of lines. Immutable; shared by all sessions that it holds for, on every loop.
package final class AccessRules: Sendable {
    package let rules: [AccessRule]
    /// Whether a rule asks from where the client comes.
    package let asksAddress: Bool
    private let nodes: [AccessNode]
    private let edges: AccessEdges
    private let attributes: [AccessTreeBuilder.AttributeEdge]
    private let conditions: [AccessConditionEnd]

    package init(_ rules: [AccessRule]) {
        self.rules = rules
        var builder = AccessTreeBuilder()
        for rule in rules { builder.insert(rule) }
        nodes = builder.nodes
        edges = AccessEdges(builder.edges)
        (attributes, conditions) = (builder.attributes, builder.conditions)
        asksAddress = rules.contains { !$0.networks.isEmpty }
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

    /// The union of the permissions that the list has for a topic of at least three levels in rules whose first two are
    /// these, which are the topic's too.
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
        if node.conditions != AccessNode.none {
            found.formUnion(conditional(node.conditions, isEnd: offset > topic.count, identity))
        }
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
        if node.attributes != AccessNode.none {
            found.formUnion(walkAttributes(from: node.attributes, topic, offset, identity))
        }
        if node.hasLiterals,
            let child = edges.child(of: index, level: UnsafeRawBufferPointer(rebasing: topic[offset..<end]))
        {
            found.formUnion(walk(from: child, topic, end &+ 1, identity))
        }
        return found
    }

    @inline(never)
    private func walkAttributes(
        from first: Int32, _ topic: UnsafeRawBufferPointer, _ offset: Int, _ identity: AccessIdentity
    ) -> AccessPermission {
        var found: AccessPermission = []
        var place = first
        while place != AccessNode.none {
            let edge = attributes[Int(place)]
            place = edge.next
            guard let (end, permissions) = identity.end(ofAttribute: edge.name, in: topic, from: offset) else { continue }
            found.formUnion(walk(from: edge.child, topic, end &+ 1, identity).intersection(permissions))
        }
        return found
    }

    /// What those rules of a node say that do not always hold.
    @inline(never)
    private func conditional(_ first: Int32, isEnd: Bool, _ identity: AccessIdentity) -> AccessPermission {
        var found: AccessPermission = []
        var place = first
        while place != AccessNode.none {
            let rule = conditions[Int(place)]
            place = rule.next
            guard isEnd || rule.isRest, identity.isMeant(by: rule.networks, denies: rule.permission.contains(.deny)) else {
                continue
            }
            found.formUnion(rule.permission)
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
