import BrokerModel

/// What few entries of an outbox need. Belongs to its entry.
final class EntryDetail {
    /// The Subscription Identifiers to send with the message.
    let identifiers: SubscriptionIdentifiers?
    /// The serial number of the share group that chose the session; 0 for none.
    let group: UInt32
    /// The row that holds the message while memory does not; nil if the entry's own row does.
    var payload: StoredPayload?
    /// Of what was dealt out of a cluster's log to a client that is connected.
    var mark: DealtMark?
    /// Of a message that came out of a cluster's log for this session, of QoS 2 or dealt by a share group.
    let name: MessageName

    init(
        identifiers: SubscriptionIdentifiers?, group: UInt32, payload: StoredPayload? = nil, mark: DealtMark? = nil,
        name: MessageName = .none
    ) {
        (self.mark, self.name) = (mark, name)
        self.identifiers = identifiers
        self.group = group
        self.payload = payload
    }
}
