public import MQTTCodec

/// What a session's changes come to: from this a session goes on after a crash.
///
/// Invariant: the messages stand in the order of their tickets.
public struct StoredClientSession: Hashable, Sendable {
    /// A message of QoS 1 or 2 that was sent and has not ended.
    public struct Outgoing: Hashable, Sendable {
        public var ticket: PublishTicket
        /// Nil when the server had forgotten the session, and it was not sent again since.
        public var packetIdentifier: UInt16?
        /// Nil when the server has it (PUBREC), so that it is not to be sent again.
        public var publication: Publication?

        public init(ticket: PublishTicket, packetIdentifier: UInt16?, publication: Publication?) {
            (self.ticket, self.packetIdentifier, self.publication) = (ticket, packetIdentifier, publication)
        }
    }

    public var outgoing: [Outgoing]
    /// The packet identifiers of QoS 2 messages that were taken over and that the server has not released.
    public var received: [UInt16]
    /// The highest ticket that was sent; 0 for none.
    public var lastTicket: PublishTicket

    /// A session in which nothing has happened.
    public init() { (outgoing, received, lastTicket) = ([], [], PublishTicket(number: 0)) }

    /// - Parameters:
    ///   - outgoing: in any order.
    ///   - received: identifiers of QoS 2 messages that were received and not released.
    ///   - lastTicket: the greatest that was given out.
    public init(outgoing: [Outgoing], received: [UInt16], lastTicket: PublishTicket) {
        self.outgoing = outgoing.sorted { $0.ticket < $1.ticket }
        (self.received, self.lastTicket) = (received, max(lastTicket, self.outgoing.last?.ticket ?? lastTicket))
    }

    /// Takes the next change over.
    public mutating func apply(_ change: SessionChange) {
        switch change {
        case .sent(let ticket, let identifier, let publication):
            let entry = Outgoing(ticket: ticket, packetIdentifier: identifier, publication: publication)
            if let index = index(of: ticket) { outgoing[index] = entry } else { outgoing.append(entry) }
            lastTicket = max(lastTicket, ticket)
        case .released(let ticket):
            if let index = index(of: ticket) { outgoing[index].publication = nil }
        case .done(let ticket, _):
            if let index = index(of: ticket) { outgoing.remove(at: index) }
        case .received(let identifier):
            received.append(identifier)
        case .forgotten(let identifier):
            received.removeAll { $0 == identifier }
        case .startedOver:
            outgoing.removeAll { $0.publication == nil }
            for index in outgoing.indices { outgoing[index].packetIdentifier = nil }
            received = []
        }
    }

    private func index(of ticket: PublishTicket) -> Int? { outgoing.firstIndex { $0.ticket == ticket } }
}

/// What changed in a session that a client needs to know after a crash.
///
/// The shell stores the changes, in this order, before the output that was made up to then leaves: then whatever the
/// server has seen is known after a crash as well. They name messages by their tickets.
public enum SessionChange: Hashable, Sendable {
    /// A message of QoS 1 or 2 has a packet identifier, and is sent. A ticket comes again when the server had forgotten
    /// the session.
    case sent(PublishTicket, packetIdentifier: UInt16, Publication)
    /// The server has a message of QoS 2 (PUBREC): it is not sent again, only released (PUBREL).
    case released(PublishTicket)
    /// A message has ended, as the `published` event says.
    case done(PublishTicket, ReasonCode)
    /// A message of QoS 2 of the server's is taken over; what its owner keeps of it is to be stored together with this.
    case received(packetIdentifier: UInt16)
    /// The server has released it (PUBREL): under that identifier a new message may come.
    case forgotten(packetIdentifier: UInt16)
    /// The server has forgotten the session: what it did not have waits to be sent as new.
    case startedOver
}
