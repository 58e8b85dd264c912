/// The batches of shard messages that this shard is to confirm to their senders when what came of them would survive a
/// power cut, here and wherever this shard has sent it on to.
///
///     owed[sender]: sequences never fall, serials rise
struct OwedConfirmations {
    private struct Batch {
        let serial: UInt64
        /// The last change of the journal that came of it.
        let sequence: UInt64
        let reliance: Reliance
    }

    /// By sender, oldest first.
    private var owed: [[Batch]]

    init(shardCount: Int) { owed = Array(repeating: [], count: shardCount) }

    var isEmpty: Bool { owed.allSatisfy(\.isEmpty) }

    mutating func append(_ serial: UInt64, to sender: Int, after sequence: UInt64, relyingOn reliance: Reliance) {
        owed[sender].append(Batch(serial: serial, sequence: sequence, reliance: reliance))
    }

    /// The last batch of a sender that can be confirmed, which stands for those before it; nil if there is none.
    mutating func take(of sender: Int, persisted: UInt64, _ shardMessages: AwaitedShardMessages) -> UInt64? {
        let count = owed[sender].prefix { $0.sequence <= persisted && shardMessages.firstAwaited($0.reliance) == nil }.count
        guard count > 0 else { return nil }
        defer { owed[sender].removeFirst(count) }
        return owed[sender][count - 1].serial
    }

    func checkInvariants() {
        for batches in owed {
            for (first, second) in zip(batches, batches.dropFirst()) {
                precondition(first.serial < second.serial && first.sequence <= second.sequence, "batches stand in their order")
            }
        }
    }
}
