import BrokerCore
import BrokerModel
import Bytes
import MQTTCodec

/// A broker of some shards, whose clients swallow all that they get, to count the work of: it has no clock, no network
/// and no chance.
final class GrowthBroker {
    /// Takes everything, or nothing from the connections that are told to stall.
    final class Sink: OutputSink {
        var stalled: Set<ConnectionID> = []

        func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
            stalled.contains(connection) ? 0 : slices.reduce(0) { $0 + $1.count }
        }
    }

    private let shards: [BrokerShard]
    private let sinks: [Sink]
    private var shardMessages: [(from: Int, to: Int, batch: ShardMessageBatch)] = []
    private var now: UInt64 = 1000
    /// What clients have published and the cluster's log has not given back yet, and its last record.
    private var unlogged: [(shard: Int, batch: ShardMessageBatch)] = []
    private var lastRecord: UInt64 = 0

    init(shards count: Int = 1, isPersistent: Bool = false, _ change: (inout BrokerSettings) -> Void = { _ in }) {
        var settings = BrokerSettings()
        settings.systemIntervalSeconds = 0
        settings.logTopics = []
        settings.packetBytesMax = BrokerSettings.packetBytesLargest
        change(&settings)
        shards = (0..<count).map {
            BrokerShard(
                index: $0, shardCount: count, settings: settings, seed: 1, random: Counter(), sessionCount: Unbounded(), now: 1000,
                isPersistent: isPersistent)
        }
        sinks = shards.map { _ in Sink() }
    }

    /// Connects a client on the shard that it belongs to.
    func connect(
        _ name: String, expiry: UInt32 = 0, isClean: Bool = true, receiveMaximum: UInt16? = nil, will: Will? = nil
    ) -> GrowthClient {
        let identifier = EncodedString(name) ?? ""
        let shard = shards[0].placement.shard(of: identifier)
        let id = shards[shard].connected(ConnectionInfo(address: "192.0.2.1"))
        let client = GrowthClient(broker: self, shard: shard, id: id)
        var packet = ConnectPacket(version: .v5, cleanStart: isClean, keepAliveSeconds: 0, clientIdentifier: identifier)
        if expiry > 0 { packet.properties.sessionExpiryInterval = expiry }
        packet.properties.receiveMaximum = receiveMaximum
        packet.will = will
        client.send(.connect(packet))
        return client
    }

    func shard(of name: String) -> Int { EncodedString(name).map { shards[0].placement.shard(of: $0) } ?? 0 }

    func receive(_ bytes: [UInt8], from client: GrowthClient) {
        bytes.withUnsafeBytes { shards[client.shard].received($0, from: client.id) }
        settle()
    }

    func close(_ client: GrowthClient) {
        shards[client.shard].closed(client.id)
        settle()
    }

    /// Makes it a node of a cluster, whose log is its own messages.
    func joinCluster() {
        for shard in shards {
            shard.joinCluster(logPartitions: 1, node: 1 << 32 | 1)
            shard.received(.isAway(false))
            shard.received(.logBegins(0, after: LogPositions.Place(sequence: 0, stream: 1)))
        }
        settle()
    }

    /// Stores what was published, a record for each batch, and gives it to all shards.
    func readLog() {
        while !unlogged.isEmpty {
            let taken = unlogged
            unlogged = []
            for (shard, batch) in taken {
                lastRecord += 1
                shards[shard].received(.logged(through: batch.logSerial))
                var record = LogRecord(partition: 0, sequence: lastRecord)
                record.isOwn = true
                record.append(batch.logged)
                for reader in shards { _ = reader.received(record) }
                settle()
            }
        }
    }

    /// How far all shards are done with what they have dispatched of the log.
    var dispatchedThrough: UInt64 { shards.map { $0.dispatched(0).through }.min() ?? 0 }

    /// Another node has so many members of the share group `$share/g/t`, and reads the log.
    func tellMembers(_ count: Int) {
        var group = ClusterGroup(
            node: 2 << 32 | 1, number: 1, shareName: Array("g".utf8), filter: Array("t".utf8), connected: count, away: 0)
        group.readsLog = true
        for shard in shards { shard.received(.group(group)) }
        settle()
    }

    func stall(_ client: GrowthClient) { sinks[client.shard].stalled.insert(client.id) }

    /// Gives each shard turns until nothing is left to do.
    func settle() {
        repeat {
            for shard in shards { turn(shard) }
        } while !shardMessages.isEmpty || shards.contains { $0.nextDeadline.map { $0 <= now } ?? false }
    }

    private func turn(_ shard: BrokerShard) {
        let index = shard.index
        shard.advance(to: now)
        let arrived = shardMessages
        shardMessages = arrived.filter { $0.to != index }
        for letter in arrived where letter.to == index { shard.receivedShardMessages(letter.batch, from: letter.from) }
        shard.endTurn(into: sinks[index]) { shardMessages.append((from: index, to: $0, batch: $1)) }
        var fences: [UInt64] = []
        shard.takeEffects { effect in
            switch effect {
            case .authenticate(let id, _): shard.authenticated(id, .accepted(userName: nil, data: nil))
            case .store(let batch): shard.received(.committed(through: batch.lastSequence))
            case .cluster(.messages(let batch)): if batch.logSerial != 0 { unlogged.append((index, batch)) }
            case .cluster(.fence(let token)): fences.append(token)
            case .authorize, .close, .handOver, .read, .local, .reply, .outcome, .control, .presence, .offence, .traced, .cluster,
                .log:
                return
            }
        }
        for token in fences { shards[0].passedFence(token, of: index) }
    }
}

/// Nothing here is assigned an identifier.
private struct Counter: RandomNumberGenerator {
    private var last: UInt64 = 0

    mutating func next() -> UInt64 {
        last += 1
        return last
    }
}

/// Nobody is turned away.
private final class Unbounded: SessionCount {
    func enter(max: Int?) -> Bool { true }
    func leave() {}
    func enter(_ bound: UserBound, of user: EncodedString, max: Int?) -> Bool { true }
    func leave(_ bound: UserBound, of user: EncodedString, count: Int) {}
}

extension LogRecord {
    /// Adds what a shard has written.
    fileprivate mutating func append(_ batch: LogBatch) {
        for part in batch.parts { bytes += batch.entries(of: part) }
        let all = bytes
        all.withUnsafeBytes { entries.read($0, from: 0) }
    }
}
