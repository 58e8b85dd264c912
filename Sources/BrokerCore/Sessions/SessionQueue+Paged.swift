/// What of a queue only the store has.
extension SessionQueue {
    /// Adds an entry at the end, behind those in memory.
    mutating func appendPaged(_ entry: QueueEntry) {
        pagedQueue().append(entry)
        pagedCount &+= 1
        waitingBytes &+= Int(entry.byteCount)
    }

    /// Adds one at the end that the store has brought back, and nobody has read.
    mutating func appendPaged(_ place: PagedEntry) {
        pagedQueue().append(place)
        pagedCount &+= 1
        waitingBytes &+= Int(place.byteCount)
    }

    /// Adds one at the end that the store has brought back, and that stays in memory.
    mutating func appendPaged(pinned entry: QueueEntry) {
        pagedQueue().append(pinned: entry)
        pagedCount &+= 1
        waitingBytes &+= Int(entry.byteCount)
    }

    /// The bytes of those that wait in the ring.
    var waitingBytesResident: Int { waitingBytes - (paged?.byteCount ?? 0) }

    private mutating func pagedQueue() -> PagedQueue {
        if let paged { return paged }
        let made = PagedQueue()
        paged = made
        return made
    }

    /// Moves what is in memory and comes next to the ring's end, as far as there is room in it.
    ///
    /// - Parameters:
    ///   - messagesMax: how many may wait in the ring.
    ///   - bytesMax: their bytes; the last one may go beyond.
    /// - Returns: whether anything was moved, and what the store has to read before more can be; at most half of what
    ///   may wait.
    mutating func refill(messagesMax: Int, bytesMax: Int) -> (hasMoved: Bool, places: [PagedEntry]) {
        guard let paged else { return (false, []) }
        var hasMoved = false
        while waitingResident < messagesMax, waitingBytesResident < bytesMax {
            switch paged.takeNext(
                messagesMax: max(1, min(messagesMax / 2, Limits.readMessagesMax)), bytesMax: max(1, bytesMax / 2))
            {
            case .resident(let entry):
                waitingBytes &-= Int(entry.byteCount)
                append(entry)
                hasMoved = true
                updatePagedCount(paged)
                if pagedCount == 0 { return (hasMoved, []) }
            case .stored(let places): return (hasMoved, places)
            case .none: return (hasMoved, [])
            }
        }
        return (hasMoved, [])
    }

    /// The store has answered: the messages that it was asked for, as far as they have not been given up, go to the
    /// ring's end.
    ///
    /// - Parameter entry: makes one; nil if it could not be read.
    /// - Returns: those that could not.
    mutating func takeAsked(_ entry: (PagedEntry) -> QueueEntry?) -> [PagedEntry] {
        guard let paged else { return [] }
        var unreadable: [PagedEntry] = []
        for place in paged.takeAsked() {
            waitingBytes &-= Int(place.byteCount)
            if let entry = entry(place) { append(entry) } else { unreadable.append(place) }
        }
        updatePagedCount(paged)
        return unreadable
    }

    /// Gives up the oldest of them; false if there is none, or its number is higher than `lastNumber`.
    mutating func dropFirstPaged(_ journal: Journal?, through lastNumber: UInt64 = .max) -> Bool {
        guard let paged else { return false }
        let before = paged.byteCount
        guard paged.dropFirst(journal, through: lastNumber) else { return false }
        waitingBytes &-= before - paged.byteCount
        updatePagedCount(paged)
        return true
    }

    /// Takes those out that are in memory, for which `isTaken` says so.
    mutating func removePinned(_ journal: Journal?, where isTaken: (QueueEntry) -> Bool) {
        guard let paged else { return }
        let before = paged.byteCount
        paged.removeResident(journal, where: isTaken)
        waitingBytes &-= before - paged.byteCount
        updatePagedCount(paged)
    }

    /// Takes those of them that the store is to read next so that somebody can look at them.
    ///
    /// - Parameters: see `PagedQueue.takeUnsifted`.
    /// - Returns: nil behind the last one.
    mutating func takeUnsiftedPaged(_ steps: inout Int, bytesMax: Int, through lastNumber: UInt64) -> [PagedEntry]? {
        paged?.takeUnsifted(&steps, bytesMax: bytesMax, through: lastNumber)
    }

    /// They have been read: gives up those for which `isDropped` says so, as far as they are still there; the others
    /// keep their place.
    mutating func takeSiftedPaged(_ journal: Journal?, where isDropped: (PagedEntry) -> Bool) {
        guard let paged else { return }
        let before = paged.byteCount
        paged.takeSifted(journal, where: isDropped)
        waitingBytes &-= before - paged.byteCount
        updatePagedCount(paged)
    }

    /// Drops all of them.
    mutating func removePaged(_ journal: Journal?) {
        while dropFirstPaged(journal) {}
        paged = nil
    }

    /// Takes them out as they are, for whoever gives them up later.
    mutating func takePaged() -> PagedQueue? {
        guard let taken = paged else { return nil }
        waitingBytes &-= taken.byteCount
        (paged, pagedCount) = (nil, 0)
        return taken
    }

    private mutating func updatePagedCount(_ paged: PagedQueue) {
        pagedCount = paged.count
        if pagedCount == 0, paged.asked.isEmpty { self.paged = nil }
    }

    /// Traps where an invariant does not hold. O(all of the queue).
    func checkInvariants() {
        paged?.checkInvariants()
        precondition(pagedCount == paged?.count ?? 0, "a queue knows how much of it is far")
        let near = (sentEnd..<count).reduce(0) { $0 + Int(self[$1].byteCount) }
        precondition(waitingBytes == near + (paged?.byteCount ?? 0), "a queue knows its bytes")
        let last =
            (sentEnd..<count).last { self[$0].storeNumber != 0 && self[$0].packetIdentifier == 0 }.map { self[$0].storeNumber } ?? 0
        precondition(last == 0 || paged.flatMap(\.firstNumber).map { $0 > last } ?? true, "what is far was queued later")
    }
}
