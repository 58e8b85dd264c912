internal import Bytes
public import ClientCore
internal import MQTTCodec

/// A session's journal in rows, and the session that an earlier run has left.
///
///     outgoing: ticket │ fields (`Outgoing`)
///     incoming: packet identifier
///     session: "serial" │ a number, a field
///
/// When the server forgets the session, the serial number of the session grows: packet identifiers of earlier ones mean
/// nothing any more.
public struct SessionRecords: Sendable {
    private struct Flight {
        var identifier: UInt16
        /// In the outbox; 0 for none.
        var number: UInt64
    }

    private var serial: UInt64
    /// The messages in flight, by ticket, as they are stored.
    private var flights: [UInt64: Flight] = [:]
    private var released: Set<UInt64> = []
    /// What earlier runs have left.
    public private(set) var restored = StoredClientSession()
    /// Which of these messages are in the outbox, by the numbers of their tickets.
    public private(set) var restoredOutbox: [UInt64: OutboxMessage] = [:]
    /// Rows that earlier runs have left and that are of no use.
    public private(set) var removals: [StoreChange] = []

    /// Reads what an earlier run has left.
    ///
    /// - `now`: milliseconds since 1970.
    public init(in storage: any ClientStorage, now: UInt64) throws(StoreError) {
        var serial: UInt64?
        for row in try storage.rows(StoreQuery(.session, at: StoreKey("serial"))).rows {
            serial = NumberRow.number(row.body)
        }
        self.serial = serial ?? 0
        var outgoing: [StoredClientSession.Outgoing] = []
        let found = try storage.rows(StoreQuery(.outgoing))
        removals = found.damages.map { .remove(.outgoing, $0.key) }
        for row in found.rows {
            guard let entry = try read(row, in: storage, now: now) else {
                removals.append(.remove(.outgoing, row.key))
                continue
            }
            outgoing.append(entry)
        }
        let received = try storage.rows(StoreQuery(.incoming)).rows.compactMap {
            $0.key.lastNumber.map { UInt16(truncatingIfNeeded: $0) }
        }
        restored = StoredClientSession(outgoing: outgoing, received: received, lastTicket: PublishTicket(number: 0))
    }

    private mutating func read(
        _ row: StoreRow, in storage: any ClientStorage, now: UInt64
    ) throws(StoreError) -> StoredClientSession.Outgoing? {
        guard let ticket = row.key.lastNumber, let stored = Outgoing(body: row.body) else { return nil }
        let isOfThisSession = stored.serial == serial
        if stored.isReleased, !isOfThisSession { return nil }
        var publication: Publication?
        if stored.number > 0 {
            let row = try storage.rows(StoreQuery(.outbox, at: StoreKey(stored.number))).rows.first
            guard let message = row.flatMap({ OutboxMessage($0) }) else { return nil }
            restoredOutbox[ticket] = message
            publication = message.publication(at: now)
        } else if !stored.isReleased {
            guard let message = stored.publication else { return nil }
            publication = message
        }
        flights[ticket] = Flight(identifier: stored.identifier, number: stored.number)
        if stored.isReleased { released.insert(ticket) }
        return StoredClientSession.Outgoing(
            ticket: PublishTicket(number: ticket), packetIdentifier: isOfThisSession ? stored.identifier : nil,
            publication: stored.isReleased ? nil : publication)
    }

    /// What a session's changes come to in rows.
    public struct Rows: Sendable {
        public var changes: [StoreChange] = []
        /// Whether the server must hear of nothing that follows before they are durable. Not so where only messages of
        /// QoS 1 were sent: if these are forgotten, they are sent once more.
        public var holdsOutput = false
        /// Whether the server has forgotten the session.
        public var hasStartedOver = false
    }

    /// Takes a session's changes over.
    ///
    /// - `outboxNumber`: where a message is in the outbox, by its ticket's number; nil if it is in none.
    public mutating func rows(for changes: [SessionChange], outboxNumber: (UInt64) -> UInt64?) -> Rows {
        var rows = Rows()
        for change in changes { apply(change, outboxNumber, &rows) }
        return rows
    }

