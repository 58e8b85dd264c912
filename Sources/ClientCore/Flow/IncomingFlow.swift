import Bytes
import MQTTCodec

/// QoS 1 and 2 messages from the server whose handshake is not complete.
///
///     told ──acknowledge──► verdict known ──its turn──► PUBACK, or PUBREC that refuses: done
///                                └────────────────────► PUBREC: received ──PUBREL──► done
///
/// Answers leave in the order in which the messages came, those of QoS 1 and those of QoS 2 each for themselves,
/// whatever the order of the verdicts. [MQTT-4.6.0-2 v5] [MQTT-4.6.0-3 v5] A verdict that is given while there is no
/// connection waits until the server sends the message again.
struct IncomingFlow: Sendable {
    enum Arrival {
        /// To be told, with this token.
        case new(AcknowledgementToken)
        /// Told before: by its owner's verdict, now or later, it is answered.
        case known
        /// The server sends more than it was allowed.
        case tooMany
        /// It sends another message under an identifier that is in use. [MQTT-2.2.1-4 v5]
        case identifierInUse
    }

    struct Answer {
        let packetIdentifier: UInt16
        let qos: QoS
        let reason: ReasonCode
        /// QoS 2: whether this takes the message over, for the first time.
        var isReceipt = false
    }

    private struct Flight: Identified {
        let token: AcknowledgementToken
        let qos: QoS
        /// What its owner says of it; nil as long as that is not known.
        var verdict: ReasonCode?
        /// QoS 2: PUBREC has taken it over, PUBREL has not come.
        var isReceived = false
        /// Whether it came, or came again, on this connection.
        var isHere = true

        var packetIdentifier: UInt16 { token.packetIdentifier }
    }

    private var flights = IdentifierTable<Flight>()
    /// How many of them came on this connection: what the server counts against Receive Maximum.
    private var hereCount = 0
    /// Tokens are numbered over all sessions, so that none means two messages.
    private var lastSerial: UInt64 = 0
    private var awaitingPuback = Deque<UInt16>()
    private var awaitingPubrec = Deque<UInt16>()

    /// Another connection begins, with the same session: what is unanswered will come again.
    mutating func connectionOpened() {
        for flight in flights.entries { _ = flights.change(flight.packetIdentifier) { $0.isHere = false } }
        hereCount = 0
        (awaitingPuback, awaitingPubrec) = ([], [])
    }

    /// The server has forgotten the session: every token is over. Returns whether there was anything of QoS 2 to
    /// forget.
    mutating func startOver() -> Bool {
        let hadReceived = flights.entries.contains { $0.isReceived }
        flights.removeAll()
        connectionOpened()
        return hadReceived
    }

    /// Takes over which messages of QoS 2 were received before a crash.
    mutating func restore(_ received: [UInt16]) {
        for identifier in received {
            let token = AcknowledgementToken(identifier, serial: 0)
            flights.insert(Flight(token: token, qos: .exactlyOnce, verdict: .success, isReceived: true, isHere: false))
        }
    }

    /// - Parameter isDuplicate: whether the server says that it has sent the message before.
    mutating func received(_ identifier: UInt16, _ qos: QoS, isDuplicate: Bool, maximum: Int) -> Arrival {
        guard let known = flights[identifier] else {
            guard hereCount < maximum else { return .tooMany }
            return .new(begin(identifier, qos))
        }
        if known.isHere {
            // Sent again on its connection. Only an answer that was given is given again. [MQTT-4.3.3-10 v5]
            if known.isReceived {
                awaitingPubrec.append(identifier)
                return .known
            }
            return isDuplicate && known.qos == qos ? .known : .identifierInUse
        }
        guard hereCount < maximum else { return .tooMany }
        if !known.isReceived, !isDuplicate || known.qos != qos {
            // The server has given the old one up, such as for its age, and the identifier to another.
            // [MQTT-3.3.1-1 v5]
            flights.remove(identifier)
            return .new(begin(identifier, qos))
        }
        hereCount += 1
        _ = flights.change(identifier) { $0.isHere = true }
        awaitAnswer(identifier, known.qos)
        return .known
    }

