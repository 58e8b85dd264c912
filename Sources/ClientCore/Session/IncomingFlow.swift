import MQTTCodec

/// QoS 1 and 2 messages from the server whose handshake is not complete.
///
///     told ──acknowledge──► verdict known ──its turn──► PUBACK, or PUBREC that refuses: done
///                                └────────────────────► PUBREC: received ──PUBREL──► done
///
/// Answers leave in the order in which the messages came, those of QoS 1 and those of QoS 2 each for themselves, whatever the order of the
/// verdicts. [MQTT-4.6.0-2 v5] [MQTT-4.6.0-3 v5] A verdict that is given while there is no connection waits until the server sends the message
/// again.
struct IncomingFlow: Sendable {
    enum Arrival {
        /// To be told, with this token.
        case new(AcknowledgementToken)
        /// Told before: by its owner's verdict, now or later, it is answered.
        case known
        /// The server sends more than it was allowed.
        case tooMany
    }

    struct Answer {
        let identifier: UInt16
        let qos: QoS
        let reason: ReasonCode
    }

    private struct Flight {
        let qos: QoS
        let token: AcknowledgementToken
        /// What its owner says of it; nil as long as that is not known.
        var verdict: ReasonCode?
        /// QoS 2: PUBREC has taken it over, PUBREL has not come.
        var isReceived = false
        /// Whether it came, or came again, on this connection.
        var isHere = true
    }

    private var flights: [UInt16: Flight] = [:]
    /// How many of them came on this connection: what the server counts against Receive Maximum.
    private var hereCount = 0
    /// Tokens are numbered over all sessions, so that none means two messages.
    private var lastSerial: UInt64 = 0
    private var awaitingPuback = ArrivalOrder()
    private var awaitingPubrec = ArrivalOrder()

    /// Another connection begins, with the same session: what is unanswered will come again.
    mutating func connectionOpened() {
        for identifier in flights.keys { flights[identifier]?.isHere = false }
        hereCount = 0
        (awaitingPuback, awaitingPubrec) = (ArrivalOrder(), ArrivalOrder())
    }

    /// The server has forgotten the session: every token is over.
    mutating func startOver() {
        flights = [:]
        connectionOpened()
    }

    mutating func received(_ identifier: UInt16, _ qos: QoS, maximum: Int) -> Arrival {
        if let known = flights[identifier], known.isHere {
            // Sent again on its connection. Only an answer that was given is given again. [MQTT-4.3.3-10 v5]
            if known.isReceived { awaitAnswer(identifier, known.qos) }
            return .known
        }
        guard hereCount < maximum else { return .tooMany }
        hereCount += 1
        guard let known = flights[identifier] else {
            lastSerial += 1
            let token = AcknowledgementToken(identifier, serial: lastSerial)
            flights[identifier] = Flight(qos: qos, token: token)
            awaitAnswer(identifier, qos)
            return .new(token)
        }
        flights[identifier]?.isHere = true
        awaitAnswer(identifier, known.qos)
        return .known
    }

    /// Its owner takes or refuses it; a second verdict is none.
    mutating func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode) {
        let identifier = token.packetIdentifier
        guard let flight = flights[identifier], flight.token == token, flight.verdict == nil else { return }
        flights[identifier]?.verdict = reason
    }

    /// The next answer whose turn it is; nil if the message that came first has no verdict yet.
    mutating func nextAnswer() -> Answer? {
        nextAnswer(.atLeastOnce, from: \.awaitingPuback) ?? nextAnswer(.exactlyOnce, from: \.awaitingPubrec)
    }

    /// PUBREL: the identifier is free. Returns whether it was known.
    mutating func release(_ identifier: UInt16) -> Bool {
        guard let flight = flights[identifier], flight.isReceived else { return false }
        forget(identifier)
        return true
    }

    private mutating func awaitAnswer(_ identifier: UInt16, _ qos: QoS) {
        if qos == .atLeastOnce { awaitingPuback.append(identifier) } else { awaitingPubrec.append(identifier) }
    }

    private mutating func nextAnswer(_ qos: QoS, from order: WritableKeyPath<Self, ArrivalOrder>) -> Answer? {
        while let identifier = self[keyPath: order].first {
            guard let flight = flights[identifier], flight.qos == qos else {
                // The server has released it meanwhile.
                self[keyPath: order].removeFirst()
                continue
            }
            guard let reason = flight.verdict else { return nil }
            self[keyPath: order].removeFirst()
            if qos == .exactlyOnce, !reason.isError {
                flights[identifier]?.isReceived = true
            } else {
                forget(identifier)
            }
            return Answer(identifier: identifier, qos: qos, reason: reason)
        }
        return nil
    }

    private mutating func forget(_ identifier: UInt16) {
        if flights.removeValue(forKey: identifier)?.isHere == true { hereCount -= 1 }
    }
}

/// Packet identifiers in the order in which their messages came.
private struct ArrivalOrder: Sendable {
    private var identifiers: [UInt16] = []
    private var firstIndex = 0

    var first: UInt16? { firstIndex < identifiers.count ? identifiers[firstIndex] : nil }

    mutating func append(_ identifier: UInt16) { identifiers.append(identifier) }

    /// Gives memory back when half of it is taken, so that each identifier is moved once.
    mutating func removeFirst() {
        firstIndex += 1
        if firstIndex * 2 >= identifiers.count {
            identifiers.removeFirst(firstIndex)
            firstIndex = 0
        }
    }
}
