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
            for text in [one.name.shareName, one.name.filter] {
                VariableInteger.append(UInt64(text.count), to: &bytes)
                bytes += text
            }
        }
        return bytes
    }

    /// nil for what is no such message.
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
