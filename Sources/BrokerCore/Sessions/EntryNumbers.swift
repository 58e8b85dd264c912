/// Which rows of the store a part of a queue is, in the queue's order: first in, first out, and nothing else of the
/// messages.
///
/// A row's number mostly follows the one before at the same distance as that one did its own, so equal steps are
/// counted, and others written down in a few bytes each: five million messages of one publisher take some hundred
/// bytes, five million of any a few each.
///
///     chunks ▼ first           the last written ▼        open ▼
///     [ step | step ×3 | … ][ … ][ … | step ×9 ]    [ step × n ]
///
/// Invariants: `count` is that of the steps not taken, `byteCount` the sum of what they say. Numbers rise, but for
/// those of a damaged store. Belongs to a `PagedQueue`.
struct EntryNumbers {
    /// A message that waits.
    enum Element: Equatable {
        case stored(PagedEntry)
        /// One that is in memory all the same, at the front of those.
        case pinned
    }

    /// How an element follows the one before.
    private struct Step: Equatable {
        var distance: UInt64 = 0
        /// From the entry's number to that of its message, if the entry does not have it.
        var payloadDistance: UInt64 = 0
        var byteCount: UInt32 = 0
        var isShared = false
        var isPinned = false
    }

    private enum Flag {
        static let pinned: UInt8 = 1
        static let shared: UInt8 = 2
        /// A count follows.
        static let repeated: UInt8 = 4
        /// Distances are in numbers of one shard, 256 apart.
        static let ofOneShard: UInt8 = 8
        /// As many bytes as the step before.
        static let sameBytes: UInt8 = 16
    }

    /// Elements, pinned ones included.
    private(set) var count = 0
    /// Topics, properties and payloads of the stored ones together.
    private(set) var byteCount = 0
    private var chunks: [[UInt8]] = []
    /// Where the next step stands in the first chunk.
    private var position = 0
    /// The step that was read last, and how often it still has to be taken.
    private var current = Step()
    private var currentLeft = 0
    private var lastTaken: UInt64 = 0
    /// The step being counted, which is not in a chunk yet.
    private var open = Step()
    private var openCount = 0
    private var lastAdded: UInt64 = 0
    /// Of the step before in each direction.
    private var readBytes: UInt32 = 0
    private var writtenBytes: UInt32 = 0

    var isEmpty: Bool { count == 0 }
    /// Bytes of memory that the steps take.
    var heldBytes: Int { chunks.count * Self.chunkBytes }

    /// Adds an element.
    mutating func append(_ element: Element) {
        var step = Step()
        switch element {
        case .pinned: step.isPinned = true
        case .stored(let place):
            step = Step(
                distance: place.number &- lastAdded, payloadDistance: place.payload &- place.number, byteCount: place.byteCount,
                isShared: place.payload != 0)
            if !step.isShared { step.payloadDistance = 0 }
            lastAdded = place.number
            byteCount += Int(place.byteCount)
        }
        count += 1
        if openCount > 0, step == open {
            openCount += 1
        } else {
            writeOpen()
            (open, openCount) = (step, 1)
        }
    }

    /// What comes next; nil if there is nothing.
    mutating func first() -> Element? {
        guard count > 0 else { return nil }
        if currentLeft == 0 { readNext() }
        return element(current)
    }

    /// Takes what comes next; nil if there is nothing.
    mutating func popFirst() -> Element? {
        guard let element = first() else { return nil }
        count -= 1
        currentLeft -= 1
        if case .stored(let place) = element {
            lastTaken = place.number
            byteCount -= Int(place.byteCount)
        }
        // Numbers may begin anew with a queue that was empty.
        if count == 0 { self = EntryNumbers() }
        return element
    }

    private func element(_ step: Step) -> Element {
        if step.isPinned { return .pinned }
        let number = lastTaken &+ step.distance
        return .stored(
            PagedEntry(number: number, payload: step.isShared ? number &+ step.payloadDistance : 0, byteCount: step.byteCount))
    }

    // MARK: Bytes

    private mutating func writeOpen() {
        guard openCount > 0 else { return }
        if chunks.last.map({ $0.count + Self.roomOfStep > Self.chunkBytes }) ?? true {
            var chunk: [UInt8] = []
            chunk.reserveCapacity(Self.chunkBytes)
            chunks.append(chunk)
        }
        let isOfOneShard = open.distance & 0xff == 0 && open.payloadDistance & 0xff == 0
        let isSame = open.byteCount == writtenBytes
        let flags =
            (open.isPinned ? Flag.pinned : 0) | (open.isShared ? Flag.shared : 0) | (openCount > 1 ? Flag.repeated : 0)
            | (isOfOneShard ? Flag.ofOneShard : 0) | (isSame ? Flag.sameBytes : 0)
        let last = chunks.count - 1
        chunks[last].append(flags)
        if !open.isPinned {
            Self.write(distance: open.distance, isOfOneShard, to: &chunks[last])
            if open.isShared { Self.write(distance: open.payloadDistance, isOfOneShard, to: &chunks[last]) }
            if !isSame { Self.write(UInt64(open.byteCount), to: &chunks[last]) }
            writtenBytes = open.byteCount
        }
        if openCount > 1 { Self.write(UInt64(openCount), to: &chunks[last]) }
        openCount = 0
    }

