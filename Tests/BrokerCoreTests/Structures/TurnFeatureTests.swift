import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// The values that a shard's features own, and the lists in which they have their turns.
struct TurnFeatureTests {
    @Test func `a shard whose features have nothing left asks for no turn because of them`() {
        let broker = SimulatedBroker(shards: 2)
        let client = broker.connected("client")
        client.subscribe("t/#", qos: .atLeastOnce)
        client.publish("t/1", "1", qos: .atLeastOnce, retain: true)
        client.subscribe("t/+", qos: .atLeastOnce)
        broker.settle()
        #expect(broker.cores.allSatisfy { $0.featureDeadline == nil })
    }

    @Test func `a feature with work asks for a turn at once, and for none when it is done`() {
        let broker = SimulatedBroker()
        let core = broker.cores[0]
        let isTaken = core.perform(ShardCommand(.kick("nobody", publishesWill: true), token: 1))
        #expect(isTaken)
        #expect(CommandScheduler.hasWork(core) && core.featureDeadline == core.now && core.nextDeadline == core.now)
        broker.settle()
        #expect(!CommandScheduler.hasWork(core) && core.featureDeadline == nil)
    }

    @Test func `no more bytes of requests wait than may`() {
        var requests = ControlRequests()
        let takesAll = requests.take(Limits.unansweredBytesMax)
        let takesMore = requests.take(1)
        #expect(takesAll && !takesMore && requests.unansweredBytes == Limits.unansweredBytesMax)
        requests.answered(1)
        let takesNext = requests.take(1)
        #expect(takesNext)
        requests.answered(2 * Limits.unansweredBytesMax)
        #expect(requests.unansweredBytes == 0)
    }

    @Test func `clients that may be slow are looked at in their order, so many at a time`() {
        var clients = SlowClients()
        let ids = (0...UInt32(Limits.suspectsPerSweep)).map { ConnectionID(slot: $0, generation: 0) }
        for id in ids { clients.add(id) }
        let first = clients.takeDue()
        #expect(Array(first) == Array(ids.dropLast()) && Array(clients.due) == [ids[ids.count - 1]] && !clients.isEmpty)
        let second = clients.takeDue()
        #expect(second.count == 1 && clients.isEmpty)
    }
}
