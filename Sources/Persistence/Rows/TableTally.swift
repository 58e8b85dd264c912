/// What a table holds, in a form that can be kept up with each change and compared with what is found later: how many rows, and the sum of
/// their checksums. A row that vanished, came back or is older than it should be changes one of the two.
struct TableTally: Equatable, Sendable {
    var count: UInt64 = 0
    /// Wraps around.
    var sum: UInt64 = 0

    mutating func add(checksum: UInt64) {
        count &+= 1
        sum &+= checksum
    }
}
