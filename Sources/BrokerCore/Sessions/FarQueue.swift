/// The part of a queue behind what memory holds of it: the store has it, and memory a count.
///
///     the queue's front ◄── asked ◄── numbers, with `kept` among them ◄── arriving ◄── a message
///                             │          rows of the store                  │
///                             └─ being read by the store                    └─ not durable yet
///
/// What a share group has given the session stays in memory, for it may have to go to another member at any time: `kept` has those, in the
/// order of their marks among `numbers`.
///
/// Invariants: `numbers` has as many marks as there are in `kept`; numbers rise from `asked` to `arriving`; `byteCount` is of all of them.
/// Owned by an outbox, which has one only while there is something in it.
final class FarQueue {
    /// Those that the store was asked for, oldest first; nil in place of one that was given up meanwhile.
    private(set) var asked: [StoredPlace?] = []
    private(set) var numbers = EntryNumbers()
    private(set) var kept = EntryLine()
    private(set) var arriving = EntryLine()
    private var askedCount = 0
    /// Topics, properties and payloads together.
    private(set) var byteCount = 0

    var count: Int { askedCount + numbers.count + arriving.count }
    /// How many the store alone has.
    var storedCount: Int { askedCount + numbers.count - kept.count }
    /// Bytes of memory, without messages.
    var heldBytes: Int { numbers.heldBytes + (kept.capacity + arriving.capacity) * MemoryLayout<OutboxEntry>.stride }

    /// Whether something could be durable by now.
    var hasArriving: Bool { !arriving.isEmpty }

    /// Adds a message at the end.
    func append(_ entry: OutboxEntry) {
        arriving.append(entry)
        byteCount += Int(entry.byteCount)
    }

    /// Adds one at the end that the store alone has.
    func append(_ place: StoredPlace) {
        precondition(arriving.isEmpty, "what is stored stands before what is not")
        numbers.append(.stored(place))
        byteCount += Int(place.byteCount)
    }

    /// Adds one at the end that the store has too.
    func append(kept entry: OutboxEntry) {
        precondition(arriving.isEmpty, "what is stored stands before what is not")
        numbers.append(.kept)
        kept.append(entry)
        byteCount += Int(entry.byteCount)
    }

    /// Lets go of the messages that are durable by now: those with a row up to `persistedNumber`.
    func pageOut(through persistedNumber: UInt64, _ journal: Journal) {
        while let entry = arriving.first, entry.storeNumber <= persistedNumber {
            var entry = entry
            _ = arriving.popFirst()
            guard entry.storeNumber != 0, entry.group == 0 else {
                numbers.append(.kept)
                kept.append(entry)
                continue
            }
            let payload = entry.payload?.number ?? entry.message?.with { $0.stored?.number } ?? 0
            if payload != 0 { journal.holdShared(payload) }
            numbers.append(.stored(StoredPlace(number: entry.storeNumber, payload: payload, byteCount: entry.byteCount)))
            entry.releaseMessage()
        }
    }

    /// What may move to the queue's front.
    enum Next {
        /// This message, which is in memory; it is taken.
        case resident(OutboxEntry)
        /// These, when they have been read.
        case stored([StoredPlace])
        /// Nothing before the store has answered.
        case none
    }

    /// Takes what comes next.
    ///
    /// - Parameters:
    ///   - messagesMax: how many messages may be asked for.
    ///   - bytesMax: what they may have together; the last one may go beyond.
    func takeNext(messagesMax: Int, bytesMax: Int) -> Next {
        guard asked.isEmpty else { return .none }
        var bytes = 0
        while asked.count < messagesMax, bytes < bytesMax, case .stored(let place) = numbers.first() {
            _ = numbers.popFirst()
            asked.append(place)
            bytes += Int(place.byteCount)
        }
        askedCount = asked.count
        if !asked.isEmpty { return .stored(asked.compactMap { $0 }) }
        if numbers.popFirst() == .kept {
            guard let entry = kept.popFirst() else { preconditionFailure("a mark without its message") }
            return resident(entry)
        }
        return arriving.popFirst().map { resident($0) } ?? .none
    }

    private func resident(_ entry: OutboxEntry) -> Next {
        byteCount -= Int(entry.byteCount)
        return .resident(entry)
    }

    /// The store has answered: takes those that it was asked for and that are still there.
    func takeAsked() -> [StoredPlace] {
        defer { (asked, askedCount) = ([], 0) }
        let taken = asked.compactMap { $0 }
        byteCount -= taken.reduce(0) { $0 + Int($1.byteCount) }
        return taken
    }

