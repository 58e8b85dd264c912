import MQTTCodec

/// QoS 1 and 2 messages to the server: those that wait, and those whose handshake is under way.
///
///     wait ──► waiting ──sendNext──► in flight ──PUBACK──────────────────────────► done
///                                     ▲  └──────PUBREC──► released ──PUBCOMP─────► done
///                          resendNext │                      │
///              another connection: unsent ◄── not released ──┘ PUBREL again
///
/// Invariant: of the messages that were sent on this connection, at most `window` are not done.
struct OutgoingFlow: Sendable {
    enum Step: Sendable {
        /// QoS 1: sent.
        case awaitingPuback
        /// QoS 2: sent.
        case awaitingPubrec
        /// QoS 2: the server has it, and PUBREL is sent; the message itself is not sent again. [MQTT-4.3.3-5 v5]
        case awaitingPubcomp
    }

    /// What a PUBREC was.
    enum Release {
        /// The message's first.
        case first(PublishTicket)
        /// One more.
        case again
        /// One for no message of QoS 2 in flight.
        case unknown
    }

    struct Flight: Sendable {
        let identifier: UInt16
        let ticket: PublishTicket
        let packet: PublishPacket
        var step: Step
        /// Whether the message was sent on this connection, which the server's Receive Maximum counts. [MQTT-4.9.0-2 v5]
        var isCounted = true
    }

    private struct Waiting: Sendable {
        let packet: PublishPacket
        let ticket: PublishTicket
        /// Whether an earlier session of the server's may have got it.
        var wasSent = false
    }

    /// How many messages may be sent on this connection before one of them is done.
    var window = 0
    private var waiting: [Waiting] = []
    private var firstWaiting = 0
    private var flights: [UInt16: Flight] = [:]
    private var countedFlights = 0
    /// What an earlier connection has sent and this one has not, the oldest last.
    private var unsent: [UInt16] = []

    var waitingCount: Int { waiting.count - firstWaiting }
    /// Waiting and in flight.
    var count: Int { waitingCount + flights.count }
    var maySend: Bool { countedFlights < window }
    /// How many more may be sent when all that wait are; negative when not even these.
    var room: Int { window - countedFlights - unsent.count - waitingCount }

    /// In the order in which they were published.
    private var flightsInOrder: [Flight] { flights.values.sorted { $0.ticket < $1.ticket } }

    mutating func wait(_ packet: PublishPacket, _ ticket: PublishTicket) {
        waiting.append(Waiting(packet: packet, ticket: ticket))
    }

    /// Takes back a message that waits and was never sent; returns whether it did.
    mutating func withdraw(_ ticket: PublishTicket) -> Bool {
        guard let index = waiting[firstWaiting...].firstIndex(where: { $0.ticket == ticket }), !waiting[index].wasSent else {
            return false
        }
        waiting.remove(at: index)
        return true
    }

    /// Puts the message that waits longest in flight. To be called only if one waits, and `maySend`.
    mutating func sendNext(_ identifier: UInt16) -> (PublishPacket, PublishTicket) {
        let ticket = waiting[firstWaiting].ticket
        var packet = waiting[firstWaiting].packet
        firstWaiting += 1
        if firstWaiting * 2 >= waiting.count {
            waiting.removeFirst(firstWaiting)
            firstWaiting = 0
        }
        packet.packetIdentifier = identifier
        flights[identifier] = Flight(
            identifier: identifier, ticket: ticket, packet: packet,
            step: packet.qos == .atLeastOnce ? .awaitingPuback : .awaitingPubrec)
        countedFlights += 1
        return (packet, ticket)
    }

    /// Takes back what was put in flight and not sent.
    mutating func giveUp(_ identifier: UInt16) { forget(identifier) }

    /// PUBREC: the server has the message.
    mutating func release(_ identifier: UInt16) -> Release {
        guard let flight = flights[identifier], flight.step != .awaitingPuback else { return .unknown }
        flights[identifier]?.step = .awaitingPubcomp
        return flight.step == .awaitingPubrec ? .first(flight.ticket) : .again
    }

    /// The handshake is over; nil when it was not at that step.
    mutating func complete(_ identifier: UInt16, at step: Step) -> PublishTicket? {
        guard let flight = flights[identifier], flight.step == step else { return nil }
        forget(identifier)
        return flight.ticket
    }

    /// Another connection begins, and the server knows the session. Returns what has to be released again, in order; what has to be sent again
    /// comes from `resendNext`.
    mutating func resume() -> [UInt16] {
        let inOrder = flightsInOrder
        for flight in inOrder { flights[flight.identifier]?.isCounted = false }
        countedFlights = 0
        unsent = inOrder.filter { $0.step != .awaitingPubcomp }.map(\.identifier).reversed()
        return inOrder.filter { $0.step == .awaitingPubcomp }.map(\.identifier)
    }

    /// The next message that has to be sent again, counted as sent; nil when there is none. To be called only if `maySend`.
    mutating func resendNext() -> PublishPacket? {
        while let identifier = unsent.popLast() {
            // The server may have acknowledged it unasked.
            guard let flight = flights[identifier], !flight.isCounted, flight.step != .awaitingPubcomp else { continue }
            flights[identifier]?.isCounted = true
            countedFlights += 1
            return flight.packet
        }
        return nil
    }

    /// The server has forgotten: what it did not have waits again, before all else. Returns what it did have, which is done.
    mutating func startOver() -> [PublishTicket] {
        let inOrder = flightsInOrder
        (flights, countedFlights, unsent) = ([:], 0, [])
        waiting.removeFirst(firstWaiting)
        firstWaiting = 0
        waiting.insert(
            contentsOf: inOrder.filter { $0.step != .awaitingPubcomp }.map {
                Waiting(packet: $0.packet, ticket: $0.ticket, wasSent: true)
            },
            at: 0)
        return inOrder.filter { $0.step == .awaitingPubcomp }.map(\.ticket)
    }

    private mutating func forget(_ identifier: UInt16) {
        if flights.removeValue(forKey: identifier)?.isCounted == true { countedFlights -= 1 }
    }
}
