import MQTTCodec

/// The part of a queue behind what memory holds of it: the store has it, and memory a count.
///
///     the queue's front ◄── asked ◄── numbers, with `kept` among them ◄── arriving ◄── a message
///                             │          rows of the store                  │
///                             └─ being read by the store                    └─ not durable yet
///
/// What a share group has given the session stays in memory, for it may have to go to another member at any time: `kept` has those, in the
/// order of their marks among `numbers`.
///
/// Invariants: `numbers` has as many marks as there are in `kept`, of which `vacantCount` are vacant; numbers rise from `asked` to
/// `arriving`; `byteCount` is of all of them.
/// Owned by an outbox, which has one only while there is something in it.
final class FarQueue {
    /// Those that the store was asked for, oldest first; nil in place of one that was given up meanwhile.
    private(set) var asked: [StoredPlace?] = []
    private(set) var numbers = EntryNumbers()
    private(set) var kept = EntryLine()
    private(set) var arriving = EntryLine()
    private var askedCount = 0
    /// Places in `kept` of messages that were taken out: they go when their turn comes.
    private var vacantCount = 0
    /// Topics, properties and payloads together.
    private(set) var byteCount = 0

    var count: Int { askedCount + numbers.count - vacantCount + arriving.count }
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
        while asked.count < messagesMax, bytes < bytesMax, case .stored(let place) = nextNumber() {
            _ = numbers.popFirst()
            asked.append(place)
            bytes += Int(place.byteCount)
        }
        askedCount = asked.count
        if !asked.isEmpty { return .stored(asked.compactMap { $0 }) }
        if nextNumber() == .kept {
            guard let entry = popKept() else { preconditionFailure("a mark without its message") }
            return resident(entry)
        }
        return arriving.popFirst().map { resident($0) } ?? .none
    }

    /// What comes next and has not been taken out.
    private func nextNumber() -> EntryNumbers.Element? {
        while vacantCount > 0, numbers.first() == .kept, kept.first?.state == .vacant {
            _ = (numbers.popFirst(), kept.popFirst())
            vacantCount -= 1
        }
        return numbers.first()
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
        switch nextNumber() {
        case .stored(let place):
            _ = numbers.popFirst()
            giveUp(place, journal)
        case .kept:
            guard let entry = popKept() else { preconditionFailure("a mark without its message") }
            giveUp(entry, journal)
        case nil:
            guard let entry = arriving.popFirst() else { return false }
            giveUp(entry, journal)
        }
        return true
    }

    private func popKept() -> OutboxEntry? {
        _ = numbers.popFirst()
        return kept.popFirst()
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
    /// here. O(messages in memory): of the others it does not matter how many there are.
    func removeResident(_ journal: Journal?, where isTaken: (OutboxEntry) -> Bool) {
        kept.change { entry in
            guard entry.state != .vacant, isTaken(entry) else { return }
            giveUp(entry, journal)
            entry = OutboxEntry(stored: 0, byteCount: 0, detail: nil, qos: .atMostOnce, retain: false)
            entry.state = .vacant
            vacantCount += 1
        }
        var staying = EntryLine()
        for entry in arriving.entries {
            if isTaken(entry) { giveUp(entry, journal) } else { staying.append(entry) }
        }
        arriving = staying
        if vacantCount > Limits.vacantPlacesMax, vacantCount > numbers.count / 2 { compact() }
    }

    /// Lets go of vacant places, when they are most of all: O(all of the queue), for as many removals.
    private func compact() {
        var (left, staying) = (EntryNumbers(), EntryLine())
        while let element = numbers.popFirst() {
            guard element == .kept else {
                left.append(element)
                continue
            }
            guard let entry = kept.popFirst() else { preconditionFailure("a mark without its message") }
            guard entry.state != .vacant else { continue }
            left.append(element)
            staying.append(entry)
        }
        (numbers, kept, vacantCount) = (left, staying, 0)
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
        precondition(vacantCount == kept.entries.count { $0.state == .vacant }, "what was taken out is counted")
        let bytes =
            asked.reduce(0) { $0 + Int($1?.byteCount ?? 0) }
            + (kept.entries + arriving.entries).reduce(0) { $0 + Int($1.byteCount) }
        precondition(bytes + numbers.byteCount == byteCount, "a queue knows how much is in it")
        precondition(
            (kept.entries + arriving.entries).allSatisfy { $0.state != .sent && $0.packetIdentifier == 0 }, "none was sent")
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

    /// Gives each to `body`, oldest first.
    mutating func change(_ body: (inout OutboxEntry) -> Void) {
        for place in head..<line.count { body(&line[place]) }
    }

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
