/// A walk over the retained messages that match a filter, a few steps at a time.
///
/// A hundred thousand of them delay nobody: the shard takes some steps each turn, as its receiver keeps up. What is retained after the
/// scan began is passed over: the subscription is in force by then and has got it as a live message.
struct RetainedScan {
    enum Step {
        case message(Message)
        /// The steps allowed are used up; go on in a later turn.
        case pause
        case finished
    }

    private enum Level {
        case literal([UInt8])
        case single
        case multi
    }

    /// A chain of siblings of which `cursor` is the next to visit, to be matched against the levels from `depth` on.
    private struct Frame {
        var cursor: UInt32
        let depth: Int
    }

    private let levels: [Level]
    private let startStamp: UInt64
    private var stack: [Frame] = []
    private var isStarted = false
    /// A node that matched and waits to be handed out.
    private var found = RetainedStore.none

    /// - Parameter startStamp: the store's stamp when the subscription began, if that was earlier.
    init(filter: UnsafeRawBufferPointer, store: borrowing RetainedStore, startStamp: UInt64? = nil) {
        self.startStamp = startStamp ?? store.stamp
        var levels: [Level] = []
        var sequence = LevelSequence(filter)
        while let text = sequence.next() {
            if LevelSequence.isSingleLevelWildcard(text) {
                levels.append(.single)
            } else if LevelSequence.isMultiLevelWildcard(text) {
                levels.append(.multi)
            } else {
                levels.append(.literal(Array(text)))
            }
        }
        self.levels = levels
    }

    /// The next match, after at most `steps` nodes.
    mutating func next(in store: inout RetainedStore, steps: inout Int) -> Step {
        if !isStarted {
            isStarted = true
            enter(RetainedStore.root, depth: 0, &store)
        }
        while steps > 0 {
            steps -= 1
            if found != RetainedStore.none {
                let node = found
                found = RetainedStore.none
                let message = store.nodes[node].stamp <= startStamp ? store.message(of: node) : nil
                store.unpin(node)
                if let message { return .message(message) }
                continue
            }
            guard var frame = stack.popLast() else { return .finished }
            let node = frame.cursor
            frame.cursor = store.nodes[node].nextSibling
            if frame.cursor != RetainedStore.none { push(frame, &store) }
            if !isHidden(node, store) { enter(node, depth: frame.depth, &store) }
            store.unpin(node)
        }
        return .pause
    }

    /// Ends the scan before it has come to its end: it gives up its place in the tree.
    mutating func end(in store: inout RetainedStore) {
        if found != RetainedStore.none { store.unpin(found) }
        for frame in stack { store.unpin(frame.cursor) }
        (found, stack) = (RetainedStore.none, [])
    }

    private mutating func push(_ frame: Frame, _ store: inout RetainedStore) {
        store.pin(frame.cursor)
        stack.append(frame)
    }

    private mutating func find(_ node: UInt32, _ store: inout RetainedStore) {
        store.pin(node)
        found = node
    }

    /// Works off a node whose path matches the levels before `depth`.
    private mutating func enter(_ start: UInt32, depth startDepth: Int, _ store: inout RetainedStore) {
        var node = start
        var depth = startDepth
        // Literal levels lead straight down; no frame is needed for them.
        while depth < levels.count, case .literal(let text) = levels[depth] {
            let level = store.level(text)
            guard level != LevelTable.none else { return }
            node = store.edges.child(of: node, level: level)
            guard node != EdgeTable.none else { return }
            depth += 1
        }
        guard depth < levels.count else {
            find(node, &store)
            return
        }
        let child = store.nodes[node].firstChild
        if case .multi = levels[depth] {
            // `a/#` matches `a` too; and below, every node matches, with the same level.
            if node != RetainedStore.root { find(node, &store) }
            if child != RetainedStore.none { push(Frame(cursor: child, depth: depth), &store) }
        } else if child != RetainedStore.none {
            push(Frame(cursor: child, depth: depth + 1), &store)
        }
    }

    /// Whether a wildcard at the first level must not match the node. [MQTT-4.7.2-1 v5]
    private func isHidden(_ node: UInt32, _ store: borrowing RetainedStore) -> Bool {
        guard store.nodes[node].parent == RetainedStore.root else { return false }
        switch levels.first {
        case .single, .multi: return store.levels.text(of: store.nodes[node].level).first == UInt8(ascii: "$")
        case .literal, nil: return false
        }
    }
}
