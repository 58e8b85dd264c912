import Bytes
import MQTTCodec

/// The part of a queue behind what memory holds of it: the store has it, and memory a count.
///
///     the queue's front ◄── asked ◄── numbers, with `pinned` among them ◄── arriving ◄── a message
///                             │          rows of the store                  │
///                             └─ being read by the store                    └─ not durable yet
///
/// What a share group has given the session stays in memory, for it may have to go to another member at any time:
/// `pinned` has those, in the order of their marks among `numbers`.
///
/// A command that looks for topics goes through `numbers` and has the store read some of them at a time; what stays is
/// sifted:
///
///     the queue's front ◄── sifted ◄── asked ◄── unsifted ◄── arriving
///
/// Invariants: `numbers` has as many marks as there are in `pinned`, of which `vacantCount` are vacant; numbers rise
/// from the front to `arriving`; `byteCount` is of all of them; `isSifting` only while something was asked for.
/// Owned by a session's queue, which has one only while there is something in it.
final class PagedQueue {
    /// The entries that the store was asked for, oldest first; nil in place of one that was given up meanwhile.
    private(set) var asked: [PagedEntry?] = []
    private(set) var numbers = SiftedNumbers()
    /// Whether they were asked for to be looked at: then they stand behind what is sifted, and do not move to the
    /// front.
    private(set) var isSifting = false
    // Whoever takes a message out of one of these owns what it holds.
    private(set) var pinned = Deque<QueueEntry>()
    private(set) var arriving = Deque<QueueEntry>()
    private var askedCount = 0
    /// Places in `pinned` of messages that were taken out: they go when their turn comes.
    private var vacantCount = 0
    /// Topics, properties and payloads together.
    private(set) var byteCount = 0

    var count: Int { askedCount + numbers.count - vacantCount + arriving.count }
    /// How many the store alone has.
    var storedCount: Int { askedCount + numbers.count - pinned.count }
    /// Bytes of memory, without messages.
    var heldBytes: Int { numbers.heldBytes + (pinned.capacity + arriving.capacity) * MemoryLayout<QueueEntry?>.stride }

    /// Whether something could be durable by now.
    var hasArriving: Bool { !arriving.isEmpty }

    /// Adds a message at the end.
    func append(_ entry: QueueEntry) {
        arriving.append(entry)
        byteCount += Int(entry.byteCount)
    }

    /// Adds one at the end that the store alone has.
    func append(_ place: PagedEntry) {
        precondition(arriving.isEmpty, "what is stored stands before what is not")
        numbers.append(.stored(place))
        byteCount += Int(place.byteCount)
    }

    /// Adds one at the end that the store has too.
    func append(pinned entry: QueueEntry) {
        precondition(arriving.isEmpty, "what is stored stands before what is not")
        numbers.append(.pinned)
        pinned.append(entry)
        byteCount += Int(entry.byteCount)
    }

    /// Lets go of the messages that are durable by now: those with a row up to `persistedNumber`.
    func pageOut(through persistedNumber: UInt64, _ journal: Journal) {
        while let entry = arriving.first, entry.storeNumber <= persistedNumber {
            var entry = entry
            _ = arriving.popFirst()
            guard entry.storeNumber != 0, entry.group == 0 else {
                numbers.append(.pinned)
                pinned.append(entry)
                continue
            }
            let payload = entry.payload?.number ?? entry.message?.with { $0.stored?.number } ?? 0
            if payload != 0 { journal.holdShared(payload) }
            numbers.append(.stored(PagedEntry(number: entry.storeNumber, payload: payload, byteCount: entry.byteCount)))
            entry.releaseMessage()
        }
    }

    /// What may move to the queue's front.
    enum Next {
        /// This message, which is in memory; it is taken.
        case resident(QueueEntry)
        /// These, when they have been read.
        case stored([PagedEntry])
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
        if nextNumber() == .pinned {
            guard let entry = popKept() else { preconditionFailure("a mark without its message") }
            return resident(entry)
        }
        return arriving.popFirst().map { resident($0) } ?? .none
    }

