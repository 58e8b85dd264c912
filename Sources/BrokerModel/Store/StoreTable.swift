/// The tables of the store. Each holds rows of a 64-bit key, unique in its table, and a body whose meaning only the core knows.
public enum StoreTable: UInt8, CaseIterable, Sendable {
    /// What is the whole broker's: a `StoredRun`, how it ran last, with the key 1; `StoredLogPlaces` with the keys from 2 on; a
    /// `StoredMembership` with the key 128; `StoredDealing` with those from 129 on; and each `StoredBan` by a number of its own.
    case run = 0
    /// A `StoredSession` by its session key.
    case session
    /// A `StoredSubscription` by a number of its own.
    case subscription
    /// A QoS 2 message received and not yet released; see `StoredReceipt`.
    case received
    /// A `StoredMessage` that several entries share, by a number of its own.
    case message
    /// A `StoredEntry`, one message on its way to one session, by a number that grows along each session's queue.
    case entry
    /// A `StoredFlow`: how far an entry has come, by the entry's number.
    case flow
    /// A `StoredMessage` that is retained, by a number of its own.
    case retained
    /// A QoS 2 message that another shard's client sent and that was taken here too, by a number of its own; see `RelayedReceipt`.
    case relayed

    /// Sessions come before what belongs to them, messages before the entries that share them, and before an entry how far it has come and whether
    /// another shard has it.
    public static let inOrderOfRecovery: [StoreTable] = [
        .run, .session, .subscription, .received, .message, .flow, .relayed, .entry, .retained,
    ]

    /// What the operator reads.
    public var name: String { "\(self)" }
}
