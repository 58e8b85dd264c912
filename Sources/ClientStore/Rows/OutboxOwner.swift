/// What a message of the outbox belongs to beside it, for as long as it waits or is on its way.
///
///     key: number in the outbox      body: kind 1 | collection's or inbox's name | conversation | number there 8
public enum OutboxOwner: Hashable, Sendable {
    /// It is a local write to the collection of a filter.
    case collection(String)
    /// It is one's own message in an inbox: where it stands there.
    case inbox(String, conversation: String, number: UInt64)

    /// A row of the table `owner`; nil if it is none.
    public init?(_ row: StoreRow) {
        var reader = RowReader(row.body)
        guard let kind = reader.number(UInt8.self), let name = reader.field(), let conversation = reader.field(),
            let number = reader.number(UInt64.self)
        else { return nil }
        switch kind {
        case 1: self = .collection(String(decoding: name, as: UTF8.self))
        case 2:
            self = .inbox(
                String(decoding: name, as: UTF8.self), conversation: String(decoding: conversation, as: UTF8.self), number: number)
        default: return nil
        }
    }

    /// Says that a message of the outbox belongs to it.
    public func put(_ number: UInt64) -> StoreChange {
        var writer = RowWriter()
        switch self {
        case .collection(let name):
            writer.write(1 as UInt8)
            writer.write(name.utf8)
            writer.write([])
            writer.write(0 as UInt64)
        case .inbox(let name, let conversation, let place):
            writer.write(2 as UInt8)
            writer.write(name.utf8)
            writer.write(conversation.utf8)
            writer.write(place)
        }
        return .put(.owner, StoreKey(number), writer.bytes)
    }

    /// The message is over.
    public static func remove(_ number: UInt64) -> StoreChange { .remove(.owner, StoreKey(number)) }

    /// All that belong to something, by their numbers in the outbox.
    public static func all(in storage: any ClientStorage) throws(StoreError) -> [(number: UInt64, owner: OutboxOwner)] {
        try storage.rows(StoreQuery(.owner)).rows.compactMap { row in
            guard let number = row.key.lastNumber, let owner = OutboxOwner(row) else { return nil }
            return (number, owner)
        }
    }

    /// The messages that wait or are on their way and belong to a collection, in the order of the outbox.
    public static func writes(to collection: String, in storage: any ClientStorage) throws(StoreError) -> [OutboxMessage] {
        var messages: [OutboxMessage] = []
        for (number, owner) in try all(in: storage) where owner == .collection(collection) {
            let row = try storage.rows(StoreQuery(.outbox, at: StoreKey(number))).rows.first
            if let message = row.flatMap({ OutboxMessage($0) }) { messages.append(message) }
        }
        return messages
    }
}
