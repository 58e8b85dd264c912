/// The share groups of which a node has members, and what the other nodes have been told of them.
///
/// What is new travels with the questions of fences, so that an answer says that it is known. Each change has a version; a node has been told
/// all up to the version that it has acknowledged, and is told everything behind it again until it answers.
struct GroupBook {
    private struct Entry {
        var name: ShareGroupName
        var parts: [Int: GroupSize] = [:]
        var size = GroupSize()
        var version: UInt64 = 0
    }

    private struct Asked {
        var fence: UInt64
        var through: UInt64
        /// Whether there was more than a letter takes.
        var isPartial: Bool
    }

    private var version: UInt64 = 0
    private var lastNumber: UInt32 = 0
    private var numbers: [ShareGroupName: UInt32] = [:]
    private var entries: [UInt32: Entry] = [:]
    /// Changes by version, those that later ones have replaced among them.
    private var changes: [(version: UInt64, number: UInt32)] = []
    /// Groups without a member of which somebody may not know it yet, in the order of their versions.
    private var ended: [(version: UInt64, number: UInt32)] = []
    private var acknowledged: [NodeID: UInt64] = [:]
    private var asked: [NodeID: Asked] = [:]

    /// A part of the node has so many members of a group.
    ///
    /// - Returns: whether the other nodes have something to hear.
    mutating func set(_ name: ShareGroupName, part: Int, _ size: GroupSize) -> Bool {
        let number: UInt32
        if let known = numbers[name] {
            number = known
        } else {
            guard !size.isEmpty else { return false }
            lastNumber += 1
            number = lastNumber
            numbers[name] = number
            entries[number] = Entry(name: name)
        }
        guard var entry = entries[number] else { return false }
        let before = entry.size
        entry.parts[part] = size.isEmpty ? nil : size
        entry.size = entry.parts.values.reduce(GroupSize(), +)
        let hasChanged = entry.size != before
        if hasChanged {
            version += 1
            entry.version = version
        }
        entries[number] = entry
        guard hasChanged else { return false }
        changes.append((version, number))
        if entry.size.isEmpty { ended.append((version, number)) }
        if changes.count > 2 * entries.count + 16 { changes.removeAll { entries[$0.number]?.version != $0.version } }
        return true
    }

    /// The group that has this number here, also one that has just lost its last member.
    func name(of number: UInt32) -> ShareGroupName? { entries[number]?.name }

    /// Whether the group has members, or had them and somebody may not know that it has none.
    func knows(_ name: ShareGroupName) -> Bool { numbers[name] != nil }

    /// Whether a node has not acknowledged everything.
    func isBehind(_ node: NodeID) -> Bool { acknowledged[node] ?? 0 < version }


    /// What goes with a question to a node.
    mutating func ask(_ node: NodeID, fence: UInt64) -> GroupLetter {
        let letter = letter(for: node)
        if let before = asked[node], before.fence == fence {
            // Nobody can tell which of the two questions an answer belongs to.
            asked[node]?.through = min(before.through, letter.through)
            asked[node]?.isPartial = before.isPartial || letter.isPartial
        } else {
            asked[node] = Asked(fence: fence, through: letter.through, isPartial: letter.isPartial)
        }
        return letter
    }

    /// A node has answered.
    ///
    /// - Returns: whether it knows now what there was when the fence began; else it has to be asked again.
    mutating func answered(_ node: NodeID, fence: UInt64) -> Bool {
        guard let asked = asked[node], asked.fence == fence else { return true }
        acknowledged[node] = max(acknowledged[node] ?? 0, asked.through)
        self.asked[node] = nil
        return !asked.isPartial
    }

    /// Only these are there. Forgets groups without a member of which all have heard.
    ///
    /// - Returns: their names.
    @discardableResult
    mutating func keep(_ peers: Set<NodeID>) -> [ShareGroupName] {
        acknowledged = acknowledged.filter { peers.contains($0.key) }
        asked = asked.filter { peers.contains($0.key) }
        let known = peers.reduce(version) { min($0, acknowledged[$1] ?? 0) }
        let count = ended.prefix { $0.version <= known }.count
        var gone: [ShareGroupName] = []
        for (version, number) in ended.prefix(count) where entries[number]?.version == version {
            guard let entry = entries.removeValue(forKey: number) else { continue }
            numbers[entry.name] = nil
            gone.append(entry.name)
        }
        ended.removeFirst(count)
        return gone
    }

    /// What a node has not acknowledged, as far as a letter takes it.
    func letter(for node: NodeID) -> GroupLetter {
        let after = acknowledged[node] ?? 0
        guard after < version else { return GroupLetter(through: version) }
        var (low, high) = (0, changes.count)
        while low < high {
            let middle = (low + high) / 2
            if changes[middle].version <= after { low = middle + 1 } else { high = middle }
        }
        var (news, byteCount, through): ([GroupNews], Int, UInt64) = ([], 0, after)
        for (version, number) in changes[low...] {
            guard let entry = entries[number], entry.version == version else { continue }
            let one = GroupNews(number: number, name: entry.name, size: entry.size)
            byteCount += one.byteCountMax
            guard news.isEmpty || byteCount <= Limits.groupNewsBytesMax else {
                return GroupLetter(through: through, news: news, isPartial: true)
            }
            news.append(one)
            through = version
        }
        return GroupLetter(through: version, news: news, isWhole: after == 0)
    }
}
