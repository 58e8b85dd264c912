/// When and from where on to look for messages that are too old among those of an outbox that only the store has.
///
/// ```
///   resting ──the earliest is due, and the pause over──► looking: piece after piece ──the last──► resting
/// ```
/// Invariant: while it rests, no message beyond those in memory is too old before `earliest`.
struct OutboxSweep: Sendable {
    /// When the first of them gets too old, or before, in milliseconds since 1970; nil for never.
    private var earliest: UInt64?
    /// Not before that does it look again, in the same milliseconds.
    private var pausesUntil: UInt64 = 0
    /// What is to be looked at next; nil while it rests.
    private var from: UInt64?
    /// Whether an answer is awaited.
    private var isAsked = false
    private var rowCount = 0
    /// Gone since that was asked, though the answer may have them.
    private var removedSince: Set<UInt64> = []

    /// One is there that gets too old then.
    mutating func note(_ expiresAt: UInt64) {
        if expiresAt < .max { earliest = min(earliest ?? .max, expiresAt) }
    }

    mutating func noteRemoval(_ number: UInt64) { if isAsked { removedSince.insert(number) } }

    /// When it wants to look; nil for never, or while it does.
    var due: UInt64? { from == nil ? earliest.map { max($0, pausesUntil) } : nil }

    /// From which number on it wants to look now; nil if not now.
    ///
    /// - Parameter first: the number of the first message that only the store has.
    mutating func next(first: UInt64, now: UInt64) -> UInt64? {
        guard !isAsked else { return nil }
        if from == nil {
            guard let due, due <= now else { return nil }
            (from, earliest, rowCount) = (first, nil, 0)
        }
        isAsked = true
        return from.map { max($0, first) }
    }

    /// Whether a message that was in the answer is there still.
    func has(_ number: UInt64) -> Bool { !removedSince.contains(number) }

    /// The answer was looked at.
    ///
    /// - Parameter through: the last number in it; nil if that was the end.
    mutating func looked(_ count: Int, through: UInt64?, now: UInt64) {
        (isAsked, removedSince, from) = (false, [], through.map { $0 + 1 })
        rowCount += count
        if from == nil {
            pausesUntil =
                now + Limits.sweepPauseMilliseconds + UInt64(rowCount / Limits.sweepRowsPerMillisecond)
        }
    }
}

extension OutboxQueue {
    /// When those in the store only are to be looked at, in milliseconds since 1970; nil for never.
    public var nextSweep: UInt64? { queue.hasMoreInStore ? sweep.due : nil }

    /// What is to be read now so as to find messages that are too old; nil for nothing. To be answered by `swept`.
    public mutating func sweepReading(now: UInt64) -> StoreQuery? {
        guard queue.hasMoreInStore, let from = sweep.next(first: queue.readThrough + 1, now: now) else {
            return nil
        }
        return StoreQuery(.outbox, from: StoreKey(from), to: nil, limit: Limits.sweepRowsMax)
    }

    /// What was read. Returns the numbers of those that are too old, which are gone from now on, and what is to be written.
    public mutating func swept(_ rows: StoreRows, of query: StoreQuery, now: UInt64) -> (
        expired: [UInt64], changes: [StoreChange]
    ) {
        var expired: [UInt64] = []
        for row in rows.rows {
            // Those that were read meanwhile look after themselves.
            guard let number = row.key.lastNumber, number > queue.readThrough, inFlight[number] == nil,
                sweep.has(number)
            else { continue }
            let expiresAt = StoreMeasure.head(row.body)
            guard expiresAt <= now else {
                sweep.note(expiresAt)
                continue
            }
            expired.append(number)
            queue.noteRemoval(number)
            remove(row.body.count)
        }
        let last = (rows.rows.map(\.key) + rows.damages.map(\.key)).compactMap(\.lastNumber).max()
        let count = rows.rows.count + rows.damages.count
        sweep.looked(count, through: count < query.limit ? nil : last, now: now)
        return (expired, expired.map { .remove(.outbox, StoreKey($0)) })
    }
}
