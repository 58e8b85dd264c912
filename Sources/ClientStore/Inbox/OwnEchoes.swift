internal import Bytes

/// One's own messages that a server before MQTT 5.0 is to send back to an inbox: it sends them like another's, known by
/// their contents alone.
///
/// Each is taken out by the first message that is like it. Where one never comes, as its connection or session was
/// lost, it is forgotten: a message like it is another's then.
///
///     rows of the table `arrival`: inbox, 2^62 + number in the outbox      body: fields
struct OwnEchoes {
    private struct Echo: FieldCoded {
        /// In the outbox.
        var number: UInt64 = 0
        var contents: UInt64 = 0
        /// In milliseconds since 1970.
        var sentAt: UInt64 = 0
        var isAcknowledged = false

        static let blank = Echo()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &number)
            coder.field(2, &contents)
            coder.field(3, &sentAt)
            coder.field(4, &isAcknowledged, mostly: false)
        }
    }

    private var echoes: [Echo] = []
    private let prefix: StoreKey

    init(_ prefix: StoreKey) { self.prefix = prefix }

    var isEmpty: Bool { echoes.isEmpty }

    /// A row of an earlier run. Returns whether it is one.
    mutating func restore(_ row: StoreRow) -> Bool {
        guard let place = row.key.lastNumber, place >= Self.base, place < Self.base << 1 else { return false }
        if let echo = Echo(body: row.body) {
            echoes.append(echo)
            echoes.sort { $0.number < $1.number }
        }
        return true
    }

    /// A message is about to leave.
    mutating func sent(_ number: UInt64, contents: UInt64, now: UInt64) -> [StoreChange] {
        var changes: [StoreChange] = []
        if echoes.count >= Limits.echoesMax { changes.append(remove(at: 0)) }
        let echo = Echo(number: number, contents: contents, sentAt: now, isAcknowledged: false)
        echoes.append(echo)
        return changes + [put(echo)]
    }

    /// The server has taken a message over; or it has not, and it does not come.
    mutating func settled(_ number: UInt64, isTaken: Bool) -> [StoreChange] {
        guard let place = echoes.firstIndex(where: { $0.number == number }) else { return [] }
        guard isTaken else { return [remove(at: place)] }
        echoes[place].isAcknowledged = true
        return [put(echoes[place])]
    }

    /// A message has come: what is to be written if it is one's own; nil if it is another's.
    mutating func take(_ contents: UInt64, now: UInt64) -> [StoreChange]? {
        guard
            let place = echoes.firstIndex(where: {
                $0.contents == contents && now < $0.sentAt + Limits.echoPatienceMilliseconds
            })
        else { return nil }
        return [remove(at: place)]
    }

    /// The server has forgotten the session: what it has taken over does not come any more, and what it has not is sent
    /// to it again.
    mutating func sessionLost() -> [StoreChange] {
        let lost = echoes.filter(\.isAcknowledged)
        echoes.removeAll(where: \.isAcknowledged)
        return lost.map { .remove(.arrival, key($0)) }
    }

    private mutating func remove(at place: Int) -> StoreChange { .remove(.arrival, key(echoes.remove(at: place))) }

    private func put(_ echo: Echo) -> StoreChange {
        .put(.arrival, key(echo), echo.encodedFields)
    }

    private func key(_ echo: Echo) -> StoreKey { prefix.number(Self.base + echo.number % Self.base) }

    private static let base: UInt64 = 1 << 62
}

extension Limits {
    /// One's own messages that an inbox expects back from a server before MQTT 5.0, which does not say whose they are;
    /// of more the oldest are taken for another's when they come.
    static let echoesMax = 1000

    /// How long it does so after a message was sent, in milliseconds: a day. Then a message like it is another's.
    static let echoPatienceMilliseconds: UInt64 = 86_400_000
}