    /// What comes next and has not been taken out.
    private func nextNumber() -> EntryNumbers.Element? {
        while vacantCount > 0, numbers.first() == .pinned, pinned.first?.state == .vacant {
            _ = (numbers.popFirst(), pinned.popFirst())
            vacantCount -= 1
        }
        return numbers.first()
    }

    private func resident(_ entry: QueueEntry) -> Next {
        byteCount -= Int(entry.byteCount)
        return .resident(entry)
    }

    /// The store has answered: takes those that it was asked for and that are still there.
    func takeAsked() -> [PagedEntry] {
        precondition(!isSifting, "what is looked at keeps its place")
        defer { (asked, askedCount) = ([], 0) }
        let taken = asked.compactMap { $0 }
        byteCount -= taken.reduce(0) { $0 + Int($1.byteCount) }
        return taken
    }

    // MARK: Looking through

    /// Takes those that the store is to read next so that somebody can look at them; `takeSifted` follows. What memory
    /// has is passed by.
    ///
    /// - Parameters:
    ///   - steps: how many elements may be passed by and asked for; counts down.
    ///   - bytesMax: what those that are asked for may have together; the last one may go beyond.
    ///   - lastNumber: what is behind it is not looked at.
    /// - Returns: nil behind the last one. Empty if more are to be passed by first, or the store has not answered.
    func takeUnsifted(_ steps: inout Int, bytesMax: Int, through lastNumber: UInt64) -> [PagedEntry]? {
        guard asked.isEmpty else { return [] }
        var (places, bytes): ([PagedEntry], Int) = ([], 0)
        while steps > 0, bytes < bytesMax {
            guard let next = numbers.firstUnsifted() else { break }
            if case .stored(let place) = next {
                guard place.number <= lastNumber else { break }
                places.append(place)
                bytes += Int(place.byteCount)
            } else {
                // It stands behind all that was asked for before it.
                guard places.isEmpty else { break }
                numbers.append(sifted: next)
            }
            _ = numbers.popUnsifted()
            steps -= 1
        }
        if places.isEmpty, steps > 0 { return nil }
        (asked, askedCount, isSifting) = (places, places.count, !places.isEmpty)
        return places
    }

    /// The store has answered: gives up those for which `isDropped` says so, as far as they are still there, and puts
    /// the others back in their place.
    func takeSifted(_ journal: Journal?, where isDropped: (PagedEntry) -> Bool) {
        guard isSifting else { return }
        let taken = asked.compactMap { $0 }
        (asked, askedCount, isSifting) = ([], 0, false)
        for place in taken {
            if isDropped(place) { giveUp(place, journal) } else { numbers.append(sifted: .stored(place)) }
        }
    }

    /// Nobody looks through the queue any more.
    func endSifting() { numbers.join() }

    /// Gives up the oldest message; false if there is none, or its number is higher than `lastNumber`.
    func dropFirst(_ journal: Journal?, through lastNumber: UInt64 = .max) -> Bool {
        let next = nextNumber()
        if !(isSifting && numbers.hasSifted), let place = asked.firstIndex(where: { $0 != nil }), let given = asked[place] {
            guard given.number <= lastNumber else { return false }
            asked[place] = nil
            askedCount -= 1
            giveUp(given, journal)
            return true
        }
        switch next {
        case .stored(let place):
            guard place.number <= lastNumber else { return false }
            _ = numbers.popFirst()
            giveUp(place, journal)
        case .pinned:
            guard pinned.first.map({ $0.storeNumber <= lastNumber }) ?? true else { return false }
            guard let entry = popKept() else { preconditionFailure("a mark without its message") }
            giveUp(entry, journal)
        case nil:
            guard let first = arriving.first, first.storeNumber <= lastNumber, let entry = arriving.popFirst() else { return false }
            giveUp(entry, journal)
        }
        return true
    }

    private func popKept() -> QueueEntry? {
        _ = numbers.popFirst()
        return pinned.popFirst()
    }