    private mutating func readNext() {
        guard !chunks.isEmpty else {
            (current, currentLeft) = (open, openCount)
            openCount = 0
            readBytes = writtenBytes
            return
        }
        let flags = chunks[0][position]
        position += 1
        var step = Step()
        step.isPinned = flags & Flag.pinned != 0
        step.isShared = flags & Flag.shared != 0
        if !step.isPinned {
            step.distance = readDistance(flags)
            if step.isShared { step.payloadDistance = readDistance(flags) }
            if flags & Flag.sameBytes == 0 { readBytes = UInt32(truncatingIfNeeded: readNumber()) }
            step.byteCount = readBytes
        }
        currentLeft = flags & Flag.repeated != 0 ? Int(readNumber()) : 1
        current = step
        if position == chunks[0].count {
            chunks.removeFirst()
            position = 0
        }
    }

    /// Distances may go back, too: the lowest bit says so.
    private static func write(distance: UInt64, _ isOfOneShard: Bool, to chunk: inout [UInt8]) {
        let signed = Int64(bitPattern: distance) >> (isOfOneShard ? 8 : 0)
        write(UInt64(bitPattern: (signed << 1) ^ (signed >> 63)), to: &chunk)
    }

    private mutating func readDistance(_ flags: UInt8) -> UInt64 {
        let folded = readNumber()
        let signed = Int64(bitPattern: folded >> 1) ^ -Int64(bitPattern: folded & 1)
        return UInt64(bitPattern: signed << (flags & Flag.ofOneShard != 0 ? 8 : 0))
    }

    private mutating func readNumber() -> UInt64 {
        var (value, shift): (UInt64, UInt64) = (0, 0)
        while true {
            let byte = chunks[0][position]
            position += 1
            value |= UInt64(byte & 0x7f) << shift
            guard byte & 0x80 != 0 else { return value }
            shift += 7
        }
    }

    private static func write(_ number: UInt64, to chunk: inout [UInt8]) {
        var rest = number
        while rest >= 0x80 {
            chunk.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        chunk.append(UInt8(rest))
    }

    private static let chunkBytes = 4096
    /// Flags, three numbers of up to ten bytes and one of up to five.
    private static let roomOfStep = 36

    /// O(all elements). Traps where an invariant does not hold.
    func checkInvariants() {
        var copy = self
        var (found, bytes) = (0, 0)
        while let element = copy.popFirst() {
            found += 1
            if case .stored(let place) = element { bytes += Int(place.byteCount) }
        }
        precondition(found == count && bytes == byteCount, "a queue knows how much is in it")
    }
}

/// A message of a queue that the store has and memory does not.
struct PagedEntry: Equatable {
    /// That of the entry's row.
    let number: UInt64
    /// That of the row that holds the message, if the entry's own does not; else 0. The queue has a reference to it.
    let payload: UInt64
    /// Topic, properties and payload together.
    let byteCount: UInt32
}

/// The rows of a queue's paged part, some of them looked through: what a command has found that stays, and behind it
/// what was not looked at.
///
///     first ◄── sifted ◄── (what is being looked at) ◄── unsifted ◄── append
///
/// Without such a command all are unsifted. Belongs to a `PagedQueue`.
struct SiftedNumbers {
    private var sifted = EntryNumbers()
    private var unsifted = EntryNumbers()

    var count: Int { sifted.count + unsifted.count }
    /// Topics, properties and payloads of the stored ones together.
    var byteCount: Int { sifted.byteCount + unsifted.byteCount }
    /// Bytes of memory that they take.
    var heldBytes: Int { sifted.heldBytes + unsifted.heldBytes }
    var isEmpty: Bool { count == 0 }
    /// Whether any were looked through that are still there.
    var hasSifted: Bool { !sifted.isEmpty }

    /// Adds an element that nobody has looked at.
    mutating func append(_ element: EntryNumbers.Element) { unsifted.append(element) }

    /// Adds one behind those that were looked through.
    mutating func append(sifted element: EntryNumbers.Element) { sifted.append(element) }

    /// What comes next of all; nil if there is nothing.
    mutating func first() -> EntryNumbers.Element? { sifted.first() ?? unsifted.first() }

    /// Takes what comes next of all; nil if there is nothing.
    mutating func popFirst() -> EntryNumbers.Element? { sifted.popFirst() ?? unsifted.popFirst() }

    /// The entry to look at next; nil if there is none.
    mutating func firstUnsifted() -> EntryNumbers.Element? { unsifted.first() }

    /// Takes what is to be looked at next; nil if there is nothing.
    mutating func popUnsifted() -> EntryNumbers.Element? { unsifted.popFirst() }

    /// Nobody looks through them any more: all can be looked at anew. O(those that were not looked at).
    mutating func join() {
        guard hasSifted else { return }
        while let element = unsifted.popFirst() { sifted.append(element) }
        (sifted, unsifted) = (EntryNumbers(), sifted)
    }

    /// O(all elements). Traps where an invariant does not hold.
    func checkInvariants() {
        sifted.checkInvariants()
        unsifted.checkInvariants()
    }
}
