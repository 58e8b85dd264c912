import MQTTCodec

/// What the client has asked of the server and the server has not answered: QoS 1 and 2 messages, those that wait and
/// those whose handshake is under way, and SUBSCRIBE and UNSUBSCRIBE, which share the packet identifiers with them.
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
        case awaitingSuback
        case awaitingUnsuback

        /// Whether it is a request, which ends with its connection.
        var isRequest: Bool { self == .awaitingSuback || self == .awaitingUnsuback }
    }

    struct Flight: Identified {
        let packetIdentifier: UInt16
        var step: Step
        /// Whether the message was sent on this connection, which the server's Receive Maximum counts.
        /// [MQTT-4.9.0-2 v5]
        var isCounted = true
        /// What PUBREC has said.
        var reason = ReasonCode.success
        /// Of a request: how many reason codes its answer has.
        var filterCount: UInt16 = 0
        /// 0 for a request.
        let ticket: PublishTicket
        /// Nil when it is not to be sent again.
        var publication: Publication?
        /// When it is too old, in milliseconds; `UInt64.max` for never.
        var expiresAt = UInt64.max
    }

    /// What an answer was.
    enum Answer {
        /// The one that was due; with the reason of the answer that tells whether the server has the message.
        case expected(PublishTicket, ReasonCode)
        /// PUBREC once more.
        case again
        /// None is due under that identifier.
        case unknown
        /// Another is due under that identifier.
        case wrong
    }

    /// How many messages may be sent on this connection before one of them is done.
    var window = 0
    var waiting = WaitingMessages()
    private var flights = IdentifierTable<Flight>()
    private var countedFlights = 0
    private var requestCount = 0
    /// What an earlier connection has sent and this one has not, the oldest last.
    private var unsent: [UInt16] = []

    /// Waiting and in flight.
    var count: Int { waiting.count + flights.count - requestCount }
    /// Whether a message is in flight.
    var hasFlights: Bool { flights.count > requestCount }
    /// Whether SUBACK or UNSUBACK is due.
    var hasRequests: Bool { requestCount > 0 }
    var maySend: Bool { countedFlights < window }
    /// How many more may be sent when all that wait are; negative when not even these.
    var room: Int { min(window, Int(UInt16.max)) - countedFlights - unsent.count - waiting.count }
    /// Whether a packet identifier is free.
    var mayBegin: Bool { flights.count < Int(UInt16.max) }
    /// Whether a message would be sent before the next one that is published.
    var hasEarlier: Bool { waiting.count > 0 || !unsent.isEmpty }

    /// In the order in which they were published.
    private var messagesInOrder: [Flight] { flights.entries.filter { !$0.step.isRequest }.sorted { $0.ticket < $1.ticket } }

    /// Puts a message in flight and returns its identifier; nil when all are in use. To be called only if `maySend`.
    @inline(__always)
    mutating func begin(_ publication: Publication, _ ticket: PublishTicket, expiresAt: UInt64) -> UInt16? {
        guard let identifier = flights.takeIdentifier() else { return nil }
        flights.insert(
            Flight(
                packetIdentifier: identifier, step: publication.qos == .exactlyOnce ? .awaitingPubrec : .awaitingPuback,
                ticket: ticket, publication: publication, expiresAt: expiresAt))
        countedFlights += 1
        return identifier
    }

    /// Begins a SUBSCRIBE or UNSUBSCRIBE; nil when all identifiers are in use.
    mutating func beginRequest(_ step: Step, filterCount: Int) -> UInt16? {
        guard let identifier = flights.takeIdentifier() else { return nil }
        flights.insert(
            Flight(
                packetIdentifier: identifier, step: step, isCounted: false, filterCount: UInt16(truncatingIfNeeded: filterCount),
                ticket: PublishTicket(number: 0), publication: nil))
        requestCount += 1
        return identifier
    }

    /// SUBACK or UNSUBACK: returns whether it was due, with so many reason codes; nil for any number.
    mutating func completeRequest(_ identifier: UInt16, at step: Step, filterCount: Int?) -> Bool {
        guard let flight = flights[identifier], flight.step == step, filterCount ?? Int(flight.filterCount) == flight.filterCount
        else { return false }
        flights.remove(identifier)
        requestCount -= 1
        return true
    }

    /// PUBREC: the server has the message.
    mutating func release(_ identifier: UInt16, _ reason: ReasonCode) -> Answer {
        let answer = flights.change(identifier) { flight -> Answer in
            switch flight.step {
            case .awaitingPubrec:
                flight.step = .awaitingPubcomp
                flight.publication = nil
                flight.reason = reason
                return .expected(flight.ticket, reason)
            case .awaitingPubcomp: return .again
            case .awaitingPuback, .awaitingSuback, .awaitingUnsuback: return .wrong
            }
        }
        return answer ?? .unknown
    }

    /// The handshake is over.
    @inline(__always)
    mutating func complete(_ identifier: UInt16, at step: Step, _ reason: ReasonCode) -> Answer {
        guard let flight = flights.remove(identifier) else { return .unknown }
        guard flight.step == step else {
            flights.insert(flight)
            return .wrong
        }
        if flight.isCounted { countedFlights -= 1 }
        // A server that has completed the flow before a connection was lost says Packet Identifier not found in
        // PUBCOMP: the message arrived when PUBREC said so.
        return .expected(flight.ticket, step == .awaitingPubcomp ? flight.reason : reason)
    }

    /// Takes a message that was sent away; returns its ticket.
    mutating func giveUp(_ identifier: UInt16) -> PublishTicket? {
        guard let flight = flights.remove(identifier) else { return nil }
        if flight.isCounted { countedFlights -= 1 }
        return flight.ticket
    }

    /// A connection begins: requests of the last one are over.
    mutating func connectionOpened() {
        guard requestCount > 0 else { return }
        for flight in flights.entries where flight.step.isRequest { flights.remove(flight.packetIdentifier) }
        requestCount = 0
    }

    /// The server knows the session. Returns what has to be released again, in order; what has to be sent again comes
    /// from `resendNext`.
    mutating func resume() -> [UInt16] {
        let inOrder = messagesInOrder
        for flight in inOrder { _ = flights.change(flight.packetIdentifier) { $0.isCounted = false } }
        countedFlights = 0
        unsent = inOrder.filter { $0.step != .awaitingPubcomp }.map(\.packetIdentifier).reversed()
        return inOrder.filter { $0.step == .awaitingPubcomp }.map(\.packetIdentifier)
    }

    /// The next message that has to be sent again, counted as sent; nil when there is none. To be called only if
    /// `maySend`.
    mutating func resendNext() -> (publication: Publication, expiresAt: UInt64, identifier: UInt16)? {
        while let identifier = unsent.popLast() {
            let message = flights.change(identifier) { flight -> (publication: Publication, expiresAt: UInt64)? in
                // The server may have acknowledged it unasked, and the identifier may be another's now.
                guard !flight.isCounted, let publication = flight.publication else { return nil }
                flight.isCounted = true
                return (publication, flight.expiresAt)
            }
            guard let message, let message else { continue }
            countedFlights += 1
            return (message.publication, message.expiresAt, identifier)
        }
        return nil
    }

    /// The server has forgotten: what it did not have waits again, before all else, and identifiers begin anew. Returns
    /// what it did have, which is done.
    mutating func startOver() -> [PublishTicket] {
        let inOrder = messagesInOrder
        flights.removeAll()
        (countedFlights, requestCount, unsent) = (0, 0, [])
        waiting.insertFirst(
            inOrder.compactMap { flight in
                guard let publication = flight.publication else { return nil }
                return WaitingMessages.Waiting(
                    ticket: flight.ticket, publication: publication, wasSent: true, expiresAt: flight.expiresAt)
            })
        return inOrder.filter { $0.step == .awaitingPubcomp }.map(\.ticket)
    }

    /// Takes over what was in flight before a crash.
    mutating func restore(_ messages: [StoredClientSession.Outgoing]) {
        for message in messages {
            guard let identifier = message.packetIdentifier else {
                waiting.append(WaitingMessages.Waiting(ticket: message.ticket, publication: message.publication, wasSent: true))
                continue
            }
            let step: Step =
                switch message.publication?.qos {
                case nil: .awaitingPubcomp
                case .exactlyOnce: .awaitingPubrec
                case .atMostOnce, .atLeastOnce: .awaitingPuback
                }
            flights.insert(
                Flight(
                    packetIdentifier: identifier, step: step, isCounted: false, ticket: message.ticket,
                    publication: message.publication))
        }
    }

    /// The Message Expiry Intervals of messages that were restored count from now.
    mutating func count(since now: UInt64) {
        for flight in flights.entries {
            _ = flights.change(flight.packetIdentifier) { $0.expiresAt = $0.publication?.expiry(since: now) ?? .max }
        }
        waiting.count(since: now)
    }

    /// Gives back memory that nothing lies in.
    mutating func trim() {
        flights.trim()
        waiting.trim()
        if unsent.isEmpty { unsent = [] }
    }
}

