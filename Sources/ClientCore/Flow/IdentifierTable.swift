/// What lies under a packet identifier.
protocol Identified: Sendable {
    var packetIdentifier: UInt16 { get }
}

extension Identified {
    @inline(__always)
    fileprivate mutating func change<Answer>(_ body: (inout Self) -> Answer) -> Answer { body(&self) }
}

/// Entries by packet identifier, without hashing: each lies in the slot of its identifier modulo the number of slots, a power of two.
///
/// Identifiers are given out one after another, so those in use lie side by side. Two that meet in one slot make the table twice as large;
/// our own are chosen so that they do not meet. Invariant: at most half of the slots are taken until there are 65,536.
struct IdentifierTable<Entry: Identified>: Sendable {
    private var slots: [Entry?] = []
    private(set) var count = 0
    /// The identifier that was given out last.
    private var last: UInt16 = 0

    var isEmpty: Bool { count == 0 }

    /// In no order.
    var entries: [Entry] { slots.compactMap { $0 } }

    @inline(__always)
    private func slot(_ identifier: UInt16) -> Int { Int(identifier) & (slots.count &- 1) }

    @inline(__always)
    private func index(_ identifier: UInt16) -> Int? {
        guard count > 0 else { return nil }
        let index = slot(identifier)
        return slots[index]?.packetIdentifier == identifier ? index : nil
    }

    subscript(_ identifier: UInt16) -> Entry? {
        guard let index = index(identifier) else { return nil }
        return slots[index]
    }

    /// Changes the entry where it lies; nil where there is none.
    @inline(__always)
    mutating func change<Answer>(_ identifier: UInt16, _ body: (inout Entry) -> Answer) -> Answer? {
        guard let index = index(identifier) else { return nil }
        return slots[index]?.change(body)
    }

    /// To be called for an identifier that is not in the table.
    mutating func insert(_ entry: Entry) {
        if (count &+ 1) &* 2 > slots.count, slots.count < Self.slotsMax { grow() }
        var index = slot(entry.packetIdentifier)
        while slots[index] != nil {
            grow()
            index = slot(entry.packetIdentifier)
        }
        slots[index] = entry
        count &+= 1
    }

    @discardableResult
    mutating func remove(_ identifier: UInt16) -> Entry? {
        guard let index = index(identifier) else { return nil }
        count &-= 1
        return slots[index].take()
    }

    /// An identifier that is not in use: the one after the last, unless it or its slot is taken; nil when all 65,535 are in use.
    /// [MQTT-2.2.1-3 v5]
    mutating func takeIdentifier() -> UInt16? {
        guard count < Int(UInt16.max) else { return nil }
        if (count &+ 1) &* 2 > slots.count, slots.count < Self.slotsMax { grow() }
        repeat { last = last == .max ? 1 : last &+ 1 } while slots[slot(last)] != nil
        return last
    }

    mutating func removeAll() { self = IdentifierTable() }

    /// Gives the memory back when nothing lies there.
    mutating func trim() {
        if count == 0 { slots = [] }
    }

    private mutating func grow() {
        let entries = slots
        slots = Array(repeating: nil, count: max(Self.slotsMin, entries.count * 2))
        for case let entry? in entries { slots[slot(entry.packetIdentifier)] = entry }
    }

    private static var slotsMin: Int { 8 }
    private static var slotsMax: Int { Int(UInt16.max) + 1 }
}
