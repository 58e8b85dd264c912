import BrokerModel
import MQTTCodec

/// What it costs to measure and to remember, beside the message that it is about.
func measureMeasures(_ meter: inout Meter) {
    let values = (0..<1024 as Range<UInt64>).map { $0 &* 0x9e37_79b9_7f4a_7c15 >> 44 }
    var histogram = Histogram()
    meter.measure("measures/a time into a histogram", unit: "time") { operations in
        for index in 0..<operations { histogram.record(values[index & 1023]) }
    }
    use(histogram)
    var latencies = ShardLatencies()
    meter.measure("measures/a message that is routed", unit: "message") { operations in
        for index in 0..<operations {
            if latencies.isNextFollowed() { latencies.follow(.atMostOnce, readAt: 0) }
            if index & 1023 == 0 { latencies.turnEnded(began: 0, ended: 1, pubacks: 0, pubrecs: 0) }
        }
    }
    use(latencies)
    var log = DropLog(hashing: TopicHash(seed: 1))
    let topics = (0..<64).map { Array("house/room\($0)/temperature".utf8) }
    let client: EncodedString = "client"
    meter.measure("measures/a message that is dropped", unit: "message") { operations in
        for index in 0..<operations {
            topics[index & 63].withUnsafeBytes {
                let message = DroppedMessage(topic: $0, qos: .atMostOnce, byteCount: 100)
                log.add(.outputFull, message, client: client, listener: 0, at: UInt64(index))
            }
        }
    }
    use(log.report().last.count)
}
