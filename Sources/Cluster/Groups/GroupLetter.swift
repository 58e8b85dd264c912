/// What a node tells another one of its share groups at once.
///
///     version 1 │ whole 1 │ through │ (number │ connected │ away │ ShareName's length │ ShareName │ filter's length │ filter)*
///
/// Each letter has everything that the other node has not acknowledged, up to `through`: one that is overtaken by a letter with a higher number
/// says nothing that this does not say better. One that is whole has all groups of the node: of others it has no members.
struct GroupLetter: Equatable {
    /// Of the node's changes, the last one that is in it.
    var through: UInt64 = 0
    var news: [GroupNews] = []
    /// Whether all groups are in it.
    var isWhole = false
    /// Whether there was more than a letter takes.
    var isPartial = false

    init(through: UInt64 = 0, news: [GroupNews] = [], isWhole: Bool = false, isPartial: Bool = false) {
        (self.through, self.news, self.isWhole, self.isPartial) = (through, news, isWhole, isPartial)
    }

    /// Whether there is nothing to tell.
    var isEmpty: Bool { news.isEmpty && !isWhole }

    /// Without bytes if there is nothing to tell.
    var encoded: [UInt8] {
        guard !isEmpty else { return [] }
        var bytes = [Self.version, isWhole ? 1 : 0]
        VariableInteger.append(through, to: &bytes)
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

    /// nil for what is no such letter.
    init?(reading bytes: UnsafeRawBufferPointer) {
        self.init()
        guard !bytes.isEmpty else { return }
        var reader = EnvelopeReader(bytes)
        guard reader.byte() == Self.version, let isWhole = reader.byte(), isWhole <= 1, let through = reader.integer() else {
            return nil
        }
        (self.through, self.isWhole) = (through, isWhole == 1)
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
