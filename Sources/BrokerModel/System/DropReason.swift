/// Why a message did not get where it was going.
public enum DropReason: UInt8, CaseIterable, Sendable {
    // On its way to a client.
    /// As many messages or bytes wait for its receiver as may. `max_queued_messages`, `max_queued_bytes`
    case queueFull
    /// The message's receiver does not read what it is sent. `martlet_output_bytes_max`
    case outputFull
    /// The message is larger than its receiver's Maximum Packet Size, or than any packet can be.
    case tooLargeForClient
    /// Its Message Expiry Interval ended while it waited.
    case expired
    /// The store cannot give it back.
    case unreadable

    // On its way from a client, or to one.
    /// Its publisher may not write to its topic; or its receiver may not read it any more, but might when it was queued.
    case notAuthorised

    // On its way from a client.
    /// `message_size_limit`
    case payloadTooLarge
    /// The broker has no room: `memory_limit`, a disk that is full, or a receiver's queue with `martlet_queue_drop refuse`; or a cluster's log has
    /// none for what goes on to another node.
    case noRoom
    /// Its topic is too long or has too many levels, which ends the connection, or its payload is not what it says. `martlet_max_topic_length`,
    /// `martlet_max_topic_levels`, `martlet_validate_payload_format`. Or the nodes of a cluster have passed it on to each other's share groups as often as
    /// may be.
    case refused

    /// How the log calls it.
    public var words: String {
        switch self {
        case .queueFull: "queue full"
        case .outputFull: "output full"
        case .tooLargeForClient: "too large for the client"
        case .expired: "expired"
        case .unreadable: "unreadable"
        case .notAuthorised: "not authorised"
        case .payloadTooLarge: "payload too large"
        case .noRoom: "no room"
        case .refused: "refused"
        }
    }

    /// The last level of its topic below `$SYS`.
    public var level: String { String(words.map { $0 == " " ? "_" : $0 }) }
}
