/// How much of the output may leave: what follows from changes that the store has not made durable stays.
///
/// ```
///   written │ may leave │ held until a commit
///   ────────┼───────────┼────────────────────► bytes of this connection
///           0        first hold
/// ```
struct OutputGate {
    private struct Hold {
        let commit: UInt64
        /// Bytes of this connection before it.
        var position: Int
    }

    private var holds: [Hold] = []
    private var writtenCount = 0
    /// All output up to the last turn.
    private var lastPosition = 0

    /// Another connection: what waits for the store holds all of it.
    mutating func connectionEnded() {
        (writtenCount, lastPosition) = (0, 0)
        for index in holds.indices { holds[index].position = 0 }
    }

    /// The output of this turn waits for a commit, which is later than all before.
    mutating func hold(for commit: UInt64) { holds.append(Hold(commit: commit, position: lastPosition)) }

    /// The end of a turn.
    ///
    /// - Parameter pending: bytes that are not written.
    mutating func turnEnded(pending: Int) { lastPosition = writtenCount + pending }

    /// The store has made everything up to a commit durable.
    mutating func committed(through commit: UInt64) { holds.removeAll { $0.commit <= commit } }

    mutating func wrote(_ count: Int) { writtenCount += count }

    /// How many bytes may leave now.
    var allowance: Int { holds.first.map { max(0, $0.position - writtenCount) } ?? .max }
}