/// What lies under a packet identifier.
protocol Identified: Sendable {
    var packetIdentifier: UInt16 { get }
}

extension Identified {
    @inline(__always)
    fileprivate mutating func change<Answer>(_ body: (inout Self) -> Answer) -> Answer { body(&self) }
}

/// Entries by packet identifier, without hashing: each lies in the slot of its identifier modulo the number of slots, a
/// power of two.
///
/// Identifiers are given out one after another, so those in use lie side by side. Two that meet in one slot make the
/// table twice as large; our own are chosen so that they do not meet. Invariant: at most half of the slots are taken
/// until there are 65,536.
struct IdentifierTable<Entry: Identified>: Sendable {
    private var slots: [Entry?] = []
    private(set) var count = 0
    /// The identifier that was given out last.
    private var last: UInt16 = 0

    var isEmpty: Bool { count == 0 }

    /// In no order.
    var entries: [Entry] { slots.compactMap { $0 } }

    @inline(__always)
    private func slot(_ identifier: UInt16) -> Int { Int(identifier) & (slots.count &- 1) }

    @inline(__always)
    private func index(_ identifier: UInt16) -> Int? {
        guard count > 0 else { return nil }
        let index = slot(identifier)
        return slots[index]?.packetIdentifier == identifier ? index : nil
    }

