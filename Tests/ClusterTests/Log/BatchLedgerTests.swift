import BrokerModel
import Testing

@testable import Cluster

struct BatchLedgerTests {
    @Test func `a batch is confirmed when all of it is logged, and behind those before it`() {
        var ledger = BatchLedger(shardCount: 2)
        let first = ledger.begin(5, of: 0, count: 3)
        ledger.done(first)
        let second = ledger.begin(7, of: 0)
        ledger.done(second)
        let other = ledger.begin(1, of: 1)
        ledger.done(other)
        #expect(ledger.take() == [BatchLedger.Outcome(shard: 1, serial: 1, failure: nil)])
        ledger.done(first)
        #expect(ledger.take() == [])
        ledger.done(first)
        #expect(ledger.take() == [BatchLedger.Outcome(shard: 0, serial: 7, failure: nil)], "the last stands for those before it")
        ledger.done(first)
        #expect(ledger.take() == [], "what is told is forgotten")
    }

    @Test func `a failure is told of its own batch, and what is unknown outweighs what is refused`() {
        var ledger = BatchLedger(shardCount: 1)
        let tokens = (1...4).map { ledger.begin($0, of: 0, count: $0 == 3 ? 2 : 1) }
        ledger.failed(tokens[2], .unknown, in: 2)
        for token in tokens where token != tokens[2] { ledger.done(token) }
        ledger.failed(tokens[2], .refused, in: 4)
        #expect(
            ledger.take() == [
                BatchLedger.Outcome(shard: 0, serial: 2, failure: nil),
                BatchLedger.Outcome(shard: 0, serial: 3, failure: .unknown, partitions: 6),
                BatchLedger.Outcome(shard: 0, serial: 4, failure: nil),
            ])
    }
}
