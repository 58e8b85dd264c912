public import ClientCore

/// One's own messages, which stand in their conversations beside what has come, and are not unread.
extension InboxBook {
    /// One's own message that has its place and is to be stored.
    public struct Own: Sendable {
        public let message: InboxMessage
        /// The inbox's count of arrivals when it was sent, and that of the message that stood for the conversation before.
        let recency: UInt64
        let before: UInt64
    }

    /// Whether an inbox has any of one's own: a row, or none.
    public static func anyOwn(_ inbox: String) -> StoreQuery { StoreQuery(.own, under: StoreKey(inbox), limit: 1) }

    /// Gives a message of one's own its place. What is to be written says `changes(for:)`, when the changes of before are handed over.
    ///
    /// - `now`: milliseconds since 1970.
    public mutating func sent(_ publication: Publication, in conversation: String, now: UInt64) -> Own {
        let conversation = Self.key(conversation)
        var row = conversations[conversation] ?? ConversationRow()
        let before = row.recency
        if storedRecency[conversation] == nil { storedRecency[conversation] = before }
        row.last += 1
        row.recency = nextArrival()
        row.shown = row.last
        row.pass(row.last...row.last)
        set(row, conversation)
        let message = InboxMessage(conversation, row.last, arrivedAt: now, publication)
        count += 1
        byteCount += size(of: message)
        return Own(message: message, recency: row.recency, before: before)
    }

    /// What is to be written for a message of one's own.
    ///
    /// - Parameters:
    ///   - own: the message, as it was appended.
    ///   - outbox: its number in the outbox.
    ///   - byteCount: its bytes there.
    public mutating func changes(for own: Own, outbox: UInt64, byteCount: Int) -> [StoreChange] {
        let (message, conversation) = (own.message, own.message.conversation)
        let row = conversations[conversation] ?? ConversationRow()
        var changes: [StoreChange] = [
            .put(.inbox, prefix.text(conversation).number(message.number), message.body),
            Self.kept(prefix, message, size(of: message)),
            OwnMessageRow(.open(outbox, byteCount: byteCount)).put(name, conversation, message.number),
            put(row, conversation),
        ]
        // What has come since stands for the conversation.
        if row.recency == own.recency {
            if let stored = storedRecency[conversation], stored > 0 { changes.append(.remove(.recent, prefix.number(stored))) }
            changes.append(.put(.recent, prefix.number(own.recency), RecentRow.body(message)))
            storedRecency[conversation] = nil
        }
        return changes
    }

    /// A message of one's own could not be stored. Those that were sent last are to be told first.
    public mutating func notSent(_ own: Own) -> [StoreChange] {
        let conversation = own.message.conversation
        count -= 1
        byteCount -= size(of: own.message)
        guard var row = conversations[conversation] else { return [] }
        guard row.recency == own.recency else { return own.before > 0 ? [.remove(.recent, prefix.number(own.before))] : [] }
        storedRecency[conversation] = nil
        row.recency = own.before
        row.shown = 0
        set(row, conversation)
        unshown.insert(conversation)
        return [put(row, conversation)]
    }

    /// A message of one's own is about to leave: what comes back of it is known. To be stored before it leaves.
    ///
    /// - Parameters:
    ///   - number: its number in the outbox.
    ///   - publication: the message.
    ///   - isUnnamed: whether it comes back without its identifier, as before MQTT 5.0.
    ///   - now: milliseconds since 1970.
    public mutating func leaves(_ number: UInt64, _ publication: Publication, isUnnamed: Bool, now: UInt64) -> [StoreChange] {
        let mark = Repeats.Mark(publication)
        return isUnnamed ? echoes.sent(number, contents: mark.contents, now: now) : remember(mark)
    }

    /// The outbox is done with a message of one's own.
    public mutating func settled(_ number: UInt64, isTaken: Bool) -> [StoreChange] {
        echoes.isEmpty ? [] : echoes.settled(number, isTaken: isTaken)
    }

    private func size(of message: InboxMessage) -> Int {
        prefix.text(message.conversation).number(message.number).bytes.count + message.body.count
    }
}
