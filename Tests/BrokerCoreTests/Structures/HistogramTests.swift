import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerModel

/// How long things take, counted in buckets.
struct HistogramTests {
    @Test func `a value falls into the first bucket whose bound it does not exceed`() {
        var values = Histogram.boundsMicroseconds.flatMap { [$0 - 1, $0, $0 + 1] }
        for digits in 0..<64 as Range<UInt64> {
            let power: UInt64 = 1 << digits
            values += [power, power - 1]
        }
        values.append(.max)
        for value in values {
            let expected = Histogram.boundsMicroseconds.firstIndex { value <= $0 } ?? Histogram.boundsMicroseconds.count
            #expect(Histogram.bucket(of: value) == expected, "\(value)")
        }
    }

    @Test func `counts and sums add up`() {
        var (one, two) = (Histogram(), Histogram())
        one.record(50)
        one.record(51, times: 3)
        two.record(20_000_000)
        one.add(two)
        #expect(one.count == 5 && one.sumMicroseconds == 20_000_203)
        #expect(one.count(inBucket: 0) == 1 && one.count(inBucket: 1) == 3 && one.count(inBucket: 17) == 1)
        #expect(one != two && one == one)
    }

    @Test func `acknowledgements of a turn took as long as the turn, and one message in 64 is followed`() throws {
        let broker = SimulatedBroker()
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t", qos: .atLeastOnce)
        let publisher = broker.connected("publisher")
        let core = broker.cores[0]
        for _ in 0..<64 { publisher.publish("t", "x", qos: .atLeastOnce) }
        for _ in 0..<3 { publisher.publish("t", "x", qos: .exactlyOnce) }
        core.turnEnded(began: 1_000, ended: 1_400)
        core.turnEnded(began: 2_000, ended: 9_000)
        let report = core.measuredStatistics().latencies
        let acknowledged = try #require(report.histograms[.acknowledge(.atLeastOnce)])
        #expect(acknowledged.count == 64 && acknowledged.count(inBucket: 3) == 64)
        #expect(report.histograms[.acknowledge(.exactlyOnce)]?.count == 3)
        #expect(report.histograms[.delivery(.atLeastOnce)]?.count == 1)
    }

    @Test func `what is held for the store is measured until it is released`() throws {
        let store = SimulatedStore()
        let broker = SimulatedBroker(store: store)
        let subscriber = broker.client("subscriber")
        subscriber.connect(expiry: 100)
        subscriber.subscribe("t", qos: .atLeastOnce)
        subscriber.lose()
        broker.commit()
        store.mode = .paused
        let publisher = broker.connected("publisher")
        publisher.publish("t", "x", qos: .atLeastOnce)
        broker.advance(milliseconds: 30)
        broker.commit()
        let acknowledged = try #require(broker.cores[0].measuredStatistics().latencies.histograms[.acknowledge(.atLeastOnce)])
        #expect(acknowledged.count == 1 && acknowledged.sumMicroseconds == 30_000)
    }

    @Test func `the wait in a queue is measured`() throws {
        let broker = SimulatedBroker()
        let subscriber = broker.client("subscriber")
        subscriber.connect(expiry: 100)
        subscriber.subscribe("t", qos: .atLeastOnce)
        subscriber.lose()
        broker.connected("publisher").publish("t", "x", qos: .atLeastOnce)
        broker.advance(milliseconds: 200)
        subscriber.connect(clean: false, expiry: 100)
        let waits = try #require(broker.cores[0].measuredStatistics().latencies.histograms[.queueWait])
        #expect(waits.count == 1 && waits.sumMicroseconds == 200_000)
    }
}
