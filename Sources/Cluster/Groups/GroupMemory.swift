/// What a node has been told of another one's share groups.
///
/// Messages may overtake each other when a node changes its server: what a message says is taken if it says more than
/// was known, and nothing lies between. In a new conversation everything is told from the beginning: a group that does
/// not come up in it is no more.
struct GroupMemory {
    /// Tells it from earlier ones of the same node, which were given up.
    let number: UInt64
    /// What was told.
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

    /// Takes a message.
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

    /// All parts of this node know so much.
    mutating func learned(_ receipt: GroupReceipt) {
        if receipt.memory == number { learned = receipt.word }
    }
}
