import BrokerModel
import MQTTCodec

/// What happens because time has passed.
extension BrokerShard {
    /// Tells the shard the time, in milliseconds on the shell's monotonic clock, and works off what is due.
    ///
    /// - `microseconds`: the same time more precisely, for what is measured; nil where that does not matter.
    public func advance(to time: UInt64, microseconds: UInt64? = nil) {
        ledger.clockMicroseconds = max(ledger.clockMicroseconds, microseconds ?? time &* 1000)
        journal?.clockMicroseconds = UInt32(truncatingIfNeeded: ledger.clockMicroseconds)
        guard time > now || wheel.isBehind else { return }
        now = max(now, time)
        var fired = 0
        while let subject = wheel.popExpired(now: now) {
            fired += fire(subject)
            if fired >= Limits.timerStepsPerTurn {
                wheel.isBehind = true
                return
            }
        }
        wheel.isBehind = false
    }

    /// Arms the timer that watches a client's keep-alive: one and a half times the interval, and the end of its login.
    /// [MQTT-3.1.2-22 v5] [MQTT-3.1.2-24 v3.1.1]
    func armKeepAlive(_ connection: Connection, seconds: UInt16) {
        wheel.disarm(connection.timer)
        connection.timer = TimerWheel.none
        connection.keepAliveMilliseconds = UInt32(seconds) * 1500
        connection.lastReceivedAt = now
        armConnected(connection, at: connection.silenceDeadline)
    }

    /// The timer of a client that is in fires then, or when its login ends.
    private func armConnected(_ connection: Connection, at deadline: UInt64) {
        let first = min(deadline, connection.extras?.loginEndsAt ?? .max)
        if first != .max { arm(connection, at: first) }
    }

    /// Its timer fires then, and not when it was to before.
    func rearm(_ connection: Connection, at deadline: UInt64) {
        wheel.disarm(connection.timer)
        arm(connection, at: deadline)
    }

    private func arm(_ connection: Connection, at deadline: UInt64) {
        connection.timer = wheel.arm(
            TimerSubject(kind: .connection, index: connection.id.slot, generation: connection.id.generation), at: deadline)
    }

    /// - Returns: how many steps that took.
    private func fire(_ subject: TimerSubject) -> Int {
        switch subject.kind {
        case .connection:
            if let connection = connections.find(ConnectionID(slot: subject.index, generation: subject.generation)) {
                return connectionTimerFired(connection) ? Limits.timerStepsOfEnd : 1
            }
        case .session:
            if let session = sessions.find(index: subject.index, generation: subject.generation) {
                lifecycle.sessionTimerFired(session)
                return Limits.timerStepsOfEnd
            }
        case .statistics:
            figures.systemTimerFired()
        case .retainedSweep:
            retainedMessages.sweepRetained()
        case .second:
            presence.secondPassed()
        }
        return 1
    }

    /// - Returns: whether the connection ends.
    private func connectionTimerFired(_ connection: Connection) -> Bool {
        connection.timer = TimerWheel.none
        switch connection.state {
        case .awaitingConnect, .authenticating:
            connecting.connectTimedOut(connection)
        case .connected:
            if let end = connection.extras?.loginEndsAt, end <= now {
                logConnection(.notice, of: connection, reason: "login expired") {
                    "Client \(connection.name) \(connection.logPosition) disconnected: its login has expired."
                }
                disconnecting.dismiss(connection, .notAuthorized, telling: "the login has expired.", "login expired", will: .due)
                return true
            }
            let deadline = connection.silenceDeadline
            // Activity since the timer was armed only wrote down its time; the timer follows it now.
            if deadline > now {
                armConnected(connection, at: deadline)
                return false
            }
            // Nothing is read from it meanwhile.
            if connection.hasOpenPacket {
                armConnected(connection, at: now + UInt64(connection.keepAliveMilliseconds))
                return false
            }
            // The broker itself did not run, stopped or short of processors: what the client has sent meanwhile is read
            // before it counts as silent.
            if now - deadline > Limits.lateTimerMilliseconds {
                connection.lastReceivedAt += now - deadline + Limits.lateTimerMilliseconds
                armConnected(connection, at: now + Limits.lateTimerMilliseconds)
                return false
            }
            logConnection(.notice, of: connection, reason: "keep alive") {
                "Client \(connection.name) \(connection.logPosition) disconnected: exceeded timeout."
            }
            disconnecting.dismiss(
                connection, .keepAliveTimeout, telling: "no packet came for one and a half times the Keep Alive.", "keep alive",
                will: .due)
        case .closing:
            disconnecting.end(connection)
        }
        return true
    }
}

extension Connection {
    /// Until when its client has to be heard; `UInt64.max` for one without Keep Alive.
    fileprivate var silenceDeadline: UInt64 {
        keepAliveMilliseconds == 0 ? .max : lastReceivedAt + UInt64(keepAliveMilliseconds)
    }
}

extension Limits {
    /// Steps of timers in a turn, each that fires being one; the others fire in the next.
    static let timerStepsPerTurn = 4096

    /// Milliseconds that a timer may be late because of other work. A client whose Keep Alive ends later than that gets
    /// as long again to be heard.
    static let lateTimerMilliseconds: UInt64 = 1000

    /// Steps of timers that it takes to end a connection or a session, or to publish a will: 128 of them a turn, some 2
    /// ms.
    static let timerStepsOfEnd = 32
}

/// Two clocks: the shard's, which starts anew with the broker, and the wall clock, by which the store and other nodes
/// go.
extension BrokerShard {
    /// A time of the shard's clock in milliseconds since 1970.
    public func wallClock(_ time: UInt64) -> UInt64 {
        time == Message.neverExpires ? MessageParts.never : time &+ settings.wallClockOffsetMilliseconds
    }

    /// A time in milliseconds since 1970 on the shard's clock; what is past is due now.
    public func shardClock(_ time: UInt64) -> UInt64 {
        guard time != MessageParts.never else { return Message.neverExpires }
        return time < settings.wallClockOffsetMilliseconds ? 0 : time &- settings.wallClockOffsetMilliseconds
    }
}
