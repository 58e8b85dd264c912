import BrokerModel

/// What share groups had been dealt on nodes that are gone, and for which they have no member left: it waits a while for one who comes, with a session
/// that was taken up or a new one.
struct UnclaimedParts {
    struct Part {
        let message: Message
        /// For which it was.
        let node: UInt64
        let name: MessageName
        let hops: UInt8
        let heldAt: UInt64
    }

    /// By the groups' names for all nodes, each in its order.
    private var parts: [UInt64: [Part]] = [:]
    private var byteCount = 0
    /// Whether a group that something waits for has come.
    private(set) var isDue = false
    /// The groups that have another member since what waits for them was dealt last.
    private var news: Set<UInt64> = []
    private var lookedAt: UInt64 = 0

    var isEmpty: Bool { parts.isEmpty }

    /// In a fixed order.
    var groups: [UInt64] { parts.keys.sorted() }

    func first(of group: UInt64) -> Part? { parts[group]?.first }

    /// Keeps one; false if there is no room.
    mutating func hold(_ part: Part, of group: UInt64) -> Bool {
        guard byteCount + Self.cost(part) <= Limits.unclaimedBytesMax else { return false }
        byteCount += Self.cost(part)
        parts[group, default: []].append(part)
        return true
    }

    /// A group has another member.
    mutating func note(_ group: UInt64) {
        guard parts[group] != nil else { return }
        isDue = true
        news.insert(group)
    }

    /// Whether what waits for a group may go from node to node once more, however often it has.
    func hasNews(of group: UInt64) -> Bool { news.contains(group) }

    /// Whether a group that something waits for has come since it was asked last, or a second is over.
    mutating func look(now: UInt64) -> Bool {
        guard !isEmpty, isDue || now >= lookedAt + Limits.unclaimedLookMilliseconds else { return false }
        (isDue, lookedAt) = (false, now)
        return true
    }

    mutating func take(of group: UInt64) -> [Part] {
        let taken = parts.removeValue(forKey: group) ?? []
        news.remove(group)
        byteCount -= taken.reduce(0) { $0 + Self.cost($1) }
        return taken
    }

    /// A node is there again, and deals its part itself.
    mutating func forget(_ node: UInt64) { _ = take { $0.node == node } }

    /// Takes what has waited too long. O(groups) if nothing has.
    mutating func takeOld(now: UInt64) -> [Part] {
        let limit = now > Limits.unclaimedMilliseconds ? now - Limits.unclaimedMilliseconds : 0
        guard parts.values.contains(where: { $0[0].heldAt < limit }) else { return [] }
        return take { $0.heldAt < limit }
    }

    private mutating func take(where isTaken: (Part) -> Bool) -> [Part] {
        var taken: [Part] = []
        for group in groups {
            let (hasNews, all) = (hasNews(of: group), take(of: group))
            taken += all.filter(isTaken)
            for part in all where !isTaken(part) { _ = hold(part, of: group) }
            if hasNews { note(group) }
        }
        return taken
    }

    /// Of the rest of it 100 bytes.
    private static func cost(_ part: Part) -> Int { part.message.byteCount + 100 }
}
