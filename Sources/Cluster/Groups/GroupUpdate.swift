import Bytes
/// What a node tells another one of its share groups at once, and what it knows of those of the other.
///
///     version 1 │ flags │ conversation │ after │ through │ known conversation │ known through
///       │ (number │ connected │ away │ ShareName's length │ ShareName │ filter's length │ filter)*
///
/// Flags: 1 nothing is behind it, 2 its sender reads the log. A message has all changes behind `after` up to `through`,
/// of each group the newest of them.
struct GroupUpdate: Equatable {
    /// Rises whenever the node begins to tell everything anew.
    var conversation: UInt64 = 0
    var after: UInt64 = 0
    var through: UInt64 = 0
    /// Whether there is nothing behind it.
    var isLast = true
    /// Whether its sender reads the log.
    var readsLog = false
    /// What its sender knows of the groups of its receiver.
    var known = GroupWord()
    var news: [GroupNews] = []

    init(conversation: UInt64 = 0, after: UInt64 = 0, through: UInt64 = 0) {
        (self.conversation, self.after, self.through) = (conversation, after, through)
    }

    var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.version, (isLast ? 1 : 0) | (readsLog ? 2 : 0)]
        for number in [conversation, after, through, known.conversation, known.through] {
            VariableInteger.append(number, to: &bytes)
        }
        for one in news {
            for number in [Int(one.number), one.size.connected, one.size.away] {
                VariableInteger.append(UInt64(number), to: &bytes)
            }
            for text in [one.name.shareName, one.name.filter] { VariableInteger.append(counted: text, to: &bytes) }
        }
        return bytes
    }

    /// Reads a message; nil for bytes that are none.
    init?(reading bytes: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.version, let flags = reader.byte(), flags <= 3, let conversation = reader.integer(),
            let after = reader.integer(), let through = reader.integer(), let knownConversation = reader.integer(),
            let knownThrough = reader.integer()
        else { return nil }
        self.init(conversation: conversation, after: after, through: through)
        (isLast, readsLog) = (flags & 1 != 0, flags & 2 != 0)
        known = GroupWord(conversation: knownConversation, through: knownThrough)
        while !reader.isAtEnd {
            guard let number = reader.integer().flatMap({ UInt32(exactly: $0) }),
                let connected = reader.integer().flatMap({ Int(exactly: $0) }),
                let away = reader.integer().flatMap({ Int(exactly: $0) }), connected <= Int32.max, away <= Int32.max,
                let shareName = reader.counted(), let filter = reader.counted()
            else { return nil }
            news.append(
                GroupNews(
                    number: number, name: ShareGroupName(shareName: Array(shareName), filter: Array(filter)),
                    size: GroupSize(connected: connected, away: away)))
        }
    }

    private static let version: UInt8 = 1
}

/// How many members of a share group a node has, or a part of it.
public struct GroupSize: Equatable, Sendable {
    /// How many of them have clients that are connected.
    public var connected: Int
    /// How many of them have sessions that last while their clients are away.
    public var away: Int

    public init(connected: Int = 0, away: Int = 0) { (self.connected, self.away) = (connected, away) }

    var isEmpty: Bool { connected == 0 && away == 0 }

    static func + (left: Self, right: Self) -> Self {
        Self(connected: left.connected + right.connected, away: left.away + right.away)
    }
}

/// What a node tells of its members of one share group; the same again changes nothing.
public struct GroupNews: Equatable, Sendable {
    /// By which other nodes name the group to this one.
    public var number: UInt32
    public var name: ShareGroupName
    public var size: GroupSize
    /// Whether the node reads the log, so that it can be given what stands there.
    public var readsLog = false

    /// An upper bound of its bytes in a message.
    var byteCountMax: Int { 25 + name.shareName.count + name.filter.count }
}

/// Names a share group on all nodes: the ShareName, and the filter behind it.
public struct ShareGroupName: Hashable, Sendable {
    public let shareName: [UInt8]
    /// Without `$share/NAME/`.
    public let filter: [UInt8]

    public init(shareName: [UInt8], filter: [UInt8]) { (self.shareName, self.filter) = (shareName, filter) }
}

