import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What an administrator has a shard do.
struct ShardCommandTests {
    private func broker(_ settings: BrokerSettings = SimulatedBroker.testSettings) -> SimulatedBroker {
        SimulatedBroker(settings: settings)
    }

    @Test func `a client is kicked with its will or without, and its session stays`() {
        for publishesWill in [true, false] {
            let broker = broker()
            let watcher = broker.connected("watcher")
            watcher.subscribe("gone")
            let client = broker.client("client")
            client.connect(expiry: 100, will: Will(topic: "gone", payload: [1]))
            #expect(broker.perform(.kick("client", publishesWill: publishesWill)) == .done)
            #expect(client.disconnectReason == .administrativeAction && !client.isConnected)
            #expect(watcher.messages.count == (publishesWill ? 1 : 0))
            #expect(broker.statistics().clientsTotal == 2)
            #expect(broker.perform(.kick("client", publishesWill: true)) == .notFound)
            #expect(client.connect(clean: false, expiry: 100)?.sessionPresent == true)
        }
    }

    @Test(arguments: [true, false]) func `a session ends, connected or not`(isConnected: Bool) {
        let broker = broker()
        let watcher = broker.connected("watcher")
        watcher.subscribe("gone")
        let client = broker.client("client")
        client.connect(expiry: 100, will: Will(topic: "gone", properties: .having { $0.willDelayInterval = 50 }))
        client.subscribe("t")
        if !isConnected { client.lose() }
        #expect(broker.perform(.endSession("client", publishesWill: true)) == .done)
        #expect(watcher.messages.count == 1)
        #expect(broker.statistics().clientsTotal == 1)
        #expect(broker.perform(.endSession("client", publishesWill: true)) == .notFound)
        #expect(client.connect(clean: false, expiry: 100)?.sessionPresent == false)
    }

    @Test func `a queue is purged, of all that was never sent or of what matches`() {
        let broker = broker(SimulatedBroker.testSettings { $0.inFlightMessagesMax = 2 })
        let client = broker.client("client")
        client.connect(expiry: 100)
        client.acknowledgement = .manual
        client.subscribe("#", qos: .atLeastOnce)
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("\(number % 2)/\(number)", "\(number)", qos: .atLeastOnce) }
        #expect(broker.perform(.purgeQueue(of: "client", matching: "1/#")) == .removed(4))
        #expect(broker.perform(.purgeQueue(of: "client", matching: "1/#")) == .removed(0))
        client.lose()
        client.acknowledgement = .automatic
        client.connect(clean: false, expiry: 100)
        #expect(client.texts == ["0", "1", "0", "1", "2", "4", "6", "8"])
        client.lose()
        for _ in 0..<9_000 { publisher.publish("x", "x", qos: .atLeastOnce) }
        #expect(broker.perform(.purgeQueue(of: "client", matching: nil)) == .removed(1000))
        #expect(broker.statistics().storedMessages == 0)
        #expect(broker.perform(.purgeQueue(of: "nobody", matching: nil)) == .notFound)
    }

    @Test func `a long queue is purged over several turns`() {
        let broker = broker(SimulatedBroker.testSettings { $0.queuedMessagesMax = 0 })
        broker.checksInvariants = false
        let client = broker.client("client")
        client.connect(expiry: 100)
        client.subscribe("#", qos: .atLeastOnce)
        client.lose()
        let publisher = broker.connected("publisher")
        for _ in 0..<100 {
            for number in 0..<100 { publisher.publish(number % 3 == 0 ? "a" : "b", "x", qos: .atLeastOnce, until: .sent) }
            broker.settle()
        }
        let core = broker.cores[0]
        for action in [ShardCommand.Action.purgeQueue(of: "client", matching: "a"), .purgeQueue(of: "client", matching: nil)] {
            #expect(core.perform(ShardCommand(action)))
            var turns = 0
            while !core.inspection.commands.isEmpty {
                let before = core.inspection.commands.stepCount
                #expect(broker.step())
                #expect(core.inspection.commands.stepCount - before <= Limits.commandStepsPerTurn)
                turns += 1
            }
            #expect(turns >= 2)
        }
        #expect(broker.takeOutcomes(of: 0).map(\.result) == [.removed(3_400), .removed(6_600)])
    }

    @Test func `retained messages are counted, then deleted, by filter`() {
        let store = SimulatedStore()
        let broker = SimulatedBroker(store: store)
        let publisher = broker.connected("publisher")
        for number in 0..<5 { publisher.publish("a/\(number)", "x", qos: .atLeastOnce, retain: true) }
        publisher.publish("b", "x", qos: .atLeastOnce, retain: true)
        #expect(broker.perform(.deleteRetained("a/+", isRehearsal: true)) == .removed(5))
        #expect(broker.statistics().retainedMessages == 6)
        #expect(broker.perform(.deleteRetained("a/+", isRehearsal: false)) == .removed(5))
        #expect(broker.perform(.deleteRetained("a/+", isRehearsal: false)) == .removed(0))
        broker.commit()
        #expect(broker.crashed().statistics().retainedMessages == 1)
    }

    @Test(arguments: [1, 3]) func `a message is published as the broker's own`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("a/#", qos: .exactlyOnce)
        let packet = PublishPacket(topic: "a/b", qos: .atLeastOnce, retain: true, payload: [1])
        guard case .published(.success, let receivers) = broker.perform(.publish(packet)) else {
            Issue.record("the message was not published")
            return
        }
        #expect(receivers == (shards == 1 ? 1 : nil) || broker.shard(of: "subscriber") == 0)
        #expect(subscriber.messages.map(\.topic) == ["a/b"] && subscriber.messages.first?.qos == .atLeastOnce)
        #expect(broker.statistics().retainedMessages == 1)
        #expect(broker.perform(.publish(PublishPacket(topic: "x"))) == .published(.noMatchingSubscribers, receivers: 0))
        #expect(broker.perform(.publish(PublishPacket(topic: "a/+"))) == .published(.topicNameInvalid, receivers: nil))
        #expect(broker.perform(.publish(PublishPacket(topic: ""))) == .published(.topicNameInvalid, receivers: nil))
    }

    @Test func `too many commands at once are not taken`() {
        let broker = broker()
        let core = broker.cores[0]
        for _ in 0..<Limits.commandsMax { #expect(core.perform(ShardCommand(.kick("nobody", publishesWill: true), token: 1))) }
        #expect(!core.perform(ShardCommand(.kick("nobody", publishesWill: true), token: 1)))
        for _ in 0..<2 { core.performOwn(.publish(PublishPacket(topic: "own"))) }
        broker.settle()
        #expect(broker.takeOutcomes(of: 0).count == Limits.commandsMax + 2)
    }
}
