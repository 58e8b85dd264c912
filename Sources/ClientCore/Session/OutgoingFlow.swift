import MQTTCodec

/// QoS 1 and 2 messages to the server: those that wait, and those whose handshake is under way.
///
///     wait ──► waiting ──sendNext──► in flight ──PUBACK──────────────────────────► done
///                                        └──────PUBREC──► released ──PUBCOMP─────► done
///
/// Invariant: at most `window` in flight, but for those that an earlier connection with a larger window left.
struct OutgoingFlow: Sendable {
    enum Step: Sendable {
        /// QoS 1: sent.
        case awaitingPuback
        /// QoS 2: sent.
        case awaitingPubrec
        /// QoS 2: the server has it, and PUBREL is sent; the message itself is not sent again. [MQTT-4.3.3-5 v5]
        case awaitingPubcomp
    }

    struct Flight: Sendable {
        let identifier: UInt16
        let ticket: PublishTicket
        let packet: PublishPacket
        var step: Step
    }

    var window = 0
    private var waiting: [(packet: PublishPacket, ticket: PublishTicket)] = []
    private var firstWaiting = 0
    private var flights: [UInt16: Flight] = [:]

    var waitingCount: Int { waiting.count - firstWaiting }
    /// Waiting and in flight.
    var count: Int { waitingCount + flights.count }
    var maySend: Bool { waitingCount > 0 && flights.count < window }

    /// In the order in which they were published.
    var flightsInOrder: [Flight] { flights.values.sorted { $0.ticket < $1.ticket } }

    mutating func wait(_ packet: PublishPacket, _ ticket: PublishTicket) {
        waiting.append((packet, ticket))
    }

    /// Puts the message that waits longest in flight. To be called only if `maySend`.
    mutating func sendNext(_ identifier: UInt16) -> (PublishPacket, PublishTicket) {
        var (packet, ticket) = waiting[firstWaiting]
        firstWaiting += 1
        if firstWaiting == waiting.count || firstWaiting > 256 {
            waiting.removeFirst(firstWaiting)
            firstWaiting = 0
        }
        packet.packetIdentifier = identifier
        flights[identifier] = Flight(
            identifier: identifier, ticket: ticket, packet: packet,
            step: packet.qos == .atLeastOnce ? .awaitingPuback : .awaitingPubrec)
        return (packet, ticket)
    }

    /// Takes back what was put in flight and not sent.
    mutating func giveUp(_ identifier: UInt16) {
        flights[identifier] = nil
    }

    /// PUBREC: the server has the message. Returns whether it is known.
    mutating func release(_ identifier: UInt16) -> Bool {
        guard let step = flights[identifier]?.step, step != .awaitingPuback else { return false }
        flights[identifier]?.step = .awaitingPubcomp
        return true
    }

    /// The handshake is over; nil when it was not at that step.
    mutating func complete(_ identifier: UInt16, at step: Step) -> PublishTicket? {
        guard let flight = flights[identifier], flight.step == step else { return nil }
        flights[identifier] = nil
        return flight.ticket
    }

    /// The server has forgotten: what it did not have waits again, before all else. Returns what it did have, which is done.
    mutating func startOver() -> [PublishTicket] {
        let inOrder = flightsInOrder
        flights = [:]
        waiting.removeFirst(firstWaiting)
        firstWaiting = 0
        waiting.insert(contentsOf: inOrder.filter { $0.step != .awaitingPubcomp }.map { ($0.packet, $0.ticket) }, at: 0)
        return inOrder.filter { $0.step == .awaitingPubcomp }.map(\.ticket)
    }
}
