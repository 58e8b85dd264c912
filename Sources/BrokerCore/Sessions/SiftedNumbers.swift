/// The rows of a queue's far part, some of them looked through: what an order has found that stays, and behind it what was not looked at.
///
///     first ◄── sifted ◄── (what is being looked at) ◄── unsifted ◄── append
///
/// Without such an order all are unsifted. Belongs to a `PagedQueue`.
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

    /// What is to be looked at next; nil if there is nothing.
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
