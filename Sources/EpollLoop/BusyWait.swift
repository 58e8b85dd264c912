/// Whether a loop that is back from a blocking task waits awake for a moment before it sleeps: whoever waited for the blocking task
/// often speaks again at once, and waking a core that has gone to sleep costs more than what there is to do then.
///
/// It is kept as long as somebody spoke soon the last time, awake or asleep; so one who waits for each answer pays for it, and
/// saves more, and one who speaks now and then pays nothing.
struct BusyWait {
    /// How long the loop waits awake at most: the other's core may have to wake first.
    static let awakeMicrosecondsMax: UInt64 = 80
    private static let soonMicroseconds: UInt64 = 200

    private let isAllowed: Bool
    private var isPromising = false
    private(set) var isDue = false

    /// - Parameter processors: with one, the other could not speak meanwhile.
    init(processors: Int) { isAllowed = processors > 1 }

    /// A blocking task is over.
    mutating func cameBack() { isDue = isAllowed }

    /// The loop is about to wait; for how many microseconds it is to do so awake, at most.
    mutating func begin() -> UInt64 {
        isDue = false
        return isPromising ? Self.awakeMicrosecondsMax : 0
    }

    /// Something came.
    mutating func end(afterMicroseconds wait: UInt64) { isPromising = wait <= Self.soonMicroseconds }
}
