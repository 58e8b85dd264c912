import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct SystemTopicsTests {
    @Test func `the exponential is right to twelve digits`() {
        let known: [(Double, Double)] = [
            (0, 1), (-0.1, 0.904_837_418_035_959_57), (-0.5, 0.606_530_659_712_633_42), (-1, 0.367_879_441_171_442_33),
            (-10.0 / 60, 0.8464817248906141), (-10.0 / 300, 0.9672161004820059), (-10.0 / 900, 0.9889503892939223),
            (-5, 0.006_737_946_999_085_467), (-30, 9.357_622_968_840_175e-14),
        ]
        for (exponent, value) in known {
            let found = LoadAverage.exponential(exponent)
            #expect(abs(found - value) <= value * 1e-12, "e^\(exponent) = \(found)")
        }
        #expect(LoadAverage.exponential(-701) == 0)
        #expect(LoadAverage.exponential(-699) > 0)
    }

    @Test func `a load starts at zero, nears a steady rate and falls off`() {
        var load = LoadAverage()
        load.update(total: 100, seconds: 10)
        // 600 a minute, weighed with 1 - e^(-10/60), 1 - e^(-10/300) and 1 - e^(-10/900).
        for (value, expected) in zip(load.values, [92.110_965, 19.670_340, 6.629_765]) { #expect(abs(value - expected) < 1e-5) }
        for step in UInt64(2)...2000 { load.update(total: step * 100, seconds: 10) }
        for value in load.values { #expect(abs(value - 600) < 1e-4) }
        load.update(total: 200_000, seconds: 60)
        #expect(abs(load.values[0] - 600 * 0.367_879_441_171) < 1e-4)
        let before = load.values
        load.update(total: 300_000, seconds: 0)
        #expect(load.values == before, "no time, no rate")
    }

    @Test func `loads are told with two digits`() {
        let known: [(Double, String)] = [
            (0, "0.00"), (0.004, "0.00"), (0.006, "0.01"), (0.05, "0.05"), (0.1, "0.10"), (1, "1.00"), (9.999, "10.00"),
            (12.345, "12.35"),
            (1234567.891, "1234567.89"),
        ]
        for (value, text) in known { #expect(LoadAverage.text(value) == text) }
    }

    @Test func `only what has changed is published again`() {
        var topics = SystemTopics(now: 1000)
        var statistics = ShardStatistics()
        let first = topics.update(statistics, now: 1000, version: "test 1")
        #expect(Set(first.map { $0.topic }).count == first.count)
        #expect(first.allSatisfy { $0.topic.hasPrefix("$SYS/broker/") })
        #expect(first.first { $0.topic == "$SYS/broker/version" }?.value == "test 1")
        #expect(first.first { $0.topic == "$SYS/broker/uptime" }?.value == "0 seconds")
        #expect(topics.update(statistics, now: 1999, version: "test 1").isEmpty)
        let later = topics.update(statistics, now: 2000, version: "test 1")
        #expect(later.map { $0.topic } == ["$SYS/broker/uptime"])
        #expect(later.map { $0.value } == ["1 seconds"])
        statistics.retainedMessages = 3
        statistics.drops[.queueFull] = 5
        let changed = topics.update(statistics, now: 2000, version: "test 1")
        #expect(
            changed.map { $0.topic } == [
                "$SYS/broker/publish/messages/dropped", "$SYS/broker/retained messages/count",
                "$SYS/broker/publish/messages/dropped/queue_full",
            ])
        #expect(changed.map { $0.value } == ["5", "3", "5"])
        // The drops came when no time had passed; they count towards the next rate.
        let loads = topics.update(statistics, now: 12_000, version: "test 1").filter { $0.topic.contains("/load/") }
        #expect(loads.map { $0.topic } == [1, 5, 15].map { "$SYS/broker/load/publish/dropped/\($0)min" })
        #expect(loads.map { $0.value } == ["4.61", "0.98", "0.33"])
    }

    @Test func `packets that wait are reckoned from their bytes`() {
        var topics = SystemTopics(now: 0)
        var statistics = ShardStatistics()
        statistics.messagesSent = 10
        statistics.bytesSent = 700
        statistics.outputBytes = 300
        let values = Dictionary(uniqueKeysWithValues: topics.update(statistics, now: 0, version: "").map { ($0.topic, $0.value) })
        #expect(values["$SYS/broker/packet/out/bytes"] == "300")
        #expect(values["$SYS/broker/packet/out/count"] == "3")
        statistics.outputBytes = 0
        let later = Dictionary(uniqueKeysWithValues: topics.update(statistics, now: 0, version: "").map { ($0.topic, $0.value) })
        #expect(later["$SYS/broker/packet/out/count"] == "0")
    }

    @Test func `clients are counted as mosquitto counts them`() {
        var topics = SystemTopics(now: 0)
        var statistics = ShardStatistics()
        statistics.clientsTotal = 7
        statistics.clientsConnected = 4
        let values = Dictionary(uniqueKeysWithValues: topics.update(statistics, now: 0, version: "").map { ($0.topic, $0.value) })
        #expect(values["$SYS/broker/clients/total"] == "7")
        #expect(values["$SYS/broker/clients/connected"] == "4")
        #expect(values["$SYS/broker/clients/disconnected"] == "3")
        #expect(values["$SYS/broker/clients/maximum"] == "7")
        statistics.clientsTotal = 5
        let later = Dictionary(uniqueKeysWithValues: topics.update(statistics, now: 0, version: "").map { ($0.topic, $0.value) })
        #expect(later["$SYS/broker/clients/maximum"] == nil, "the maximum stays")
        #expect(later["$SYS/broker/clients/disconnected"] == "1")
        // Counts come from shards that answer at different times.
        statistics.clientsConnected = 6
        let disconnected = topics.update(statistics, now: 0, version: "").first { $0.topic == "$SYS/broker/clients/disconnected" }
        #expect(disconnected?.value == "0")
    }

    @Test func `statistics of shards add up, each field to itself`() {
        var one = ShardStatistics()
        one.bytesReceived = 1
        one.publishBytesSent = 2
        one.clientsTotal = 3
        one.storedBytes = 4
        var sum = ShardStatistics()
        for _ in 0..<3 { sum.add(one) }
        var expected = ShardStatistics()
        expected.bytesReceived = 3
        expected.publishBytesSent = 6
        expected.clientsTotal = 9
        expected.storedBytes = 12
        #expect(sum == expected)
    }
}
