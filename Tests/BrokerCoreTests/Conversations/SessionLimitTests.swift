import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// `global_max_clients`: exact, however the clients are spread over the shards.
@Suite struct SessionLimitTests {
    private func broker(_ shards: Int, _ store: SimulatedStore? = nil, max: Int = 10) -> SimulatedBroker {
        SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.sessionsMax = max }, store: store)
    }

    @Test(arguments: [1, 4]) func `as many clients as allowed come in, and not one more`(shards: Int) {
        let broker = broker(shards)
        var clients: [TestClient] = []
        // All on one shard, then anywhere.
        for number in 0... where broker.shard(of: "client \(number)") == 0 && clients.count < 8 || number >= 200 {
            if clients.count == 10 { break }
            clients.append(broker.connected("client \(number)"))
        }
        #expect(clients.allSatisfy { $0.isConnected })
        let late = (0..<8).map { broker.connected("late \($0)") }
        #expect(late.allSatisfy { $0.connack?.reasonCode == .serverBusy })
        clients[0].disconnect()
        #expect(broker.connected("next").isConnected)
        #expect(!broker.connected("one more").isConnected)
    }

    @Test(arguments: [1, 4]) func `a session counts while its client is away, until it ends`(shards: Int) {
        let broker = broker(shards, max: 2)
        let away = broker.client("away")
        away.connect(expiry: 60)
        away.lose()
        #expect(broker.connected("here").isConnected)
        #expect(!broker.connected("late").isConnected)
        broker.advance(seconds: 61)
        #expect(broker.connected("late").isConnected)
    }

    @Test(arguments: [1, 4], [true, false])
    func `a client comes back to a broker that is full, and takes over its own place`(shards: Int, isClean: Bool) {
        let broker = broker(shards, max: 3)
        let clients = (0..<3).map { broker.client("client \($0)") }
        for client in clients { client.connect(expiry: 60) }
        for client in clients {
            // The first connection of each still stands.
            let again = broker.client(client.identifier)
            again.connect(clean: isClean, expiry: 60)
            #expect(again.isConnected)
            again.lose()
            #expect(again.connect(clean: isClean, expiry: 0)?.sessionPresent == !isClean)
        }
        #expect(!broker.connected("another").isConnected)
        #expect(broker.statistics().clientsTotal == 3)
    }

    @Test(arguments: [(1, 4), (4, 1), (4, 4)]) func `sessions that were kept count after a start`(before: Int, after: Int) {
        let broker = broker(before, SimulatedStore(), max: 3)
        for number in 0..<2 { broker.client("client \(number)").connect(expiry: 1000) }
        let next = broker.crashed(shards: after)
        #expect(next.connected("third").isConnected)
        #expect(!next.connected("fourth").isConnected)
        let known = next.client("client 0")
        #expect(known.connect(clean: false, expiry: 1000)?.sessionPresent == true)
    }
}
