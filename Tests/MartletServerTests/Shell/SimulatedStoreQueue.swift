import BrokerCore
import BrokerModel
import MartletTestKit
import Persistence

/// A store whose batches are committed when the simulation says so, and at once by a blocking task.
final class SimulatedStoreQueue: InPlaceStore, @unchecked Sendable {
    /// What is on the disk.
    let disk: SimulatedStore
    /// Whether loops may commit by themselves.
    var isQuick = false
    var report: (Int, StoreReport) -> Void = { _, _ in }
    private var batches: [(shard: Int, batch: JournalBatch)] = []
    private var requests: [(shard: Int, request: StoreRequest)] = []
    /// How many batches loops have committed by themselves, and how often they have tidied up behind that.
    private(set) var (commitsHere, tidyings) = (0, 0)

    init(disk: SimulatedStore) { self.disk = disk }

    var hasWork: Bool { !batches.isEmpty || !requests.isEmpty }

    func commit(_ batch: JournalBatch, of shard: Int) { batches.append((shard, batch)) }

    func commitHere(_ batch: JournalBatch, of shard: Int) {
        commitsHere += 1
        disk.write(batch)
        report(shard, .committed(through: batch.lastSequence))
    }

    func tidyUp() { tidyings += 1 }

    func read(_ request: StoreRequest, for shard: Int) { requests.append((shard, request)) }

    var figures: StoreFigures { StoreFigures(bytes: 0, rows: 0, commits: 0) }

    /// Commits and answers all that waits.
    func work() {
        let (taken, asked) = (batches, requests)
        (batches, requests) = ([], [])
        for (shard, batch) in taken {
            disk.write(batch)
            report(shard, .committed(through: batch.lastSequence))
        }
        for (shard, request) in asked {
            report(shard, .rows(StoreRows(answering: request, bodies: request.rows.map { disk.rows[$0.table]?[$0.key] })))
        }
    }

    /// Gives the shards what is on the disk.
    func restore(_ shards: [BrokerShard]) {
        var recovery = Recovery(shards: shards, highestKeys: disk.rows.compactMapValues { $0.keys.max() })
        for table in StoreTable.inOrderOfRecovery {
            for (key, body) in (disk.rows[table] ?? [:]).sorted(by: { $0.key < $1.key }) {
                _ = body.withUnsafeBytes { recovery.restore(table, key: key, body: $0) }
            }
        }
        disk.write(recovery.finish().1)
    }
}