    /// Gives up the oldest message; false if there is none.
    func dropFirst(_ journal: Journal?) -> Bool {
        if let place = asked.firstIndex(where: { $0 != nil }), let given = asked[place] {
            asked[place] = nil
            askedCount -= 1
            giveUp(given, journal)
            return true
        }
        switch numbers.popFirst() {
        case .stored(let place): giveUp(place, journal)
        case .kept:
            guard let entry = kept.popFirst() else { preconditionFailure("a mark without its message") }
            giveUp(entry, journal)
        case nil:
            guard let entry = arriving.popFirst() else { return false }
            giveUp(entry, journal)
        }
        return true
    }

    private func giveUp(_ place: StoredPlace, _ journal: Journal?) {
        byteCount -= Int(place.byteCount)
        guard let journal else { return }
        journal.endEntry(place.number, hasFlow: false)
        if place.payload != 0 { journal.letGoShared(place.payload) }
    }

    private func giveUp(_ entry: OutboxEntry, _ journal: Journal?) {
        var entry = entry
        byteCount -= Int(entry.byteCount)
        if entry.storeNumber != 0 { journal?.endEntry(entry.storeNumber, hasFlow: false) }
        entry.releaseMessage()
    }

    /// Takes those of the messages in memory for which `isTaken` says so, in their order; who takes one ends its row, unless it has a journal
    /// here. O(all of the queue) if there are any.
    func removeResident(_ journal: Journal?, where isTaken: (OutboxEntry) -> Bool) {
        let (staying, isTakenOfKept) = split(kept, isTaken, journal)
        if isTakenOfKept.contains(true) {
            var (left, place) = (EntryNumbers(), 0)
            while let element = numbers.popFirst() {
                if element == .kept {
                    place += 1
                    if isTakenOfKept[place - 1] { continue }
                }
                left.append(element)
            }
            (numbers, kept) = (left, staying)
        }
        arriving = split(arriving, isTaken, journal).staying
    }

    private func split(
        _ line: EntryLine, _ isTaken: (OutboxEntry) -> Bool, _ journal: Journal?
    ) -> (staying: EntryLine, isTaken: [Bool]) {
        var staying = EntryLine()
        let decisions = line.entries.map(isTaken)
        for (entry, isTaken) in zip(line.entries, decisions) {
            if isTaken { giveUp(entry, journal) } else { staying.append(entry) }
        }
        return (staying, decisions)
    }

    /// The lowest number that the store alone has; nil for none. For tests.
    var firstNumber: UInt64? {
        if let place = asked.compactMap({ $0 }).first { return place.number }
        var copy = numbers
        while let element = copy.popFirst() {
            if case .stored(let place) = element { return place.number }
        }
        return nil
    }

    /// O(all of the queue). Traps where an invariant does not hold, or the numbers of a store that is not damaged.
    func checkInvariants() {
        numbers.checkInvariants()
        precondition(askedCount == asked.count { $0 != nil }, "what was asked for is counted")
        var marks = 0
        var last = asked.last { $0 != nil }??.number ?? 0
        var copy = numbers
        while let element = copy.popFirst() {
            guard case .stored(let place) = element else {
                marks += 1
                continue
            }
            precondition(place.number > last, "numbers rise along a queue")
            last = place.number
        }
        precondition(marks == kept.count, "each mark has its message")
        let bytes =
            asked.reduce(0) { $0 + Int($1?.byteCount ?? 0) }
            + (kept.entries + arriving.entries).reduce(0) { $0 + Int($1.byteCount) }
        precondition(bytes + numbers.byteCount == byteCount, "a queue knows how much is in it")
        precondition(
            (kept.entries + arriving.entries).allSatisfy { $0.state == .waiting && $0.packetIdentifier == 0 }, "none was sent")
    }
}

/// Messages in a row, first in, first out. Whoever takes one out owns what it holds.
struct EntryLine {
    private var line: [OutboxEntry] = []
    private var head = 0

    var entries: ArraySlice<OutboxEntry> { line[head...] }
    var count: Int { line.count - head }
    var isEmpty: Bool { head == line.count }
    var first: OutboxEntry? { head < line.count ? line[head] : nil }
    var capacity: Int { line.capacity }

    mutating func append(_ entry: OutboxEntry) { line.append(entry) }

    mutating func popFirst() -> OutboxEntry? {
        guard head < line.count else { return nil }
        defer {
            head += 1
            if head == line.count {
                line.removeAll(keepingCapacity: line.count <= 64)
                head = 0
            } else if head > 1024, head > line.count / 2 {
                line.removeFirst(head)
                head = 0
            }
        }
        return line[head]
    }
}
