/// The share groups that have got their first lasting member in this turn: what their other members have is kept when the turn ends, by one walk of
/// each queue for all of them.
struct NewlyLastingGroups {
    private var serials: Set<UInt32> = []
    /// How many members and entries were looked at so far. For tests.
    var visitCount = 0

    var isEmpty: Bool { serials.isEmpty }

    /// A group has one from now on.
    mutating func note(_ serial: UInt32) { serials.insert(serial) }

    /// The serial numbers of the groups, which are forgotten.
    mutating func take() -> Set<UInt32> {
        defer { serials = [] }
        return serials
    }
}
