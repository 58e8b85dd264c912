import BrokerModel

/// Messages that are left to members by way of the log, and are not in it yet, in the order of the serials of their batches.
struct RelogQueue {
    struct Entry {
        var serial: UInt64 = 0
        let message: Message
        /// What it was in the log before.
        let name: MessageName
        let share: LoggedShare
        let hops: UInt8
        let mark: DealtMark?
    }

    private var entries: [Entry] = []
    /// The messages that wait until the log has room.
    private var held: [Entry] = []
    /// Topics, properties and payloads together.
    private(set) var byteCount = 0

    var isEmpty: Bool { entries.isEmpty }

    mutating func hold(_ entry: Entry) {
        held.append(entry)
        byteCount += entry.message.byteCount
    }

    mutating func takeHeld() -> [Entry] {
        defer { held = [] }
        byteCount -= held.reduce(0) { $0 + $1.message.byteCount }
        return held
    }

    mutating func append(_ entry: Entry) {
        entries.append(entry)
        byteCount += entry.message.byteCount
    }

    /// Takes those up to a serial.
    mutating func take(through serial: UInt64) -> [Entry] {
        let taken = Array(entries.prefix { $0.serial <= serial })
        entries.removeFirst(taken.count)
        byteCount -= taken.reduce(0) { $0 + $1.message.byteCount }
        return taken
    }

    mutating func takeAll() -> [Entry] { take(through: .max) + takeHeld() }
}
