import Bytes
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What comes behind the word to stop.
@Suite struct StopTests {
    /// At each step of their way: accepted, handed to their own shard, let in.
    @Test(arguments: 0..<24) func `clients that connect while the broker stops do not hold it up`(steps: Int) {
        let broker = SimulatedBroker(shards: 4, seed: UInt64(steps))
        let clients = (0..<12).map { broker.client(EncodedString(Array("client \($0)".utf8)) ?? "") }
        for client in clients { client.beginConnect(ConnectPacket(clientIdentifier: client.identifier)) }
        for _ in 0..<steps { broker.step() }
        broker.stop()
        #expect(broker.isIdle)
        #expect(clients.allSatisfy { $0.connection?.isClosed == true })
    }

    @Test func `a connection that was on its way to another shard is told that the broker goes`() {
        let shard = BrokerShard(
            index: 1, shardCount: 2, settings: SimulatedBroker.testSettings, seed: 1, random: SeededGenerator(seed: 1),
            sessionCount: SimulatedSessionCount(), now: 0)
        shard.stop()
        let packet = ConnectPacket(clientIdentifier: "late")
        _ = shard.adopt(HandOver(shard: 1, info: ConnectionInfo(address: "192.0.2.1"), connect: packet, unread: [0xC0, 0]))
        let sink = CollectingSink()
        shard.endTurn(into: sink) { _, _ in }
        shard.takeEffects { _ in }
        #expect(sink.bytes.first == 0x20 && sink.bytes.dropFirst(3).first == ReasonCode.serverUnavailable.rawValue)
        #expect(shard.isIdle)
    }

    @Test func `a login that is decided behind the word to stop lets nobody in`() {
        let settings = SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true }
        let broker = SimulatedBroker(settings: settings)
        broker.authenticate = { _ in nil }
        let client = broker.client("a")
        client.connect(userName: "user", password: [1])
        let pending = broker.pendingAuthentications
        broker.stop()
        for login in pending { broker.answer(login, .accepted(userName: nil, data: nil)) }
        #expect(client.connack == nil && broker.isIdle)
    }
}

/// What a shard has sent.
private final class CollectingSink: OutputSink {
    private(set) var bytes: [UInt8] = []

    func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
        let before = bytes.count
        for slice in slices { bytes += UnsafeRawBufferPointer(start: slice.base, count: slice.count) }
        return bytes.count - before
    }
}