    /// A message of QoS 1 that is answered at once. Returns its token; nil if it has to go the long way, since others
    /// are before it.
    @inline(__always)
    mutating func passed(_ identifier: UInt16, maximum: Int) -> AcknowledgementToken? {
        guard awaitingPuback.isEmpty, hereCount < maximum, flights.isEmpty || flights[identifier] == nil else { return nil }
        lastSerial += 1
        return AcknowledgementToken(identifier, serial: lastSerial)
    }

    /// Its owner takes or refuses it; a second verdict is none.
    mutating func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode) {
        _ = flights.change(token.packetIdentifier) { flight in
            if flight.token == token, flight.verdict == nil { flight.verdict = reason }
        }
    }

    /// The next answer whose turn it is; nil if the message that came first has no verdict yet.
    mutating func nextAnswer() -> Answer? {
        nextPuback() ?? nextPubrec()
    }

    /// The message of those without a verdict whose turn is next, the earlier of QoS 1 and QoS 2, and how many the
    /// server counts as unacknowledged.
    var unanswered: (first: AcknowledgementToken, count: Int)? {
        let (one, two) = (unanswered(awaitingPuback.first), unanswered(awaitingPubrec.first))
        guard let one, let two else { return (one ?? two).map { ($0, hereCount) } }
        return (one.number < two.number ? one : two, hereCount)
    }

    private func unanswered(_ identifier: UInt16?) -> AcknowledgementToken? {
        guard let identifier, let flight = flights[identifier], flight.verdict == nil else { return nil }
        return flight.token
    }

    /// PUBREL: the identifier is free. Returns whether it was known.
    mutating func release(_ identifier: UInt16) -> Bool {
        guard flights[identifier]?.isReceived == true else { return false }
        forget(identifier)
        return true
    }

    /// Gives back memory that nothing lies in.
    mutating func trim() {
        flights.trim()
        awaitingPuback.trim()
        awaitingPubrec.trim()
    }

    private mutating func begin(_ identifier: UInt16, _ qos: QoS) -> AcknowledgementToken {
        hereCount += 1
        lastSerial += 1
        let token = AcknowledgementToken(identifier, serial: lastSerial)
        flights.insert(Flight(token: token, qos: qos))
        awaitAnswer(identifier, qos)
        return token
    }

    private mutating func awaitAnswer(_ identifier: UInt16, _ qos: QoS) {
        if qos == .atLeastOnce { awaitingPuback.append(identifier) } else { awaitingPubrec.append(identifier) }
    }

    private mutating func nextPuback() -> Answer? {
        guard let identifier = awaitingPuback.first, let reason = flights[identifier]?.verdict else { return nil }
        awaitingPuback.popFirst()
        forget(identifier)
        return Answer(packetIdentifier: identifier, qos: .atLeastOnce, reason: reason)
    }

    private mutating func nextPubrec() -> Answer? {
        while let identifier = awaitingPubrec.first {
            guard let flight = flights[identifier], flight.qos == .exactlyOnce else {
                // The server has released it meanwhile.
                awaitingPubrec.popFirst()
                continue
            }
            guard let reason = flight.verdict else { return nil }
            awaitingPubrec.popFirst()
            if reason.isError { forget(identifier) } else { _ = flights.change(identifier) { $0.isReceived = true } }
            return Answer(
                packetIdentifier: identifier, qos: .exactlyOnce, reason: reason, isReceipt: !reason.isError && !flight.isReceived)
        }
        return nil
    }

    private mutating func forget(_ identifier: UInt16) {
        if flights.remove(identifier)?.isHere == true { hereCount -= 1 }
    }
}
