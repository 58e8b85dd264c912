import MQTTCodec

/// What happens because time has passed.
extension ClientSession {
    /// When `advance` must next be called, in milliseconds; nil for never.
    public var nextDeadline: UInt64? {
        let ofRequest = state == .online ? requestDeadline ?? .max : .max
        let deadline = min(pingDue ?? .max, answerDeadline ?? .max, ofRequest, outgoing.waiting.nextExpiry)
        return deadline == .max ? nil : deadline
    }

    /// Tells the session the time: sends PINGREQ when nothing was sent for the Keep Alive, gives up when an answer is overdue, and messages that
    /// have waited too long.
    public mutating func advance(to now: UInt64) {
        beginCounting(now: now)
        for ticket in outgoing.waiting.expire(now: now) { expire(ticket) }
        if let answerDeadline, answerDeadline <= now {
            if isHeldUp, state == .online { return askAgain(now: now) }
            return fail(state == .connecting ? .connectTimeout : .pingTimeout, now: now)
        }
        if state == .online, let requestDeadline {
            // As above, the answer may lie unread.
            if isHeldUp { self.requestDeadline = now + options.requestTimeoutMilliseconds }
            if requestDeadline <= now, !isHeldUp { return fail(.requestTimeout, now: now) }
        }
        guard let pingDue, pingDue <= now else { return }
        trim()
        send(.pingreq, now: now)  // [MQTT-3.1.2-20 v5]
        answerDeadline = now + pingTimeoutMilliseconds
    }

    mutating func beginCounting(now: UInt64) {
        guard awaitsTime else { return }
        awaitsTime = false
        outgoing.count(since: now)
    }

    /// The answer may lie unread: the server hears that we are there, and its answer is awaited anew.
    private mutating func askAgain(now: UInt64) {
        send(.pingreq, now: now)
        answerDeadline = now + pingTimeoutMilliseconds
    }

    /// How long an answer to PINGREQ is awaited: not longer than the Keep Alive, in which the server hears nothing else from us.
    private var pingTimeoutMilliseconds: UInt64 { min(options.pingTimeoutMilliseconds, keepAliveMilliseconds) }

    /// The Keep Alive that holds, in milliseconds: the server's if it ordered one. [MQTT-3.1.2-21 v5]
    var keepAliveMilliseconds: UInt64 {
        UInt64(serverProperties.serverKeepAlive ?? options.keepAliveSeconds) * 1000
    }

    /// When PINGREQ is due; nil while one is unanswered, or none ever is.
    private var pingDue: UInt64? {
        guard state == .online, keepAliveMilliseconds > 0, answerDeadline == nil else { return nil }
        return lastSentAt + keepAliveMilliseconds
    }
}
