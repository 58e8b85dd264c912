import Testing

@testable import BrokerCore
@testable import BrokerModel

/// The rounds in which all shards' counts are added up for `$SYS`.
struct SystemReportTests {
    private func counts(_ clients: Int) -> ShardStatistics {
        var statistics = ShardStatistics()
        statistics.clientsConnected = clients
        return statistics
    }

    private func connected(_ changes: [(topic: String, value: String)]) -> String? {
        changes.first { $0.topic == "$SYS/broker/clients/connected" }?.value
    }

    @Test func `a round ends with the last shard's answer, and tells the sum`() {
        var report = SystemReport()
        report.begin(now: 1000)
        #expect(report.beginRound(counts(1), others: 2) == true)
        report.checkInvariants(shardCount: 3)
        #expect(report.receivedCounts(counts(2)) == false)
        #expect(report.receivedCounts(counts(4)) == true)
        report.checkInvariants(shardCount: 3)
        #expect(connected(report.changes(now: 2000, version: "v", health: nil)) == "7")
        #expect(connected(report.changes(now: 3000, version: "v", health: nil)) == nil)
    }

    @Test func `while a shard owes its answer no other round begins, and an answer too many counts for nothing`() {
        var report = SystemReport()
        report.begin(now: 0)
        #expect(report.beginRound(counts(1), others: 1) == true)
        #expect(report.beginRound(counts(10), others: 1) == false)
        #expect(report.receivedCounts(counts(1)) == true)
        #expect(report.receivedCounts(counts(100)) == false)
        #expect(connected(report.changes(now: 1, version: "v", health: nil)) == "2")
    }

    @Test func `switched off it tells nothing, also of a round that was under way`() {
        var report = SystemReport()
        report.begin(now: 0)
        #expect(report.beginRound(counts(1), others: 1) == true)
        report.end()
        #expect(!report.isOn)
        #expect(report.receivedCounts(counts(1)) == true)
        #expect(report.changes(now: 1, version: "v", health: .good).count == 0)
        #expect(report.changes(.full).count == 0)
    }

    @Test func `a change of the store's state is told once`() {
        var report = SystemReport()
        report.begin(now: 0)
        #expect(report.changes(.full).map(\.topic) == ["$SYS/broker/store/state"])
        #expect(report.changes(.full).count == 0)
    }

    @Test func `heap and store stand in the counts of the shard that was told of them`() {
        var report = SystemReport()
        report.record(heapBytes: 4096)
        var statistics = ShardStatistics()
        report.complete(&statistics)
        #expect(statistics.heapBytes == 4096)
        #expect(statistics.store == nil)
    }

    @Test func `the report is due at multiples of the interval on the wall clock`() {
        #expect(SystemReport.nextTime(after: 1000, intervalSeconds: 10, wallClockOffset: 0) == 10_000)
        #expect(SystemReport.nextTime(after: 10_000, intervalSeconds: 10, wallClockOffset: 0) == 20_000)
        #expect(SystemReport.nextTime(after: 1000, intervalSeconds: 10, wallClockOffset: 8_500) == 1500)
    }
}
