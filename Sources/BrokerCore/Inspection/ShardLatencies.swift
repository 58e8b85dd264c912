import BrokerModel
import MQTTCodec

/// What a shard measures, with the turn's clock: no message reads a clock of its own.
///
/// ```
///     turn begins ─── read, route, deliver ─── written ─► turnEnded
///       clock              counted, sampled                recorded
/// ```
/// What comes and goes within one turn took as long as the turn. What is held for the store or waits in a queue carries
/// the time of its turn. Belongs to the shard.
struct ShardLatencies {
    /// One message in so many is followed to its receivers.
    static let deliverySampleShare: UInt32 = 64

    private var acknowledge1 = Histogram()
    private var acknowledge2 = Histogram()
    private var delivery0 = Histogram()
    private var delivery1 = Histogram()
    private var delivery2 = Histogram()
    private var queueWait = Histogram()

    private var untilSample = Self.deliverySampleShare
    /// The messages of this turn that are followed: their QoS, and when they were read.
    private var samples: [(qos: QoS, readAt: UInt64)] = []
    /// The acknowledgements that were sent before this turn.
    private var (pubacksBefore, pubrecsBefore): (UInt64, UInt64) = (0, 0)

    /// A message is routed: whether it is one that is to be followed.
    @inline(__always)
    mutating func isNextFollowed() -> Bool {
        untilSample &-= 1
        return untilSample == 0
    }

    /// Follows a message.
    ///
    /// - Parameter readAt: when it was read, here or on another shard, in microseconds.
    mutating func follow(_ qos: QoS, readAt: UInt64) {
        untilSample = Self.deliverySampleShare
        samples.append((qos, readAt))
    }

    /// A message leaves a queue in which it stood that long.
    @inline(__always)
    mutating func waited(microseconds: UInt64) { queueWait.record(microseconds) }

    /// PUBACK or PUBREC was held for the store so long.
    mutating func released(_ type: PacketType, microseconds: UInt64) {
        if type == .puback {
            acknowledge1.record(microseconds)
            pubacksBefore &+= 1
        } else if type == .pubrec {
            acknowledge2.record(microseconds)
            pubrecsBefore &+= 1
        }
    }

    /// The turn's output is written.
    ///
    /// - Parameters:
    ///   - began: when the turn did, in microseconds.
    ///   - ended: now.
    ///   - pubacks: how many were sent so far.
    mutating func turnEnded(began: UInt64, ended: UInt64, pubacks: UInt64, pubrecs: UInt64) {
        if pubacks &- pubacksBefore > 0 { acknowledge1.record(ended &- began, times: pubacks &- pubacksBefore) }
        if pubrecs &- pubrecsBefore > 0 { acknowledge2.record(ended &- began, times: pubrecs &- pubrecsBefore) }
        (pubacksBefore, pubrecsBefore) = (pubacks, pubrecs)
        guard !samples.isEmpty else { return }
        for sample in samples { recordDelivery(sample.qos, ended &- min(ended, sample.readAt)) }
        samples.removeAll(keepingCapacity: true)
    }

    private mutating func recordDelivery(_ qos: QoS, _ microseconds: UInt64) {
        switch qos {
        case .atMostOnce: delivery0.record(microseconds)
        case .atLeastOnce: delivery1.record(microseconds)
        case .exactlyOnce: delivery2.record(microseconds)
        }
    }

    /// The latencies that were measured so far.
    func report() -> LatencyReport {
        var report = LatencyReport()
        report.add(acknowledge1, as: .acknowledge(.atLeastOnce))
        report.add(acknowledge2, as: .acknowledge(.exactlyOnce))
        report.add(delivery0, as: .delivery(.atMostOnce))
        report.add(delivery1, as: .delivery(.atLeastOnce))
        report.add(delivery2, as: .delivery(.exactlyOnce))
        report.add(queueWait, as: .queueWait)
        return report
    }
}
