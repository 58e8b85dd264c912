/// The packet identifiers of QoS 2 messages that were received and not yet released, each with what tells its message
/// from another one. [MQTT-4.3.3-10 v5]
///
/// Open addressing in a block that doubles; an emptied set keeps a small block at most, and `removeAll` leaves none.
/// Identifiers are 1 to 65,535; 0 marks a free slot.
struct PacketIdentifierSet {
    /// The identifiers, and behind them the digests.
    private var slots: UnsafeMutablePointer<UInt16>?
    private var mask = -1
    private(set) var count = 0
    /// How many of them stand elsewhere than at home: none as long as a client counts up, and then removal looks at
    /// nobody else.
    private var strayCount = 0
    /// How many slots there are.
    var capacity: Int { mask + 1 }
    /// The bytes of memory of a slot.
    static let slotBytes = MemoryLayout<UInt16>.size + MemoryLayout<UInt32>.size

    func contains(_ packetIdentifier: UInt16) -> Bool { find(packetIdentifier) != nil }

    /// The digest of the message with the identifier; 0 if the identifier is not here, or its digest is not known.
    func digest(of packetIdentifier: UInt16) -> UInt32 { find(packetIdentifier).map { digests.unsafelyUnwrapped[$0] } ?? 0 }

    /// Adds an identifier, or changes what is recorded of it; false if it was there.
    ///
    /// - Parameter digest: what tells its message from another one; 0 for unknown.
    mutating func insert(_ packetIdentifier: UInt16, digest: UInt32 = 0) -> Bool {
        if let slot = find(packetIdentifier) {
            digests.unsafelyUnwrapped[slot] = digest
            return false
        }
        if (count &+ 1) &* 4 > (mask &+ 1) &* 3 { grow() }
        put(packetIdentifier, digest)
        count &+= 1
        return true
    }

    /// Removes an identifier; false if it was not there.
    mutating func remove(_ packetIdentifier: UInt16) -> Bool {
        guard let slots, packetIdentifier != 0 else { return false }
        var gap = home(packetIdentifier)
        while slots[gap] != packetIdentifier {
            if slots[gap] == 0 { return false }
            gap = (gap &+ 1) & mask
        }
        if gap != home(packetIdentifier) { strayCount -= 1 }
        if strayCount > 0 { gap = closeUp(gap, slots) }
        slots[gap] = 0
        count -= 1
        if count == 0, capacity > Limits.packetIdentifiersCapacityMax { removeAll() }
        return true
    }

    /// Moves those behind a gap forward that had to stray past it; returns where the gap is then.
    private mutating func closeUp(_ gap: Int, _ slots: UnsafeMutablePointer<UInt16>) -> Int {
        let digests = digests.unsafelyUnwrapped
        var gap = gap
        var next = (gap &+ 1) & mask
        while slots[next] != 0 {
            let home = home(slots[next])
            if (next &- home) & mask >= (next &- gap) & mask {
                slots[gap] = slots[next]
                digests[gap] = digests[next]
                if gap == home { strayCount -= 1 }
                gap = next
            }
            next = (next &+ 1) & mask
        }
        return gap
    }

    /// Calls `body` with each identifier, in no order that means anything.
    func forEach(_ body: (UInt16) -> Void) {
        guard let slots else { return }
        for slot in 0...mask where slots[slot] != 0 { body(slots[slot]) }
    }

    mutating func removeAll() {
        UnsafeMutableRawPointer(slots)?.deallocate()
        slots = nil
        mask = -1
        count = 0
        strayCount = 0
    }

    /// Neighbouring identifiers lie in neighbouring slots: clients count up.
    private func home(_ packetIdentifier: UInt16) -> Int { Int(packetIdentifier) & mask }

    /// Where the digests stand: a slot has room for each identifier first, and there is an even number of slots.
    private var digests: UnsafeMutablePointer<UInt32>? {
        slots.map { UnsafeMutableRawPointer($0 + capacity).assumingMemoryBound(to: UInt32.self) }
    }

    private func find(_ packetIdentifier: UInt16) -> Int? {
        guard let slots else { return nil }
        var slot = home(packetIdentifier)
        while slots[slot] != 0 {
            if slots[slot] == packetIdentifier { return slot }
            slot = (slot &+ 1) & mask
        }
        return nil
    }

    private mutating func put(_ packetIdentifier: UInt16, _ digest: UInt32) {
        guard let slots, let digests else { return }
        var slot = home(packetIdentifier)
        while slots[slot] != 0 { slot = (slot &+ 1) & mask }
        if slot != home(packetIdentifier) { strayCount &+= 1 }
        slots[slot] = packetIdentifier
        digests[slot] = digest
    }

    private mutating func grow() {
        let (old, oldDigests, oldCount) = (slots, digests, mask + 1)
        let capacity = max(16, oldCount * 2)
        let block = UnsafeMutableRawPointer.allocate(byteCount: capacity * Self.slotBytes, alignment: 16)
        let larger = block.bindMemory(to: UInt16.self, capacity: capacity)
        larger.initialize(repeating: 0, count: capacity)
        (block + capacity * MemoryLayout<UInt16>.size).bindMemory(to: UInt32.self, capacity: capacity)
            .initialize(repeating: 0, count: capacity)
        slots = larger
        mask = capacity - 1
        strayCount = 0
        guard let old, let oldDigests else { return }
        for slot in 0..<oldCount where old[slot] != 0 { put(old[slot], oldDigests[slot]) }
        UnsafeMutableRawPointer(old).deallocate()
    }
}

extension Limits {
    /// Slots for packet identifiers that a session keeps when none is in use.
    static let packetIdentifiersCapacityMax = 64
}
