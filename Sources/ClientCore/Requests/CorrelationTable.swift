/// The requests of a client that have no answer yet, each found by the Correlation Data that its answer repeats.
///
/// Inlinable where it is on a request's way: of a waiter's type that is known it costs a fifth.
///
/// Invariant: a request ends once, which gives its waiter out; an answer that comes later finds nobody and is counted as late.
public struct CorrelationTable<Waiter: Sendable>: Sendable {
    /// So many requests may be open at once; what is more is refused.
    @inlinable
    public static var openMax: Int { 65_536 }

    @usableFromInline
    struct Entry: Sendable {
        @usableFromInline let waiter: Waiter
        @usableFromInline let deadline: Duration
        @usableFromInline let byteCount: Int

        @inlinable
        init(_ waiter: Waiter, _ deadline: Duration, _ byteCount: Int) {
            (self.waiter, self.deadline, self.byteCount) = (waiter, deadline, byteCount)
        }
    }

    @usableFromInline var entries: [UInt64: Entry] = [:]
    @usableFromInline var lastNumber: UInt64 = 0
    @usableFromInline var counts = (late: 0, strange: 0)
    @usableFromInline let bytesMax: Int
    @usableFromInline var openBytes = 0
    /// Bytes of the requests that have not ended.
    public var byteCount: Int { openBytes }
    /// How many answers came to requests that had ended.
    public var lateCount: Int { counts.late }
    /// How many answers came to no request of this table.
    public var strangeCount: Int { counts.strange }

    /// - Parameter bytesMax: how many bytes the open requests may have together; what is more is refused, unless it is alone.
    @inlinable
    public init(bytesMax: Int = .max) { self.bytesMax = bytesMax }

    /// How many requests have not ended.
    public var count: Int { entries.count }

    /// Begins a request, and returns its number; nil if too many are open.
    ///
    /// - Parameters:
    ///   - waiter: who hears of its end.
    ///   - deadline: when it ends by itself, as `endDue` and `nextDeadline` count time.
    ///   - byteCount: what it counts against the bound.
    @inlinable
    public mutating func open(_ waiter: Waiter, deadline: Duration, byteCount: Int = 0) -> UInt64? {
        guard entries.count < Self.openMax, entries.isEmpty || openBytes + byteCount <= bytesMax else { return nil }
        lastNumber += 1
        entries[lastNumber] = Entry(waiter, deadline, byteCount)
        openBytes += byteCount
        return lastNumber
    }

    /// Whether the request has not ended.
    @inlinable
    public func isOpen(_ number: UInt64) -> Bool { entries[number] != nil }

    /// Ends a request, and returns who waits for it; nil if it has ended.
    @inlinable
    public mutating func end(_ number: UInt64) -> Waiter? {
        guard let entry = entries.removeValue(forKey: number) else { return nil }
        openBytes -= entry.byteCount
        return entry.waiter
    }

    /// Ends the request whose answer has this Correlation Data; without one the answer is counted as late or strange.
    @inlinable
    public mutating func answer(_ correlationData: [UInt8]?) -> Waiter? {
        guard let number = correlationData.flatMap(Self.number), number > 0, number <= lastNumber else {
            counts.strange += 1
            return nil
        }
        let waiter = end(number)
        if waiter == nil { counts.late += 1 }
        return waiter
    }

    /// Ends all requests, and returns who waits, in the order in which the requests began.
    public mutating func endAll() -> [Waiter] {
        entries.keys.sorted().compactMap { end($0) }
    }

    /// Ends all requests whose deadline has come, and returns who waits, in the order in which the requests began. Linear in those that are open.
    public mutating func endDue(now: Duration) -> [Waiter] {
        entries.filter { $0.value.deadline <= now }.keys.sorted().compactMap { end($0) }
    }

    /// The next deadline; nil if no request is open. Linear in those that are.
    public var nextDeadline: Duration? { entries.values.lazy.map(\.deadline).min() }

    /// What a request carries and its answer repeats: the number in 8 bytes, the highest first.
    public static func correlationData(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    @usableFromInline
    static func number(_ correlationData: [UInt8]) -> UInt64? {
        guard correlationData.count == 8 else { return nil }
        return correlationData.reduce(0) { $0 << 8 | UInt64($1) }
    }
}