    private mutating func apply(_ change: SessionChange, _ outboxNumber: (UInt64) -> UInt64?, _ rows: inout Rows) {
        switch change {
        case .sent(let ticket, let identifier, let publication):
            let number = outboxNumber(ticket.number) ?? flights[ticket.number]?.number ?? 0
            flights[ticket.number] = Flight(identifier: identifier, number: number)
            rows.changes.append(put(ticket.number, number == 0 ? publication : nil, isReleased: false))
            if publication.qos == .exactlyOnce { rows.holdsOutput = true }
        case .released(let ticket):
            guard flights[ticket.number] != nil else { return }
            released.insert(ticket.number)
            rows.changes.append(put(ticket.number, nil, isReleased: true))
            rows.holdsOutput = true
        case .done(let ticket, _):
            guard flights.removeValue(forKey: ticket.number) != nil else { return }
            released.remove(ticket.number)
            rows.changes.append(.remove(.outgoing, StoreKey(ticket.number)))
        case .received(let identifier):
            rows.changes.append(.put(.incoming, StoreKey(UInt64(identifier)), []))
            rows.holdsOutput = true
        case .forgotten(let identifier):
            rows.changes.append(.remove(.incoming, StoreKey(UInt64(identifier))))
            rows.holdsOutput = true
        case .startedOver: startOver(&rows)
        }
    }

    private mutating func startOver(_ rows: inout Rows) {
        serial += 1
        rows.changes += [.put(.session, StoreKey("serial"), NumberRow(serial).encodedFields), .removeAll(.incoming)]
        for ticket in released.sorted() {
            flights[ticket] = nil
            rows.changes.append(.remove(.outgoing, StoreKey(ticket)))
        }
        released = []
        (rows.holdsOutput, rows.hasStartedOver) = (true, true)
    }

    private func put(_ ticket: UInt64, _ publication: Publication?, isReleased: Bool) -> StoreChange {
        let flight = flights[ticket]
        let row = Outgoing(
            serial: serial, identifier: flight?.identifier ?? 0, number: flight?.number ?? 0, isReleased: isReleased,
            publication: publication)
        return .put(.outgoing, StoreKey(ticket), row.encodedFields)
    }

    /// What a row says of a message in flight.
    private struct Outgoing: FieldCoded {
        /// Of the session.
        var serial: UInt64 = 0
        /// Its packet identifier.
        var identifier: UInt16 = 0
        /// In the outbox; 0 for none.
        var number: UInt64 = 0
        var isReleased = false
        /// If it is in no outbox, and not released.
        var publication: Publication?

        static let blank = Outgoing()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &serial, mostly: 0)
            coder.field(2, &identifier)
            coder.field(3, &number, mostly: 0)
            coder.field(4, &isReleased, mostly: false)
            coder.field(5, &publication, as: { StoredPublication($0).encodedFields }, { StoredPublication(body: $0)?.publication })
        }
    }
}

/// A client's identity, as its store has it.
///
///     key: "client", body: client identifier │ "own": a random number │ "run": how often the store was opened; numbers are fields
public struct StoredIdentity: Sendable {
    /// The name that the server knew the client by; nil in a new store.
    public var clientIdentifier: String?
    /// Random, for as long as the store lives.
    public let own: UInt64
    /// How often a client has had the store, this time with it.
    public let run: UInt64

    /// Reads it; makes one up in a new store.
    public init(in storage: any ClientStorage, random: () -> UInt64) throws(StoreError) {
        var known: [String: [UInt8]] = [:]
        for row in try storage.rows(StoreQuery(.identity)).rows {
            if let name = row.key.text(behind: StoreKey()) { known[String(decoding: name, as: UTF8.self)] = row.body }
        }
        clientIdentifier = known["client"].map { String(decoding: $0, as: UTF8.self) }
        own = Self.number(known["own"]) ?? random()
        // A row that is damaged must not let an earlier run's identifiers come again.
        run = (Self.number(known["run"]) ?? (known.isEmpty ? 0 : random() >> 16)) + 1
    }

    /// The changes that a client writes when it has opened the store.
    public var changes: [StoreChange] {
        var changes: [StoreChange] = [
            .put(.identity, StoreKey("own"), Self.bytes(own)), .put(.identity, StoreKey("run"), Self.bytes(run)),
        ]
        if let clientIdentifier { changes.append(.put(.identity, StoreKey("client"), Array(clientIdentifier.utf8))) }
        return changes
    }

    /// What identifiers of messages begin with: no other client's do, nor this one's in another run.
    public var messagePrefix: String { "\(String(own, radix: 36))-\(String(run, radix: 36))" }

    private static func number(_ body: [UInt8]?) -> UInt64? {
        body.flatMap { NumberRow.number($0) }
    }

    private static func bytes(_ number: UInt64) -> [UInt8] { NumberRow(number).encodedFields }
}
