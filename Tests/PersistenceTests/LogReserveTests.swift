import BrokerModel
import Testing

@testable import Persistence

@Suite(.timeLimit(.minutes(10))) struct LogReserveTests {
    @Test func `small commits find the log's file long enough, and the zeros behind them mean nothing`() throws {
        let (home, copy) = (try StoreHome(), try StoreHome())
        let store = try home.open()
        let box = ReportBox()
        try store.start(shards: 1) { box.add($0, $1) }
        for number in UInt64(1)...20 {
            store.commit(JournalBatch(through: number, [(.insert, StoreRow(.message, number, [1]))]), of: 0)
            #expect(box.wait(for: Int(number)))
        }
        let size = try #require(DiskFile.size(home.files.log))
        #expect(size > 200 * Int64(LogFrame.size))
        // As after a power cut, with nothing closed.
        for (file, target) in [
            (home.files.database, copy.files.database), (home.files.log, copy.files.log),
            (home.files.commitRecord, copy.files.commitRecord),
        ] {
            try DiskFile.copy(file, to: target)
        }
        #expect(try copy.open().allRows().count == 20)
        store.close()
    }

    @Test func `a file that is not there is left alone`() throws {
        let home = try StoreHome()
        var reserve = LogReserve(home.files.log)
        reserve.committed(pages: 1)
        #expect(DiskFile.size(home.files.log) == nil)
        try DiskFile.create(home.files.log)
        reserve.committed(pages: 2)
        #expect(DiskFile.size(home.files.log) == 0, "SQLite has not begun it")
        reserve.committed(pages: 1000)
        #expect(DiskFile.size(home.files.log) == 0, "large commits make their own room")
    }
}
