/// Whether the store takes what it is given.
package enum StoreHealth: UInt8 {
    case good
    /// The disk is full, or the store has reached its bound: nothing new is promised until there is room.
    case full
    /// The store has failed for good: nothing is promised any more.
    case failed

    /// As `$SYS` says it.
    package var word: String {
        switch self {
        case .good: "ok"
        case .full: "full"
        case .failed: "failed"
        }
    }
}
