import Cluster

/// The answers that leave when all loops know of other nodes' members of share groups.
struct GroupReceipts {
    private var open: [UInt64: (receipt: GroupReceipt, missing: Int)] = [:]
    private var last: UInt64 = 0

    /// All loops are told something.
    ///
    /// - Parameters:
    ///   - receipt: what is said when they know; nil for nothing.
    ///   - loops: how many there are.
    /// - Returns: what each of them answers with.
    mutating func begin(_ receipt: GroupReceipt?, loops: Int) -> UInt64 {
        last += 1
        if let receipt { open[last] = (receipt, loops) }
        return last
    }

    /// A loop knows.
    ///
    /// - Returns: what is to be said now; nil for nothing.
    mutating func taken(_ token: UInt64) -> GroupReceipt? {
        guard let (receipt, missing) = open[token] else { return nil }
        open[token] = missing > 1 ? (receipt, missing - 1) : nil
        return missing == 1 ? receipt : nil
    }
}
