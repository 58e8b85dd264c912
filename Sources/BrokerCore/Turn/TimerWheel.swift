/// What a timer is for: the owner's index and generation tell whether it still means the same.
struct TimerSubject: BitwiseCopyable, Equatable {
    enum Kind: UInt8 {
        case connection
        case session
        case statistics
        case retainedSweep
        /// A look or report that comes a second after its reason.
        case second
    }

    var kind: Kind
    var index: UInt32
    var generation: UInt32
}

/// Deadlines of connections and sessions: a wheel of 4096 slots of 100 ms, whose slots are lists linked by index.
///
/// Arming and disarming cost a few nanoseconds. Activity on a connection does not touch its timer: when the timer
/// fires, its owner looks at the time of the last activity and arms it anew. A deadline beyond the wheel's 409 s stays
/// in its slot and is passed over until its round has come. Times are milliseconds on the shard's clock.
struct TimerWheel: ~Copyable {
    static let tickMilliseconds: UInt64 = 100
    static let slotCount = 4096
    static let none: UInt32 = .max

    private struct Entry: BitwiseCopyable {
        var deadline: UInt64
        var subject: TimerSubject
        var next: UInt32
        var previous: UInt32
        var slot: UInt32
    }

    private var entries = Pool<Entry>()
    private let slots: UnsafeMutablePointer<UInt32>
    /// A bit for each slot that holds a timer.
    private let occupied: UnsafeMutablePointer<UInt64>
    /// The tick that was last worked off.
    private var tick: UInt64
    /// The timer of the tick's slot to be looked at next, when some were; those armed meanwhile are of later rounds.
    private var cursor: UInt32?
    private(set) var count = 0

    init(now: UInt64) {
        slots = .allocate(capacity: Self.slotCount)
        slots.initialize(repeating: Self.none, count: Self.slotCount)
        occupied = .allocate(capacity: Self.slotCount / 64)
        occupied.initialize(repeating: 0, count: Self.slotCount / 64)
        tick = now / Self.tickMilliseconds
    }

    deinit {
        slots.deallocate()
        occupied.deallocate()
    }

    /// Arms a timer; returns the handle to disarm it with until it fires.
    mutating func arm(_ subject: TimerSubject, at deadline: UInt64) -> UInt32 {
        // A deadline within the current tick belongs to the next one: a timer never fires early, and never waits for a
        // whole round.
        let due = max(deadline.dividedRoundingUp(by: Self.tickMilliseconds), tick + 1)
        let slot = UInt32(truncatingIfNeeded: due) & UInt32(Self.slotCount - 1)
        let handle = entries.insert(
            Entry(deadline: due, subject: subject, next: slots[Int(slot)], previous: Self.none, slot: slot))
        if slots[Int(slot)] != Self.none { entries[slots[Int(slot)]].previous = handle }
        slots[Int(slot)] = handle
        occupied[Int(slot >> 6)] |= 1 << UInt64(slot & 63)
        count &+= 1
        return handle
    }

    mutating func disarm(_ handle: UInt32) {
        guard handle != Self.none else { return }
        let entry = entries[handle]
        if cursor == handle { cursor = entry.next }
        if entry.previous == Self.none {
            slots[Int(entry.slot)] = entry.next
            if entry.next == Self.none { occupied[Int(entry.slot >> 6)] &= ~(1 << UInt64(entry.slot & 63)) }
        } else {
            entries[entry.previous].next = entry.next
        }
        if entry.next != Self.none { entries[entry.next].previous = entry.previous }
        entries.remove(handle)
        count &-= 1
    }

    /// The next timer whose deadline has passed, taken out of the wheel; nil when there is none up to `now`. Looks at
    /// each timer of a slot once a round.
    mutating func popExpired(now: UInt64) -> TimerSubject? {
        let target = now / Self.tickMilliseconds
        while tick <= target {
            var handle = cursor ?? slots[Int(tick & UInt64(Self.slotCount - 1))]
            while handle != Self.none {
                let entry = entries[handle]
                cursor = entry.next
                if entry.deadline <= tick {
                    disarm(handle)
                    return entry.subject
                }
                handle = entry.next
            }
            if tick == target {
                cursor = Self.none
                return nil
            }
            cursor = nil
            tick = count == 0 ? target : min(target, nextOccupiedTick(after: tick))
        }
        return nil
    }

    /// Whether timers that are due were left for the next turn.
    var isBehind = false

    /// When `popExpired` should next be called; nil without timers. Up to a round (409 s) ahead.
    var nextDeadline: UInt64? {
        guard count > 0 else { return nil }
        return nextOccupiedTick(after: tick) * Self.tickMilliseconds
    }

    /// The first tick after `start` whose slot holds a timer, perhaps of a later round.
    private func nextOccupiedTick(after start: UInt64) -> UInt64 {
        let first = start + 1
        var slot = Int(first & UInt64(Self.slotCount - 1))
        var passed = 0
        while passed < Self.slotCount {
            let word = occupied[slot >> 6] >> UInt64(slot & 63)
            if word != 0 { return first + UInt64(passed + word.trailingZeroBitCount) }
            let skip = 64 - (slot & 63)
            passed += skip
            slot = (slot + skip) & (Self.slotCount - 1)
        }
        return first + UInt64(Self.slotCount)
    }
}

extension UInt64 {
    fileprivate func dividedRoundingUp(by divisor: UInt64) -> UInt64 { self / divisor + (self % divisor == 0 ? 0 : 1) }
}
