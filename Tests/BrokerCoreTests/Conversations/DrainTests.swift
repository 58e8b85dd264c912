import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Clients are sent away, some at a time.
@Suite struct DrainTests {
    private func drain(_ broker: SimulatedBroker, _ notice: DrainNotice?, sendAway count: Int = 0) {
        for core in broker.cores {
            core.drain(notice)
            core.sendAway(count)
        }
        broker.settle()
    }

    @Test(arguments: [nil, "broker-2.example:1883" as EncodedString])
    func `clients are told where to go, or that the broker ends, and their sessions stay`(reference: EncodedString?) throws {
        let broker = SimulatedBroker()
        let witness = broker.client("witness")
        witness.connect(expiry: 100)
        witness.subscribe("gone", qos: .atLeastOnce)
        let client = broker.client("client")
        client.connect(expiry: 100, will: Will(topic: "gone", payload: [1], qos: .atLeastOnce))
        let old = broker.connected("old", version: .v311)
        drain(broker, DrainNotice(serverReference: reference), sendAway: 3)
        #expect(client.disconnectReason == (reference == nil ? .serverShuttingDown : .useAnotherServer))
        let disconnects = client.packets.compactMap { if case .disconnect(let packet) = $0 { packet } else { nil } }
        #expect(disconnects.last?.properties.serverReference == reference)
        #expect([client, witness, old].allSatisfy { !$0.isConnected } && broker.statistics().clientsTotal == 2)
        let refused = try #require(client.connect(expiry: 100))
        #expect(refused.reasonCode == (reference == nil ? .serverUnavailable : .useAnotherServer))
        #expect(refused.properties.serverReference == reference)
        #expect(old.connect()?.returnCode == .serverUnavailable)
        drain(broker, nil)
        #expect(client.connect(clean: false, expiry: 100)?.sessionPresent == true)
        witness.connect(clean: false, expiry: 100)
        #expect(witness.messages.count == 1, "the will, which nobody took back")
    }

    @Test func `each client is told another place first, and those who come are answered though nobody else is cut off`() throws {
        let broker = SimulatedBroker()
        let clients = (0..<4).map { broker.connected("client \($0)") }
        let silent = broker.open()
        broker.settle()
        let places: [EncodedString] = ["a:1 b:1", "b:1 a:1"]
        drain(broker, DrainNotice(serverReferences: places, answersNewcomers: true), sendAway: 10)
        let told = clients.compactMap { client in
            client.packets.compactMap { if case .disconnect(let packet) = $0 { packet.properties.serverReference } else { nil } }
                .last
        }
        #expect(told.count == 4 && Set(told) == Set(places) && told.count { $0 == places[0] } == 2)
        #expect(clients.allSatisfy { $0.disconnectReason == .useAnotherServer })
        #expect(broker.statistics().clientsConnected == 0)
        let refused = try #require(broker.client("late").connect())
        let reference = try #require(refused.properties.serverReference)
        #expect(refused.reasonCode == .useAnotherServer && places.contains(reference))
        #expect(!silent.isClosed, "it may be about to say CONNECT")
    }

    @Test func `no more go at once than are to, and all in the end`() {
        let broker = SimulatedBroker(shards: 2)
        let clients = (0..<100).map { broker.connected("client \($0)") }
        _ = broker.open()
        broker.settle()
        drain(broker, DrainNotice(), sendAway: 10)
        #expect((79...81).contains(clients.count { $0.isConnected }))
        for _ in 0..<10 {
            for core in broker.cores { core.sendAway(10) }
            broker.settle()
        }
        #expect(!clients.contains { $0.isConnected })
        broker.advance(milliseconds: 10_000)
        #expect(broker.cores.allSatisfy { $0.isIdle })
    }

    @Test(arguments: [1, 4]) func `who is on its way between shards is not let in either`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let clients = (0..<8).map { broker.client("client \($0)") }
        for client in clients { client.beginConnect(ConnectPacket(clientIdentifier: client.identifier)) }
        drain(broker, DrainNotice())
        #expect(clients.allSatisfy { $0.connack?.reasonCode == .serverUnavailable })
    }
}
