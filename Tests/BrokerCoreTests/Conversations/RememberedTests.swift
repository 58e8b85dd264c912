import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What strangers leave behind is bounded in bytes, and is part of what `memory_limit` bounds.
struct RememberedTests {
    private func name(_ number: Int) -> EncodedString { Self.text(String(repeating: "x", count: 63_000) + "\(number)") }

    private static func text(_ string: String) -> EncodedString { EncodedString(string) ?? "" }

    /// Clients with the longest names, of which none is let in.
    private func refuse(_ count: Int, _ change: (inout BrokerSettings) -> Void = { _ in }) throws -> SimulatedBroker {
        let broker = SimulatedBroker(
            settings: SimulatedBroker.testSettings {
                $0.listeners[0].checksPasswords = true
                change(&$0)
            })
        broker.authenticate = { _ in .refused(.notAuthorized, because: .wrongPassword) }
        for number in 0..<count { broker.client(name(number)).connect(userName: "anna", password: []) }
        return broker
    }

    private func closed(_ broker: SimulatedBroker, _ client: EncodedString? = nil) throws -> [ClosedConnectionRow] {
        var selection = ClosedSelection()
        selection.clientIdentifier = client
        guard case .closedConnections(let rows)? = broker.ask(ShardQuery(.closedConnections(selection), rowsMax: 10_000))?.rows
        else {
            Issue.record("no answer")
            return []
        }
        return rows
    }

    @Test func `refused clients with the longest names leave less than a kilobyte each, and twice as many twice as much`() throws {
        let held = try [100, 200].map { try refuse($0).cores[0].memoryBound.rememberedBytes }
        #expect(held[0] < 100 * 1100 && held[1] <= 2 * held[0] + 1000)
    }

    @Test func `a long name is found by the whole of it, and no other is taken for it`() throws {
        let broker = try refuse(20)
        let rows = try closed(broker, name(7))
        let all = try closed(broker)
        #expect(rows.count == 1 && all.count == 20)
        #expect(rows.first?.clientIdentifier?.description.contains("x...(63001 bytes, ") == true)
        #expect(Set(all.map { $0.clientIdentifier }).count == 20)
        let shorter = try closed(broker, Self.text(String(repeating: "x", count: CutText.keptBytes)))
        #expect(shorter.isEmpty)
    }

    @Test func `closed connections hold no more than their bytes, and with a memory limit a small part of it`() throws {
        var connections = ClosedConnections(shard: 0, shardCount: 1, memoryMax: 0)
        let words = String(repeating: "w", count: CutText.keptBytes)
        func fill() {
            for _ in 0..<20_000 {
                connections.add(
                    ClosedConnectionRow(
                        position: connections.nextPosition(at: 0), clientIdentifier: EncodedString(words),
                        userName: EncodedString(words),
                        address: "192.0.2.1", port: 1, listener: 0, wasAdmitted: false, from: 0, reason: nil, words: words,
                        isByClient: false, traffic: ClientTraffic()))
            }
        }
        fill()
        #expect((4 << 20...Limits.closedConnectionsBytesMax).contains(connections.heldBytes))
        connections.bound(memoryMax: 16_000_000)
        #expect((900_000...1_000_000).contains(connections.heldBytes) && connections.count > 500)
        fill()
        #expect((900_000...1_000_000).contains(connections.heldBytes))
        connections.bound(memoryMax: 0)
        fill()
        #expect(connections.heldBytes > 4 << 20)
    }

    @Test func `it counts for the memory limit, and never fills it`() throws {
        let broker = try refuse(300) { $0.keptBytesMax = 400_000 }
        let held = broker.cores[0].memoryBound.rememberedBytes
        #expect((20_000...25_000).contains(held) && !broker.cores[0].memoryBound.isMemoryFull)
        broker.cores[0].recordRemembered(400_000)
        #expect(broker.cores[0].memoryBound.isMemoryFull)
        broker.cores[0].recordRemembered(0)
        #expect(!broker.cores[0].memoryBound.isMemoryFull)
    }

    @Test func `drops of clients with the longest names hold a cut name`() throws {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 1 })
        let away = broker.client(name(0))
        away.connect(expiry: 100)
        away.subscribe("#", qos: .atLeastOnce)
        away.lose()
        let publisher = broker.connected("publisher")
        for _ in 0..<3 { publisher.publish("a", "xyz", qos: .atLeastOnce) }
        guard case .drops(let report)? = broker.ask(ShardQuery(.drops), of: 0)?.rows else { throw Missing() }
        #expect(report.last.count == 2 && report.last.allSatisfy { $0.clientIdentifier?.count ?? 0 < 300 })
    }

    @Test func `the user name that a session keeps counts for the memory limit`() throws {
        let broker = SimulatedBroker()
        let (client, other) = (broker.client("a"), broker.client("b"))
        client.connect(expiry: 100)
        client.disconnect()
        let held = broker.cores[0].heldBytes
        other.connect(expiry: 100, userName: name(0))
        other.disconnect()
        #expect(broker.cores[0].heldBytes >= 2 * held + 63_000)
    }

    private struct Missing: Error {}
}
