import BrokerModel

/// The connections of a shard, by slot. Owns them.
///
/// A slot whose connection has ended is not given away before the turn is over: the shell may still hold its number.
struct ConnectionTable: ~Copyable {
    private var slots: [Connection?] = []
    private var generations: [UInt32] = []
    private var free: [UInt32] = []
    private var graveyard: [Connection] = []
    private(set) var count = 0

    var all: some Sequence<Connection> { slots.lazy.compactMap { $0 } }

    /// Slots, in use or not.
    var slotCount: Int { slots.count }

    func connection(inSlot slot: Int) -> Connection? { slots[slot] }

    @inline(__always)
    func find(_ id: ConnectionID) -> Connection? {
        guard id.slot < slots.count, let connection = slots[Int(id.slot)], connection.id.generation == id.generation else {
            return nil
        }
        return connection
    }

    /// Above every slot in use.
    var slotEnd: Int { slots.count }

    /// The connection in a slot below `slotEnd`, where it stays as long as it lives; nil if there is none now.
    func connection(at slot: Int) -> Connection? { slots[slot] }

    mutating func make(_ info: ConnectionInfo, now: UInt64) -> Connection {
        let slot = free.popLast() ?? UInt32(slots.count)
        if slot == slots.count {
            slots.append(nil)
            generations.append(0)
        }
        let connection = Connection(id: ConnectionID(slot: slot, generation: generations[Int(slot)]), info: info, now: now)
        slots[Int(slot)] = connection
        count += 1
        return connection
    }

    /// Takes the connection out; it and its slot stay reserved until `endTurn`.
    mutating func remove(_ connection: Connection) {
        // The graveyard first: the slot may hold the only reference.
        graveyard.append(connection)
        slots[Int(connection.id.slot)] = nil
        generations[Int(connection.id.slot)] &+= 1
        count -= 1
    }

    mutating func endTurn() {
        guard !graveyard.isEmpty else { return }
        // One that is still to be flushed stays: the shard's list of those holds no reference.
        for connection in graveyard where !connection.isDirty { free.append(connection.id.slot) }
        graveyard.removeAll { !$0.isDirty }
    }
}