    private func giveUp(_ place: PagedEntry, _ journal: Journal?) {
        byteCount -= Int(place.byteCount)
        guard let journal else { return }
        journal.endEntry(place.number, hasFlow: false)
        if place.payload != 0 { journal.letGoShared(place.payload) }
    }

    private func giveUp(_ entry: QueueEntry, _ journal: Journal?) {
        var entry = entry
        byteCount -= Int(entry.byteCount)
        if entry.storeNumber != 0 { journal?.endEntry(entry.storeNumber, hasFlow: false) }
        entry.releaseMessage()
    }

    /// Takes those of the messages in memory for which `isTaken` says so, in their order; who takes one ends its row,
    /// unless it has a journal here. O(messages in memory): of the others it does not matter how many there are.
    func removeResident(_ journal: Journal?, where isTaken: (QueueEntry) -> Bool) {
        for index in pinned.indices where pinned[index].state != .vacant && isTaken(pinned[index]) {
            giveUp(pinned[index], journal)
            pinned[index] = QueueEntry(stored: 0, byteCount: 0, detail: nil, qos: .atMostOnce, retain: false)
            pinned[index].state = .vacant
            vacantCount += 1
        }
        arriving.removeAll { entry in
            guard isTaken(entry) else { return false }
            giveUp(entry, journal)
            return true
        }
        if vacantCount > Limits.vacantSlotsMax, vacantCount > numbers.count / 2 { compact() }
    }

    /// Lets go of vacant slots, when they are most of all: O(all of the queue), for as many removals.
    private func compact() {
        var (left, staying) = (SiftedNumbers(), Deque<QueueEntry>())
        while !numbers.isEmpty {
            let isSifted = numbers.hasSifted
            guard let element = numbers.popFirst() else { break }
            if element == .pinned {
                guard let entry = pinned.popFirst() else { preconditionFailure("a mark without its message") }
                guard entry.state != .vacant else { continue }
                staying.append(entry)
            }
            if isSifted { left.append(sifted: element) } else { left.append(element) }
        }
        (numbers, pinned, vacantCount) = (left, staying, 0)
    }

    /// The lowest number that the store alone has; nil for none. For tests.
    var firstNumber: UInt64? { inOrder.lazy.compactMap { if case .stored(let place) = $0 { place.number } else { nil } }.first }

    /// All that stand before `arriving`, in the queue's order. O(all of the queue).
    private var inOrder: [EntryNumbers.Element] {
        let asked = asked.compactMap { $0.map { EntryNumbers.Element.stored($0) } }
        var (copy, elements) = (numbers, isSifting ? [] : asked)
        while copy.hasSifted, let element = copy.popFirst() { elements.append(element) }
        if isSifting { elements += asked }
        while let element = copy.popFirst() { elements.append(element) }
        return elements
    }

    /// O(all of the queue). Traps where an invariant does not hold, or the numbers of a store that is not damaged.
    func checkInvariants() {
        numbers.checkInvariants()
        precondition(askedCount == asked.count { $0 != nil }, "what was asked for is counted")
        precondition(!isSifting || !asked.isEmpty, "nothing is looked at that was not asked for")
        var (marks, last): (Int, UInt64) = (0, 0)
        for element in inOrder {
            guard case .stored(let place) = element else {
                marks += 1
                continue
            }
            precondition(place.number > last, "numbers rise along a queue")
            last = place.number
        }
        precondition(marks == pinned.count, "each mark has its message")
        precondition(vacantCount == pinned.count { $0.state == .vacant }, "what was taken out is counted")
        let bytes =
            asked.reduce(0) { $0 + Int($1?.byteCount ?? 0) }
            + (Array(pinned) + arriving).reduce(0) { $0 + Int($1.byteCount) }
        precondition(bytes + numbers.byteCount == byteCount, "a queue knows how much is in it")
        precondition(
            (Array(pinned) + arriving).allSatisfy { $0.state != .sent && $0.packetIdentifier == 0 }, "none was sent")
    }
}

extension Limits {
    /// Places in a long queue whose messages were taken out; beyond them, when they are half of it, the queue is
    /// written anew. Bytes: 32 each.
    static let vacantSlotsMax = 1024
}
