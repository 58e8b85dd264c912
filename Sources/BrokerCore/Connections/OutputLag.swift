import BrokerModel

/// Since when the oldest byte of a connection's output has waited, while its transport takes less than it is given.
///
///     sent ──── here ─── last ───────── end of the output
///                 t1       t2                                    what stands before `here` was there at t1
///
/// Two marks in the stream of bytes, each with the time when it was its end: the lag is too short by no more than the time between
/// them, and never too long. Belongs to a connection.
struct OutputLag {
    private struct Mark {
        let end: UInt64
        let at: UInt64
    }

    private var here: Mark?
    private var last: Mark?

    /// The transport has not taken all.
    ///
    /// - Parameters:
    ///   - sent: how many bytes it has taken so far.
    ///   - pending: how many it has not.
    ///   - now: in milliseconds.
    mutating func note(sent: UInt64, pending: Int, now: UInt64) {
        let end = Mark(end: sent &+ UInt64(pending), at: now)
        if let mark = here, sent < mark.end {
            // The later mark stays until the first is passed.
            if last.map({ sent >= $0.end }) ?? true { last = end }
        } else if let mark = last, sent < mark.end {
            (here, last) = (mark, end)
        } else {
            (here, last) = (end, nil)
        }
    }

    /// The transport has taken all.
    mutating func clear() { (here, last) = (nil, nil) }

    /// How long the oldest byte has waited at least.
    func milliseconds(now: UInt64) -> UInt64 { here.map { now &- min(now, $0.at) } ?? 0 }
}

extension BrokerShard {
    /// A connection's transport has taken less than it was given.
    @inline(never)
    func recordLag(of connection: Connection) {
        connection.isLagging = true
        connection.makeExtras().outputLag.note(
            sent: connection.traffic.sentBytes, pending: connection.output.pendingBytes, now: now)
        suspect(connection)
    }

    /// It has taken all.
    @inline(never)
    func endLag(of connection: Connection) {
        connection.isLagging = false
        connection.extras?.outputLag.clear()
    }
}
