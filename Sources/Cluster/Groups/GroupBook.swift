import Bytes

/// The share groups of which a node has members, and what the other nodes know of them.
///
/// Each change has a version. With each other node there is a conversation, in which that node is told everything from
/// the first version on, and says up to which it knows: what it does not know goes with every message to it. Who knows
/// less than it has said before has forgotten, and who leaves the nodes is forgotten: then the next conversation
/// begins. A group without a member is kept until all in a conversation know of its end, so that nothing that was told
/// in one stays untrue.
struct GroupBook {
    private struct Entry {
        var name: ShareGroupName
        var parts: [Int: GroupSize] = [:]
        var size = GroupSize()
        var version: UInt64 = 0
    }

    private struct Conversation {
        let number: UInt64
        /// What the node has said that it knows.
        var known: UInt64 = 0
        /// Of the newest change when a message did not take everything the last time: it may have left out what had
        /// changed again since.
        var cutAt: UInt64 = 0
    }

    private let newsBytesMax: Int
    /// The version of the newest change.
    private(set) var version: UInt64 = 0
    /// The number of the newest group.
    var lastNumber: UInt32
    private var numbers: [ShareGroupName: UInt32] = [:]
    private var entries: [UInt32: Entry] = [:]
    /// Changes by version, those that later ones have replaced among them.
    private var changes: [(version: UInt64, number: UInt32)] = []
    /// Groups without a member of which somebody may not know it yet, in the order of their versions.
    private var ended: [(version: UInt64, number: UInt32)] = []
    private var conversations: [NodeID: Conversation] = [:]
    private var lastConversation: UInt64 = 0

    /// - Parameters:
    ///   - lastNumber: the number behind which those of the groups begin.
    ///   - newsBytesMax: what is beyond so many bytes of news goes with the next message.
    init(lastNumber: UInt32 = 0, newsBytesMax: Int = Limits.groupNewsBytesMax) {
        (self.lastNumber, self.newsBytesMax) = (lastNumber, newsBytesMax)
    }

    /// A number that no group has: after 4,294,967,295 they begin again. 0 stands for none. O(1) but for runs of
    /// numbers that are taken.
    private mutating func nextNumber() -> UInt32 {
        repeat { lastNumber &+= 1 } while lastNumber == 0 || entries[lastNumber] != nil
        return lastNumber
    }

    /// Takes note of how many members of a group a shard of this node has.
    ///
    /// - Returns: whether the other nodes have something to hear.
    mutating func set(_ name: ShareGroupName, part: Int, _ size: GroupSize) -> Bool {
        let number: UInt32
        if let known = numbers[name] {
            number = known
        } else {
            guard !size.isEmpty else { return false }
            number = nextNumber()
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

    /// How many members the node has.
    func size(of name: ShareGroupName) -> GroupSize { numbers[name].flatMap { entries[$0]?.size } ?? GroupSize() }

    /// Up to which change a node knows all.
    func known(to node: NodeID) -> UInt64 { conversations[node]?.known ?? 0 }

    /// Whether a node knows all changes up to one, also of groups that have changed again.
    func knowsAll(_ node: NodeID, through version: UInt64) -> Bool {
        guard let conversation = conversations[node] else { return version == 0 }
        return conversation.known >= max(version, conversation.cutAt)
    }

    /// Whether a node does not know everything.
    func isBehind(_ node: NodeID) -> Bool { known(to: node) < version }

    /// Takes note of what a node says that it knows.
    mutating func heard(_ word: GroupWord, of node: NodeID) {
        guard let conversation = conversations[node] else { return }
        if word.conversation == conversation.number, word.through >= conversation.known {
            conversations[node]?.known = min(word.through, version)
        } else if conversation.known > 0 {
            conversations[node] = nil
        }
    }

    /// Only these are there. Forgets groups without a member of which all have heard.
    ///
    /// - Returns: their names.
    @discardableResult
    mutating func keep(_ peers: Set<NodeID>) -> [ShareGroupName] {
        conversations = conversations.filter { peers.contains($0.key) }
        let known = peers.reduce(version) { min($0, self.known(to: $1)) }
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

    /// Makes the message that tells a node what it does not know, as far as one message has room for it.
    mutating func nodeMessage(for node: NodeID) -> GroupUpdate {
        if conversations[node] == nil {
            lastConversation += 1
            conversations[node] = Conversation(number: lastConversation)
        }
        guard let conversation = conversations[node] else { return GroupUpdate() }
        let after = conversation.known
        var nodeMessage = GroupUpdate(conversation: conversation.number, after: after, through: version)
        guard after < version else { return nodeMessage }
        let first = changes.partitioningIndex { $0.version > after }
        var (byteCount, through) = (0, after)
        for (version, number) in changes[first...] {
            guard let entry = entries[number], entry.version == version else { continue }
            let one = GroupNews(number: number, name: entry.name, size: entry.size)
            byteCount += one.byteCountMax
            guard nodeMessage.news.isEmpty || byteCount <= newsBytesMax else {
                (nodeMessage.through, nodeMessage.isLast) = (through, false)
                conversations[node]?.cutAt = self.version
                return nodeMessage
            }
            nodeMessage.news.append(one)
            through = version
        }
        return nodeMessage
    }
}
