/// What of a queue only the store has.
extension Outbox {
    /// Adds an entry at the end, far from the front.
    mutating func appendFar(_ entry: OutboxEntry) {
        farQueue().append(entry)
        farCount &+= 1
        waitingBytes &+= Int(entry.byteCount)
    }

    /// Adds one at the end that the store has brought back, and nobody has read.
    mutating func appendFar(_ place: StoredPlace) {
        farQueue().append(place)
        farCount &+= 1
        waitingBytes &+= Int(place.byteCount)
    }

    /// Adds one at the end that the store has brought back, and that stays in memory.
    mutating func appendFar(kept entry: OutboxEntry) {
        farQueue().append(kept: entry)
        farCount &+= 1
        waitingBytes &+= Int(entry.byteCount)
    }

    /// The bytes of those that wait in the ring.
    var waitingBytesNear: Int { waitingBytes - (far?.byteCount ?? 0) }

    private mutating func farQueue() -> FarQueue {
        if let far { return far }
        let made = FarQueue()
        far = made
        return made
    }

    /// Moves what is in memory and comes next to the ring's end, as far as there is room in it.
    ///
    /// - Parameters:
    ///   - messagesMax: how many may wait in the ring.
    ///   - bytesMax: their bytes; the last one may go beyond.
    /// - Returns: whether anything was moved, and what the store has to read before more can be; at most half of what may wait.
    mutating func refill(messagesMax: Int, bytesMax: Int) -> (hasMoved: Bool, places: [StoredPlace]) {
        guard let far else { return (false, []) }
        var hasMoved = false
        while waitingNear < messagesMax, waitingBytesNear < bytesMax {
            switch far.takeNext(
                messagesMax: max(1, min(messagesMax / 2, Limits.readMessagesMax)), bytesMax: max(1, bytesMax / 2))
            {
            case .resident(let entry):
                waitingBytes &-= Int(entry.byteCount)
                append(entry)
                hasMoved = true
                noteFar(far)
                if farCount == 0 { return (hasMoved, []) }
            case .stored(let places): return (hasMoved, places)
            case .none: return (hasMoved, [])
            }
        }
        return (hasMoved, [])
    }

    /// The store has answered: the messages that it was asked for, as far as they have not been given up, go to the ring's end.
    ///
    /// - Parameter entry: makes one; nil if it could not be read.
    /// - Returns: those that could not.
    mutating func takeAsked(_ entry: (StoredPlace) -> OutboxEntry?) -> [StoredPlace] {
        guard let far else { return [] }
        var unreadable: [StoredPlace] = []
        for place in far.takeAsked() {
            waitingBytes &-= Int(place.byteCount)
            if let entry = entry(place) { append(entry) } else { unreadable.append(place) }
        }
        noteFar(far)
        return unreadable
    }

    /// Gives up the oldest of them; false if there is none, or its number is higher than `lastNumber`.
    mutating func dropFirstFar(_ journal: Journal?, through lastNumber: UInt64 = .max) -> Bool {
        guard let far else { return false }
        let before = far.byteCount
        guard far.dropFirst(journal, through: lastNumber) else { return false }
        waitingBytes &-= before - far.byteCount
        noteFar(far)
        return true
    }

    /// Takes those out that are in memory, for which `isTaken` says so.
    mutating func removeResidentFar(_ journal: Journal?, where isTaken: (OutboxEntry) -> Bool) {
        guard let far else { return }
        let before = far.byteCount
        far.removeResident(journal, where: isTaken)
        waitingBytes &-= before - far.byteCount
        noteFar(far)
    }

    /// Takes those of them that the store is to read next so that somebody can look at them.
    ///
    /// - Parameters: see `FarQueue.takeUnsifted`.
    /// - Returns: nil behind the last one.
    mutating func takeUnsiftedFar(_ steps: inout Int, bytesMax: Int, through lastNumber: UInt64) -> [StoredPlace]? {
        far?.takeUnsifted(&steps, bytesMax: bytesMax, through: lastNumber)
    }

    /// They have been read: gives up those for which `isDropped` says so, as far as they are still there; the others keep their place.
    mutating func takeSiftedFar(_ journal: Journal?, where isDropped: (StoredPlace) -> Bool) {
        guard let far else { return }
        let before = far.byteCount
        far.takeSifted(journal, where: isDropped)
        waitingBytes &-= before - far.byteCount
        noteFar(far)
    }

    /// Drops all of them.
    mutating func removeFar(_ journal: Journal?) {
        while dropFirstFar(journal) {}
        far = nil
    }

    /// Takes them out as they are, for whoever gives them up later.
    mutating func takeFar() -> FarQueue? {
        guard let taken = far else { return nil }
        waitingBytes &-= taken.byteCount
        (far, farCount) = (nil, 0)
        return taken
    }

    private mutating func noteFar(_ far: FarQueue) {
        farCount = far.count
        if farCount == 0, far.asked.isEmpty { self.far = nil }
    }

    /// Traps where an invariant does not hold. O(all of the queue).
    func checkInvariants() {
        far?.checkInvariants()
        precondition(farCount == far?.count ?? 0, "a queue knows how much of it is far")
        let near = (sentEnd..<count).reduce(0) { $0 + Int(self[$1].byteCount) }
        precondition(waitingBytes == near + (far?.byteCount ?? 0), "a queue knows its bytes")
        let last =
            (sentEnd..<count).last { self[$0].storeNumber != 0 && self[$0].packetIdentifier == 0 }.map { self[$0].storeNumber } ?? 0
        precondition(last == 0 || far.flatMap(\.firstNumber).map { $0 > last } ?? true, "what is far was queued later")
    }
}
