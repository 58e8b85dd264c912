import BrokerModel
import Persistence
import Testing

extension SQLiteStore {
    /// Every row, in the order in which it is loaded; fails the test on damage.
    func allRows() -> [StoreRow] {
        var rows: [StoreRow] = []
        let damages = load { table, key, body in
            rows.append(StoreRow(table, key, Array(body)))
            return true
        }
        #expect(damages.isEmpty, "\(damages)")
        return rows
    }

    /// Starts, commits one batch after another for shard 0, and closes.
    func run(_ batches: [[(JournalRecord.Operation, StoreRow)]]) throws {
        let box = ReportBox()
        try start(shards: 1) { box.add($0, $1) }
        for (index, changes) in batches.enumerated() {
            commit(JournalBatch(through: UInt64(index + 1), changes), of: 0)
            #expect(box.wait(for: index + 1))
        }
        #expect(box.words == batches.indices.map { "0 committed \($0 + 1)" })
        close()
    }
}