/// What a node has been told of another one's share groups.
///
/// Messages may overtake each other when a node changes its server: what a message says is taken if it says more than
/// was known, and nothing lies between. In a new conversation everything is told from the beginning: a group that does
/// not come up in it is no more.
struct GroupMemory {
    /// Tells it from earlier ones of the same node, which were given up.
    let number: UInt64
    /// Up to which change the other node has told.
    private(set) var told = GroupWord()
    /// What all parts of this node know of that.
    private(set) var learned = GroupWord()
    /// The groups that have members there, by name; those that have not come up in this conversation as yet are old.
    private var groups: [ShareGroupName: (number: UInt32, size: GroupSize, isOld: Bool)] = [:]
    private var names: [UInt32: ShareGroupName] = [:]
    /// Whether some may be old.
    private var hasOld = false

    init(number: UInt64) { self.number = number }

    var hasGroups: Bool { !groups.isEmpty }

    /// The group that has this number there, if it has members.
    func name(of number: UInt32) -> ShareGroupName? { names[number] }
    func number(of name: ShareGroupName) -> UInt32? { groups[name]?.number }
    func size(of name: ShareGroupName) -> GroupSize? { groups[name]?.size }

    private mutating func set(_ one: GroupNews) {
        if let before = groups[one.name] { names[before.number] = nil }
        groups[one.name] = one.size.isEmpty ? nil : (one.number, one.size, false)
        if !one.size.isEmpty { names[one.number] = one.name }
    }

    /// Takes up a node's message about its share groups.
    ///
    /// - Returns: what is new.
    mutating func take(_ nodeMessage: GroupUpdate) -> [GroupNews] {
        if nodeMessage.conversation > told.conversation, nodeMessage.after == 0 {
            told = GroupWord(conversation: nodeMessage.conversation)
            for name in groups.keys { groups[name]?.isOld = true }
            hasOld = !groups.isEmpty
        } else {
            guard nodeMessage.conversation == told.conversation, nodeMessage.after <= told.through,
                nodeMessage.through > told.through
            else {
                return []
            }
        }
        told.through = nodeMessage.through
        var news = nodeMessage.news
        for one in news { set(one) }
        if nodeMessage.isLast, hasOld {
            hasOld = false
            let gone = groups.filter(\.value.isOld).sorted { $0.value.number < $1.value.number }
            for (name, group) in gone {
                let end = GroupNews(number: group.number, name: name, size: GroupSize())
                set(end)
                news.append(end)
            }
        }
        return news
    }

    /// Takes note that all shards of this node know as much as the receipt says.
    mutating func learned(_ receipt: GroupReceipt) {
        if receipt.memory == number { learned = receipt.word }
    }
}

/// Goes with what a node has told of its share groups, and comes back when all parts of the node that was told know it.
public struct GroupReceipt: Equatable, Sendable {
    public let node: NodeID
    /// Which of the memories of that node it belongs to.
    let memory: UInt64
    let word: GroupWord
    /// Where to answer then; empty for nowhere.
    let reply: [UInt8]
}

/// What a node says that it knows of another one's share groups: all changes up to one, as it was told them in a
/// conversation.
struct GroupWord: Equatable {
    var conversation: UInt64 = 0
    var through: UInt64 = 0
}

/// The share groups of the other nodes, as these have told of them.
struct GroupMemories {
    private var memories: [NodeID: GroupMemory] = [:]
    private var lastNumber: UInt64 = 0

    subscript(node: NodeID) -> GroupMemory? {
        get { memories[node] }
        set { memories[node] = newValue }
    }

    /// Takes note that all shards of this node know what a message told.
    mutating func learned(_ receipt: GroupReceipt) { memories[receipt.node]?.learned(receipt) }

    /// Takes out what is known of a node; that is a new memory if nothing is.
    mutating func take(_ node: NodeID) -> GroupMemory {
        if let memory = memories.removeValue(forKey: node) { return memory }
        lastNumber += 1
        return GroupMemory(number: lastNumber)
    }

    /// Forgets all nodes but these.
    ///
    /// - Returns: those of them that had share groups, in order.
    mutating func forget(except peers: Set<NodeID>) -> [NodeID] {
        let gone = memories.keys.filter { !peers.contains($0) }.sorted()
        return gone.filter { memories.removeValue(forKey: $0)?.hasGroups ?? false }
    }
}
