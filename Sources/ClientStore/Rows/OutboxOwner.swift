internal import Bytes

/// What a message of the outbox belongs to beside it, for as long as it waits or is on its way.
///
///     key: number in the outbox      body: fields
public enum OutboxOwner: Hashable, Sendable {
    /// It is a local write to the collection of a filter.
    case collection(String)
    /// It is one's own message in an inbox: where it stands there.
    case inbox(String, conversation: String, number: UInt64)

    /// A row of the table `owner`; nil if it is none.
    public init?(_ row: StoreRow) {
        guard let fields = row.body.withUnsafeBytes({ Fields(fields: $0) }) else { return nil }
        switch (fields.collection, fields.inbox) {
        case (let name?, nil): self = .collection(name)
        case (nil, let name?): self = .inbox(name, conversation: fields.conversation, number: fields.number)
        default: return nil
        }
    }

    /// Says that a message of the outbox belongs to it.
    public func put(_ number: UInt64) -> StoreChange {
        var fields = Fields()
        switch self {
        case .collection(let name): fields.collection = name
        case .inbox(let name, let conversation, let place):
            (fields.inbox, fields.conversation, fields.number) = (name, conversation, place)
        }
        return .put(.owner, StoreKey(number), fields.encodedFields)
    }

    /// What a row says: the filter of a collection, or a place in an inbox.
    private struct Fields: FieldCoded {
        var collection: String?
        var inbox: String?
        var conversation = ""
        var number: UInt64 = 0

        static let blank = Fields()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &collection)
            coder.field(2, &inbox)
            coder.field(3, &conversation, mostly: "")
            coder.field(4, &number, mostly: 0)
        }
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
