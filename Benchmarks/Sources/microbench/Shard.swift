import BrokerModel
import Bytes
import MQTTCodec

/// The whole way of a message through a shard, through its public face, with transports that take everything and count.
///
/// What remains out: the system calls, which are most of the cost in the broker.
func measureShard(_ meter: inout Meter) {
    for version in [ProtocolVersion.v311, .v5] {
        let words = version == .v5 ? "5" : "3.1.1"
        for count in [100, 1000] {
            let name = "shard/1 → \(count), QoS 0, \(words)"
            guard meter.wants(name) else { continue }
            let rig = ShardRig(version)
            let publisher = rig.connect("publisher")
            for index in 0..<count { rig.subscribe(rig.connect("s\(index)"), "bench/room/value", .atMostOnce) }
            let burst = rig.burst("bench/room/value", count: 32)
            meter.measure(name, unit: "delivery") { operations in
                let turns = max(1, operations / (32 * count))
                for _ in 0..<turns { rig.turn { rig.receive(burst, from: publisher) } }
            }
            precondition(rig.sink.bytes > 0)
        }
    }
    measurePairs(&meter)
    measureTopics(&meter)
}

private func measurePairs(_ meter: inout Meter) {
    guard meter.wants("shard/100 pairs, QoS 0, 3.1.1") else { return }
    let rig = ShardRig(.v311)
    var publishers: [(ConnectionID, [UInt8])] = []
    for index in 0..<100 {
        rig.subscribe(rig.connect("s\(index)"), "bench/device/\(index)/state", .atMostOnce)
        publishers.append((rig.connect("p\(index)"), rig.burst("bench/device/\(index)/state", count: 4)))
    }
    meter.measure("shard/100 pairs, QoS 0, 3.1.1", unit: "message") { operations in
        for _ in 0..<max(1, operations / 400) {
            rig.turn { for (id, burst) in publishers { rig.receive(burst, from: id) } }
        }
    }
}

/// The matches change with each message, so that no run of bytes is shared for long.
private func measureTopics(_ meter: inout Meter) {
    guard meter.wants("shard/50 topics × 20, in turn, 3.1.1") else { return }
    let rig = ShardRig(.v311)
    let publisher = rig.connect("publisher")
    for index in 0..<1000 { rig.subscribe(rig.connect("s\(index)"), "bench/room/\(index % 50)/value", .atMostOnce) }
    let burst = (0..<50).flatMap { rig.burst("bench/room/\($0)/value", count: 1) }
    meter.measure("shard/50 topics × 20, in turn, 3.1.1", unit: "delivery") { operations in
        for _ in 0..<max(1, operations / 1000) { rig.turn { rig.receive(burst, from: publisher) } }
    }
}

/// A shard with connections and no transport.
private final class ShardRig {
    let sink = CountingSink()
    private let shard: BrokerShard
    private let version: ProtocolVersion
    private var now: UInt64 = 1000

    init(_ version: ProtocolVersion) {
        self.version = version
        var settings = BrokerSettings()
        settings.systemIntervalSeconds = 0
        settings.logTopics = []
        shard = BrokerShard(
            index: 0, shardCount: 1, settings: settings, seed: 1, random: SystemRandomNumberGenerator(), sessionCount: AnyCount(),
            now: 1000)
    }

    func turn(_ body: () -> Void) {
        now += 1
        shard.advance(to: now)
        body()
        shard.endTurn(into: sink) { _, _ in }
        shard.takeEffects { _ in }
    }

    func receive(_ bytes: [UInt8], from id: ConnectionID) {
        bytes.withUnsafeBytes { shard.received($0, from: id) }
    }

    func connect(_ name: String) -> ConnectionID {
        let id = shard.connected(ConnectionInfo(address: "127.0.0.1"))
        let packet = ConnectPacket(version: version, clientIdentifier: EncodedString(name) ?? "")
        turn { receive(ControlPacket.connect(packet).encoded(version: version), from: id) }
        return id
    }

    func subscribe(_ id: ConnectionID, _ filter: String, _ qos: QoS) {
        guard let filter = TopicFilter(filter) else { return }
        let packet = SubscribePacket(
            packetIdentifier: 1,
            subscriptions: [Subscription(filter: filter, options: SubscriptionOptions(maximumQoS: qos))])
        turn { receive(ControlPacket.subscribe(packet).encoded(version: version), from: id) }
    }

    /// So many PUBLISH packets with 64 bytes of payload each, as they are read at once.
    func burst(_ topic: String, count: Int) -> [UInt8] {
        let packet = PublishPacket(topic: EncodedString(topic) ?? "", payload: Array(repeating: 0x78, count: 64))
        let bytes = ControlPacket.publish(packet).encoded(version: version)
        return Array((0..<count).map { _ in bytes }.joined())
    }
}

private final class CountingSink: OutputSink {
    private(set) var bytes = 0

    func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
        var count = 0
        for slice in slices { count += slice.count }
        bytes += count
        return count
    }
}

/// Nobody is turned away.
final class AnyCount: SessionCount {
    func enter(max: Int?) -> Bool { true }
    func leave() {}
}
