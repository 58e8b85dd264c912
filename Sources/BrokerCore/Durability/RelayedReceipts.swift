import BrokerModel

/// What a shard remembers of QoS 2 messages whose receivers live on several shards, so that each shard takes its part
/// once, whatever crashes in between. [MQTT-4.3.3-10 v5]
///
/// A message is named by its receipt: the session that sent it and its packet identifier. It is remembered until its
/// sender has released it, or that session has ended.
///
///     taken: parts of messages that were done here, each with its row, if it has one
///     choices: what share groups have chosen for messages of this shard's own clients
///     restored: messages of this shard's own clients that the store has brought back
///     uncertain: messages received before a crash, of which other shards may have lost their part, each with its digest if that is known
struct RelayedReceipts {
    private struct Taken {
        /// The number of its row, 0 for none.
        var row: UInt64
        /// Of the message; nil if that is not known.
        var digest: UInt64?
    }

    private var taken: [RelayedReceipt: Taken] = [:]
    private var choices: [UInt64: [GroupChoice]] = [:]
    private var uncertain: [UInt64: UInt64?] = [:]
    private var restored: Set<UInt64> = []
    /// Whether the number of shards has changed with the crash, so that nobody can tell which of them has lost its
    /// part.
    private(set) var hasMoved = false

    /// Whether no part and no choice is remembered.
    var isEmpty: Bool { taken.isEmpty && choices.isEmpty }

    // MARK: Parts

    var hasTaken: Bool { !taken.isEmpty }

    /// Whether a part was done here, of the message with this digest, or of one whose digest is not known.
    func hasTaken(_ part: RelayedReceipt, digest: UInt64) -> Bool {
        guard let known = taken[part] else { return false }
        return known.digest == nil || known.digest == digest
    }

    /// Whether a part has a row.
    func isStored(_ part: RelayedReceipt) -> Bool { row(of: part) != 0 }

    /// The number of a part's row, 0 for none.
    func row(of part: RelayedReceipt) -> UInt64 { taken[part]?.row ?? 0 }

    /// A part was done here.
    ///
    /// - Parameters:
    ///   - row: the number of its row, 0 for the one that it has, if any.
    ///   - digest: tells the message from others with its packet identifier, nil if that is not known.
    mutating func take(_ part: RelayedReceipt, row: UInt64 = 0, digest: UInt64?) {
        taken[part] = Taken(row: row != 0 ? row : self.row(of: part), digest: digest)
    }

    /// The sender has released a message: forgets all its parts.
    ///
    /// - Parameter groups: the share groups that had a part.
    /// - Returns: the numbers of their rows.
    mutating func release(_ receipt: UInt64, _ groups: [UInt64]) -> [UInt64] {
        let isUncertain = isUncertain(receipt)
        markCertain(receipt)
        guard !taken.isEmpty else { return [] }
        var parts =
            [RelayedReceipt(receipt, .routed), RelayedReceipt(receipt, .retained)]
            + groups.map { RelayedReceipt(receipt, .routed, group: $0) }
        // A crash may have come between the release at the sender's shard, which knew the groups, and the one here.
        if isUncertain { parts = taken.keys.filter { $0.receipt == receipt } }
        let rows = parts.compactMap { taken.removeValue(forKey: $0)?.row }.filter { $0 != 0 }
        return isUncertain ? rows.sorted() : rows
    }

    // MARK: Choices

    /// Share groups have chosen for a message.
    mutating func choose(_ chosen: [GroupChoice], for receipt: UInt64) { choices[receipt] = chosen }

    /// What share groups have chosen for a message that is not released; nil if they had no part in it.
    func choices(for receipt: UInt64) -> [GroupChoice]? { choices[receipt] }

    /// A message's choices, which are forgotten: its sender has released it.
    mutating func takeChoices(for receipt: UInt64) -> [GroupChoice] { choices.removeValue(forKey: receipt) ?? [] }

    // MARK: After a crash

    var hasUncertain: Bool { !uncertain.isEmpty }

    func isUncertain(_ receipt: UInt64) -> Bool { uncertain[receipt] != nil }

    /// A message was received before a crash; `digest` tells it from others with its packet identifier, nil if that is
    /// not known.
    mutating func markUncertain(_ receipt: UInt64, digest: UInt64?, hasMoved: Bool = false) {
        uncertain[receipt] = .some(digest)
        if hasMoved { self.hasMoved = true }
    }

    /// The store has brought a message's receipt back: nobody knows whether a cluster has the message.
    mutating func markRestored(_ receipt: UInt64) { restored.insert(receipt) }

    /// Whether it has, of a message that comes again; not so from now on.
    mutating func takeRestored(_ receipt: UInt64) -> Bool { !restored.isEmpty && restored.remove(receipt) != nil }

    /// A message's parts are where they belong, or it is released.
    mutating func markCertain(_ receipt: UInt64) {
        if !restored.isEmpty { restored.remove(receipt) }
        if !uncertain.isEmpty { uncertain[receipt] = nil }
    }

    /// Whether a message that comes again is to be sent to the other shards again: it is uncertain, and the same. It is
    /// certain from now on.
    mutating func takesAgain(_ receipt: UInt64, digest: @autoclosure () -> UInt64) -> Bool {
        guard receipt != 0, let first = uncertain[receipt], first == nil || first == digest() else { return false }
        uncertain[receipt] = nil
        return true
    }

    func checkInvariants() {
        precondition(taken.keys.allSatisfy { $0.receipt != 0 } && choices[0] == nil && uncertain[0] == nil, "0 names no message")
        precondition(choices.values.allSatisfy { !$0.isEmpty }, "a message without choices is not listed")
        let rows = taken.values.map(\.row).filter { $0 != 0 }
        precondition(Set(rows).count == rows.count, "each part has a row of its own")
    }
}
