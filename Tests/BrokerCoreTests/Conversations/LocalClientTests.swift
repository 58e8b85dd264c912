import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Clients inside the process: publish with an outcome, subscribe within a window.
struct LocalClientTests {
    /// Everybody may read and write below `open/`, and nowhere else.
    private var openRules: AccessControl {
        AccessControl(
            anonymous: [], users: [:],
            patterns: AccessFilter(Array("open/#".utf8), isPattern: false).map { [AccessRule([.read, .write], $0)] } ?? [])
    }

    private func broker(_ shards: Int, store: SimulatedStore? = nil, _ change: (inout BrokerSettings) -> Void = { _ in })
        -> SimulatedBroker
    {
        SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings(change), store: store)
    }

    @Test(arguments: [1, 3], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `a message of a local client reaches subscribers on all shards, and its outcome is told`(shards: Int, qos: QoS) {
        let broker = broker(shards)
        let receivers = (0..<6).map { broker.connected("receiver \($0)") }
        for receiver in receivers { receiver.subscribe("a/#", qos: .exactlyOnce) }
        let party = broker.attached("bridge")
        #expect(party.connection == LocalConnection(sessionPresent: false, unreleased: []))
        party.publish("a/b", "text", qos: qos, token: 7, properties: .having { $0.contentType = "t" })
        #expect(party.outcomes == [7: .success])
        for receiver in receivers {
            #expect(receiver.messages.map(\.text) == ["text"])
            #expect(receiver.messages.first?.qos == qos)
            #expect(receiver.messages.first?.properties.contentType == "t")
        }
    }

    @Test(arguments: [1, 3], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `a local client gets what it subscribes to from all shards, in each publisher's order`(shards: Int, qos: QoS) {
        let broker = broker(shards)
        let party = broker.attached("bridge")
        party.subscribe("a/#", SubscriptionOptions(maximumQoS: qos, retainAsPublished: true), identifier: 5, token: 1)
        #expect(party.granted == [1: [ReasonCode(rawValue: qos.rawValue)]])
        let publishers = (0..<4).map { broker.connected("publisher \($0)") }
        for number in 0..<10 {
            for (index, publisher) in publishers.enumerated() { publisher.publish("a/\(index)", "\(number)", qos: qos) }
        }
        #expect(party.messages.count == 40)
        #expect(party.messages.map(\.sequence) == Array(1...40))
        #expect(party.messages.allSatisfy { $0.packet.qos == qos && $0.packet.properties.subscriptionIdentifiers == [5] })
        for index in 0..<4 {
            let own = party.messages.filter { $0.packet.topic == "a/\(index)" }
            #expect(own.map { String(decoding: $0.packet.payload, as: UTF8.self) } == (0..<10).map { "\($0)" })
        }
        party.unsubscribe("a/#", token: 2)
        #expect(party.granted[2] == [.success])
        publishers[0].publish("a/0", "late")
        #expect(party.messages.count == 40)
    }

    @Test(arguments: [1, 3]) func `local clients are told apart from those that publish: no local, retained, share groups`(
        shards: Int
    ) {
        let broker = broker(shards)
        let (one, other) = (broker.attached("one"), broker.attached("other"))
        one.publish("kept", "old", qos: .atLeastOnce, retain: true, token: 1)
        one.subscribe("kept", SubscriptionOptions(maximumQoS: .atLeastOnce, noLocal: true))
        other.subscribe("kept")
        #expect(one.messages.isEmpty)
        #expect(other.texts == ["old"])
        #expect(other.messages.first?.packet.retain == true)
        one.publish("kept", "new", token: 2)
        #expect(one.messages.isEmpty)
        #expect(other.texts == ["old", "new"])
        one.subscribe("$share/group/work")
        other.subscribe("$share/group/work")
        let publisher = broker.connected("publisher")
        for number in 0..<20 { publisher.publish("work", "\(number)", qos: .atLeastOnce) }
        let shared = (one.texts + other.texts.dropFirst(2)).compactMap { Int($0) }
        #expect(shared.sorted() == Array(0..<20))
        #expect(one.messages.count >= 5 && other.messages.count >= 7)
    }

    @Test(arguments: [1, 3]) func `what the party does not acknowledge stays within the window; the rest waits and comes later`(
        shards: Int
    ) {
        let broker = broker(shards) { $0.queuedMessagesMax = 50 }
        let party = broker.attached("slow") { $0.messagesMax = 4 }
        party.acknowledges = false
        party.subscribe("a", SubscriptionOptions(maximumQoS: .atLeastOnce))
        let publisher = broker.connected("publisher")
        for number in 0..<100 { publisher.publish("a", "\(number)", qos: .atLeastOnce) }
        #expect(party.texts == ["0", "1", "2", "3"])
        party.acknowledge(2)
        #expect(party.texts == ["0", "1", "2", "3", "4", "5"])
        #expect(party.batches.max() ?? 0 <= 4)
        party.acknowledges = true
        party.acknowledge()
        // 4 handed out and 50 queued; what came beyond that was dropped, as for any client.
        #expect(party.texts == (0..<54).map { "\($0)" })
        #expect(broker.statistics().drops[.queueFull] == 46)
    }

    @Test func `messages of QoS 0 wait in the output within its bound while the window is closed`() {
        let broker = broker(1) { $0.outputBytesMax = 20_000 }
        let party = broker.attached("slow") {
            $0.messagesMax = 10
            $0.bytesMax = 5_000
        }
        party.acknowledges = false
        party.subscribe("a")
        let publisher = broker.connected("publisher")
        let payload = String(repeating: "x", count: 1_000)
        for _ in 0..<100 { publisher.publish("a", payload) }
        #expect(party.messages.count == 4)
        let dropped = Int(broker.statistics().drops[.outputFull])
        #expect(dropped > 70)
        party.acknowledges = true
        party.acknowledge()
        #expect(party.messages.count == 100 - dropped)
        publisher.publish("a", "more")
        #expect(party.texts.last == "more")
    }

    @Test func `a message larger than the window comes alone`() {
        let broker = broker(1)
        let party = broker.attached("small") { $0.bytesMax = 100 }
        party.acknowledges = false
        party.subscribe("a")
        let publisher = broker.connected("publisher")
        for number in 0..<3 { publisher.publish("a", String(repeating: "\(number)", count: 5_000), qos: .atLeastOnce) }
        for count in 1...3 {
            #expect(party.messages.count == count)
            party.acknowledge(1)
        }
        #expect(party.messages.count == 3)
    }

    @Test func `publications beyond the window are not taken, and may be tried again after an outcome`() {
        let store = SimulatedStore()
        let broker = broker(1, store: store)
        let owner = broker.client("keeper")
        owner.connect(clean: false, expiry: 100)
        owner.subscribe("a", qos: .atLeastOnce)
        owner.lose()
        let party = broker.attached("bridge") { $0.publicationsMax = 2 }
        store.mode = .paused
        #expect(party.publish("a", "1", qos: .atLeastOnce, token: 1))
        #expect(party.publish("a", "2", qos: .atLeastOnce, token: 2))
        #expect(!party.publish("a", "3", qos: .atLeastOnce, token: 3))
        #expect(party.publish("a", "0", token: 4), "QoS 0 needs no room")
        #expect(party.outcomes == [4: .success])
        store.mode = .prompt
        broker.settle()
        #expect(party.outcomes == [1: .success, 2: .success, 4: .success])
        #expect(party.publish("a", "3", qos: .atLeastOnce, token: 3))
    }

    @Test func `outcomes say what PUBACK and PUBREC would`() {
        let broker = broker(1) {
            $0.payloadBytesMax = 10
            $0.packetBytesMax = 100
            $0.topicLevelsMax = 3
        }
        let party = broker.attached("bridge")
        party.publish("nobody", qos: .atLeastOnce, token: 1)
        party.publish("nobody", qos: .exactlyOnce, token: 2)
        party.publish("$SYS/broker/uptime", qos: .atLeastOnce, token: 3)
        party.publish("a", String(repeating: "x", count: 11), qos: .exactlyOnce, token: 4)
        party.publish("a/b/c/d", qos: .atLeastOnce, token: 5)
        party.publish("a/#", qos: .atLeastOnce, token: 6)
        party.publish("a", String(repeating: "x", count: 101), qos: .atLeastOnce, token: 7)
        #expect(
            party.outcomes == [
                1: .noMatchingSubscribers, 2: .success, 3: .notAuthorized, 4: .implementationSpecificError,
                5: .topicNameInvalid, 6: .topicNameInvalid, 7: .packetTooLarge,
            ])
        #expect(party.closeReason == nil)
    }

    @Test(arguments: [1, 3]) func `a message of QoS 1 and 2 has its outcome when it is durable on all shards`(shards: Int) {
        let store = SimulatedStore()
        let broker = broker(shards, store: store)
        let owners = (0..<4).map { broker.client("keeper \($0)") }
        for owner in owners {
            owner.connect(clean: false, expiry: 100)
            owner.subscribe("a", qos: .exactlyOnce)
            owner.lose()
        }
        let party = broker.attached("bridge") { $0.sessionExpiryInterval = 100 }
        store.mode = .paused
        party.publish("a", "1", qos: .atLeastOnce, token: 1)
        party.publish("a", "2", qos: .exactlyOnce, token: 2)
        #expect(party.outcomes.isEmpty)
        store.mode = .prompt
        broker.settle()
        #expect(party.outcomes == [1: .success, 2: .success])
        let after = broker.crashed()
        for number in 0..<4 {
            let owner = after.client("keeper \(number)")
            owner.connect(clean: false, expiry: 100)
            #expect(owner.messages.map(\.text) == ["1", "2"])
        }
    }

    @Test(arguments: [1, 3]) func `a session outlives its local client, and a crash`(shards: Int) {
        let broker = broker(shards, store: SimulatedStore())
        let party = broker.attached("bridge") { $0.sessionExpiryInterval = 1_000 }
        party.subscribe("a", token: 1)
        party.detach()
        #expect(party.closeReason == .normalDisconnection)
        broker.connected("publisher").publish("a", "one", qos: .exactlyOnce)
        let after = broker.crashed()
        let again = after.attached("bridge") {
            $0.sessionExpiryInterval = 1_000
            $0.cleanStart = false
        }
        #expect(again.connection?.sessionPresent == true)
        #expect(again.texts == ["one"])
        after.connected("publisher").publish("a", "two", qos: .atLeastOnce)
        #expect(again.texts == ["one", "two"])
    }

    @Test func `a QoS 2 message of its own is taken once, whatever lies between two attempts`() {
        let store = SimulatedStore()
        let broker = broker(1, store: store)
        let receiver = broker.client("receiver")
        receiver.connect(clean: false, expiry: 1_000)
        receiver.subscribe("a", qos: .exactlyOnce)
        receiver.lose()
        let party = broker.attached("bridge") { $0.sessionExpiryInterval = 1_000 }
        // The crash comes before the party hears anything.
        store.mode = .paused
        party.publish("a", "once", qos: .exactlyOnce, token: 1, packetIdentifier: 9)
        let after = broker.crashed(committing: 100)
        store.mode = .prompt
        let again = after.attached("bridge") {
            $0.sessionExpiryInterval = 1_000
            $0.cleanStart = false
        }
        #expect(again.connection?.unreleased == [9])
        for token in 2...30 as ClosedRange<UInt64> { again.publish("other", qos: .exactlyOnce, token: token) }
        #expect(again.outcomes.count == 29)
        again.publish("a", "once", qos: .exactlyOnce, token: 1, packetIdentifier: 9)
        #expect(again.outcomes[1]?.isError == false)
        again.publish("a", "once more", qos: .exactlyOnce, token: 40, packetIdentifier: 9)
        let back = after.client("receiver")
        back.connect(clean: false, expiry: 1_000)
        #expect(back.messages.map(\.text) == ["once", "once more"])
    }

    @Test func `access rules hold for a client's identity, and not for the broker's own`() {
        let broker = broker(1) { $0.listeners[0].accessControl = openRules }
        let own = broker.attached("own")
        let guest = broker.attached("guest") { $0.identity = .user("guest") }
        own.subscribe("#")
        guest.subscribe("#")
        guest.publish("secret/a", "no", qos: .atLeastOnce, token: 1)
        guest.publish("open/a", "well", qos: .atLeastOnce, token: 2)
        own.publish("secret/a", "yes", qos: .atLeastOnce, token: 1)
        #expect(guest.outcomes == [1: .notAuthorized, 2: .success])
        #expect(own.texts == ["well", "yes"])
        #expect(guest.texts == ["well"])
    }

    @Test func `a user's rules are all that a local client has of a listener`() {
        let broker = broker(1) {
            $0.listeners[0].accessControl = openRules
            $0.listeners[0].mountPoint = MountPoint("mount/")
            $0.listeners[0].maximumQoS = .atMostOnce
        }
        let (own, guest) = (broker.attached("own"), broker.attached("guest") { $0.identity = .user("guest") })
        own.subscribe("#", SubscriptionOptions(maximumQoS: .exactlyOnce))
        guest.publish("open/a", "text", qos: .exactlyOnce, token: 1)
        #expect(guest.outcomes == [1: .success])
        #expect(own.messages.map(\.packet.topic) == ["open/a"])
        guest.subscribe("open/#", SubscriptionOptions(maximumQoS: .exactlyOnce), token: 2)
        #expect(guest.granted[2] == [.grantedQoS2])
    }

    @Test(arguments: [LocalLogin.Identity.broker, .user("u")])
    func `nobody from the network takes over a session of the broker's own`(_ identity: LocalLogin.Identity) {
        let broker = broker(1)
        let party = broker.attached("bridge") { $0.identity = identity }
        let thief = broker.client("bridge")
        thief.connect()
        #expect(thief.connack?.reasonCode == .clientIdentifierNotValid)
        #expect(party.closeReason == nil)
        let next = broker.attached("bridge") { $0.identity = identity }
        #expect(party.closeReason == .sessionTakenOver)
        #expect(next.connection != nil)
    }

    @Test func `the longest life of clients' sessions does not bind that of a local one`() {
        let broker = broker(1) { $0.sessionExpirySecondsMax = 60 }
        let party = broker.attached("bridge") { $0.sessionExpiryInterval = .max }
        party.detach()
        broker.advance(seconds: 1_000)
        let again = broker.attached("bridge") { $0.cleanStart = false }
        #expect(again.connection?.sessionPresent == true)
    }

    @Test func `a local client needs no PINGREQ, and ends when the broker stops, acknowledged or not`() {
        let broker = broker(1) { $0.keepAliveSecondsMax = 10 }
        let party = broker.attached("quiet") { $0.messagesMax = 1 }
        broker.advance(seconds: 1_000)
        #expect(party.closeReason == nil)
        party.acknowledges = false
        party.subscribe("a")
        for _ in 0..<5 { party.publish("a") }
        broker.stop()
        #expect(party.closeReason != nil)
        #expect(broker.isIdle)
        let late = broker.attached("late")
        #expect(late.closeReason == .serverUnavailable)
        #expect(late.connection == nil)
    }

    @Test func `its will is published when it asks for that`() {
        let broker = broker(1)
        let watcher = broker.connected("watcher")
        watcher.subscribe("gone")
        let silent = broker.attached("silent") { $0.will = Will(topic: "gone", payload: [1]) }
        silent.detach()
        #expect(watcher.messages.isEmpty)
        let loud = broker.attached("loud") { $0.will = Will(topic: "gone", payload: [1]) }
        loud.detach(publishesWill: true)
        #expect(watcher.messages.count == 1)
    }

    @Test(arguments: [false, true])
    func `the session that is ended is that of the client before, also where the next comes in the same turn`(
        isStored: Bool
    ) {
        let broker = broker(1, store: isStored ? SimulatedStore() : nil)
        let first = broker.attached("bridge") { $0.sessionExpiryInterval = 1_000 }
        first.subscribe("a")
        for isThere in [false, true] {
            if !isThere { first.detach() }
            broker.cores[0].endLocalSession(of: "bridge")
            let next = broker.attached("bridge") {
                $0.sessionExpiryInterval = 1_000
                $0.cleanStart = false
            }
            #expect(next.connection?.sessionPresent == false && next.closeReason == nil)
        }
        broker.connected("publisher").publish("a")
        #expect(first.messages.isEmpty)
    }

    @Test func `a session that was the broker's own stays so after a reload and a crash`() {
        let broker = broker(1, store: SimulatedStore())
        let party = broker.attached("bridge") { $0.sessionExpiryInterval = 1_000 }
        party.subscribe("secret/#")
        party.detach()
        let after = broker.crashed(
            settings: SimulatedBroker.testSettings {
                $0.listeners.append(ListenerPolicy())
                $0.listeners[0].accessControl = openRules
            })
        for core in after.cores {
            core.apply(core.settings)
            core.dismissClients { _ in false }
        }
        let own = after.attached("own")
        own.publish("secret/a", "kept", qos: .atLeastOnce, token: 1)
        #expect(own.outcomes == [1: .success])
        let thief = after.client("bridge")
        thief.connect()
        #expect(thief.connack?.reasonCode == .clientIdentifierNotValid)
    }
}