    subscript(_ identifier: UInt16) -> Entry? {
        guard let index = index(identifier) else { return nil }
        return slots[index]
    }

    /// Changes the entry where it lies; nil where there is none.
    @inline(__always)
    mutating func change<Answer>(_ identifier: UInt16, _ body: (inout Entry) -> Answer) -> Answer? {
        guard let index = index(identifier) else { return nil }
        return slots[index]?.change(body)
    }

    /// To be called for an identifier that is not in the table.
    mutating func insert(_ entry: Entry) {
        if (count &+ 1) &* 2 > slots.count, slots.count < Self.slotsMax { grow() }
        var index = slot(entry.packetIdentifier)
        while slots[index] != nil {
            grow()
            index = slot(entry.packetIdentifier)
        }
        slots[index] = entry
        count &+= 1
    }

    @discardableResult
    mutating func remove(_ identifier: UInt16) -> Entry? {
        guard let index = index(identifier) else { return nil }
        count &-= 1
        return slots[index].take()
    }

    /// An identifier that is not in use: the one after the last, unless it or its slot is taken; nil when all 65,535
    /// are in use. [MQTT-2.2.1-3 v5]
    mutating func takeIdentifier() -> UInt16? {
        guard count < Int(UInt16.max) else { return nil }
        if (count &+ 1) &* 2 > slots.count, slots.count < Self.slotsMax { grow() }
        repeat { last = last == .max ? 1 : last &+ 1 } while slots[slot(last)] != nil
        return last
    }

    mutating func removeAll() { self = IdentifierTable() }

    /// Gives the memory back when nothing lies there.
    mutating func trim() {
        if count == 0 { slots = [] }
    }

    private mutating func grow() {
        let entries = slots
        slots = Array(repeating: nil, count: max(Self.slotsMin, entries.count * 2))
        for case let entry? in entries { slots[slot(entry.packetIdentifier)] = entry }
    }

    private static var slotsMin: Int { 8 }
    private static var slotsMax: Int { Int(UInt16.max) + 1 }
}
