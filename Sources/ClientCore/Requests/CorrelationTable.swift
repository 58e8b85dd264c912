/// The requests of a client that have no answer yet, each found by the Correlation Data that its answer repeats.
///
/// Invariant: a request ends once, which gives its waiter out; an answer that comes later finds nobody and is counted as late.
public struct CorrelationTable<Waiter: Sendable>: Sendable {
    /// So many requests may be open at once; what is more is refused.
    public static var openMax: Int { 65_536 }

    private var waiters: [UInt64: Waiter] = [:]
    private var lastNumber: UInt64 = 0
    /// How many answers came to requests that had ended.
    public private(set) var lateCount = 0
    /// How many answers came to no request of this table.
    public private(set) var strangeCount = 0

    public init() {}

    /// How many requests have not ended.
    public var count: Int { waiters.count }

    /// Begins a request, and returns its number; nil if too many are open.
    public mutating func open(_ waiter: Waiter) -> UInt64? {
        guard waiters.count < Self.openMax else { return nil }
        lastNumber += 1
        waiters[lastNumber] = waiter
        return lastNumber
    }

    /// Whether the request has not ended.
    public func isOpen(_ number: UInt64) -> Bool { waiters[number] != nil }

    /// Ends a request, and returns who waits for it; nil if it has ended.
    public mutating func end(_ number: UInt64) -> Waiter? { waiters.removeValue(forKey: number) }

    /// Ends the request whose answer has this Correlation Data; without one the answer is counted as late or strange.
    public mutating func answer(_ correlationData: [UInt8]?) -> Waiter? {
        guard let number = correlationData.flatMap(Self.number), number > 0, number <= lastNumber else {
            strangeCount += 1
            return nil
        }
        let waiter = end(number)
        if waiter == nil { lateCount += 1 }
        return waiter
    }

    /// Ends all requests, and returns who waits, in the order in which the requests began.
    public mutating func endAll() -> [Waiter] {
        waiters.keys.sorted().compactMap { end($0) }
    }

    /// What a request carries and its answer repeats: the number in 8 bytes, the highest first.
    public static func correlationData(_ number: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    }

    private static func number(_ correlationData: [UInt8]) -> UInt64? {
        guard correlationData.count == 8 else { return nil }
        return correlationData.reduce(0) { $0 << 8 | UInt64($1) }
    }
}
