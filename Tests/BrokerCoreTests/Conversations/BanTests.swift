import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Who is banned is not let in, and not left in.
@Suite struct BanTests {
    private func ban(_ kind: BanKind, _ who: String, until: UInt64? = nil) throws -> Ban {
        Ban(try #require(BanTarget(kind, who)), by: "ann", reason: "noise", at: 7, until: until)
    }

    private func apply(_ bans: [Ban], to broker: SimulatedBroker) {
        let list = list(bans)
        for core in broker.cores { core.apply(list) }
        broker.settle()
    }

    private func list(_ bans: [Ban]) -> BanList {
        bans.reduce(into: BanList()) { list, ban in
            let isAdded = list.add(ban)
            #expect(isAdded)
        }
    }

    /// Everybody comes from 192.0.2.1.
    static let targets: [(BanKind, String)] = [
        (.client, "client"), (.user, "anna"), (.address, "192.0.2.1"), (.address, "::ffff:192.0.2.1"), (.network, "192.0.2.0/24"),
    ]

    @Test(.statement("MQTT-3.2.2-7", .v5), .statement("MQTT-3.2.2-5", .v311), arguments: targets, [1, 4])
    func `a banned client, user, address or network is refused with 0x8A, or 5 before 5.0`(
        target: (BanKind, String), shards: Int
    ) throws {
        let broker = SimulatedBroker(shards: shards)
        apply([try ban(target.0, target.1)], to: broker)
        let client = broker.client("client")
        #expect(client.connect(userName: "anna")?.reasonCode == .banned)
        #expect(client.connection?.isClosed == true)
        #expect(broker.client("client", version: .v311).connect(userName: "anna")?.returnCode == .notAuthorized)
        #expect(
            broker.logLines.contains { $0.contains("Login failed from 192.0.2.1 port ") && $0.contains(": banned, user 'anna'") })
        apply([], to: broker)
        #expect(client.connect(userName: "anna")?.isAccepted == true)
    }

    @Test func `others are let in`() throws {
        let broker = SimulatedBroker(shards: 4)
        apply([try ban(.client, "other"), try ban(.user, "otto"), try ban(.network, "198.51.100.0/24")], to: broker)
        #expect(broker.client("client").connect(userName: "anna")?.isAccepted == true)
    }

    @Test func `who turns out to be a banned user is refused once the login has told`() throws {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true })
        broker.authenticate = { _ in .accepted(userName: "anna", data: nil) }
        apply([try ban(.user, "anna")], to: broker)
        #expect(broker.client("client").connect(userName: "alias")?.reasonCode == .banned)
    }

    @Test(arguments: targets, [1, 4])
    func `a ban ends the connection of whom it concerns, and their session stays`(target: (BanKind, String), shards: Int) throws {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("client")
        client.connect(expiry: 100, userName: "anna")
        let old = broker.client("old", version: .v311)
        old.connect(userName: "anna")
        apply([try ban(target.0, target.1)], to: broker)
        #expect(!client.isConnected && client.disconnectReason == .administrativeAction)
        #expect(old.isConnected == (target.0 == .client))
        apply([], to: broker)
        #expect(client.connect(clean: false, userName: "anna")?.sessionPresent == true)
    }

    @Test func `many connections are looked at over several turns, and fewer are ended in each`() throws {
        let broker = SimulatedBroker()
        let others = (0..<2300).map { broker.connected("other \($0)") }
        let clients = (0..<300).map { broker.client("client \($0)") }
        for client in clients { client.connect(userName: "anna") }
        broker.cores[0].apply(list([try ban(.user, "anna")]))
        var counts: [Int] = []
        for _ in 0..<4 {
            broker.step()
            counts.append(clients.count { !$0.isConnected })
        }
        #expect(counts == [0, 128, 256, 300])
        #expect(others.allSatisfy { $0.isConnected })
    }

    @Test(arguments: [(1, 1), (4, 1), (1, 4)]) func `bans are kept by the store until they are lifted`(before: Int, after: Int)
        throws
    {
        let bans = try [
            ban(.client, "näme"), ban(.user, "anna", until: 99), ban(.address, "2001:DB8:0::1"), ban(.network, "192.0.2.77/24"),
        ]
        let broker = SimulatedBroker(shards: before, store: SimulatedStore())
        apply(bans, to: broker)
        let second = broker.crashed(shards: after)
        #expect(second.cores[0].bans == list(bans))
        apply([bans[0], Ban(bans[1].target, by: "bob", reason: "", at: 8, until: nil)], to: second)
        let third = second.crashed(shards: before)
        #expect(third.cores[0].bans.all.map(\.by) == ["ann", "bob"])
        apply([], to: third)
        #expect(third.crashed().cores[0].bans.isEmpty)
    }

    // MARK: What may end in a ban

    private func flapping(_ count: Int, shards: Int = 1, _ change: (inout BrokerSettings) -> Void = { _ in }) -> SimulatedBroker {
        let rule = BanRule(count: count, windowMilliseconds: 60_000, banMilliseconds: 1)
        return SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.flapping = rule
                change(&$0)
            })
    }

    @Test func `a client whose connections end too often is told of, and who is sent away is not`() {
        let broker = flapping(3)
        let client = broker.client("client")
        for _ in 0..<2 {
            client.connect()
            client.lose()
        }
        client.connect()
        _ = broker.perform(.kick("client", publishesWill: true))
        #expect(broker.offences.isEmpty)
        client.connect()
        client.disconnect()
        #expect(broker.offences == [.flapping("client", BanScope(user: nil, party: "192.0.2.1"))])
        client.connect()
        client.disconnect()
        #expect(broker.offences.count == 1, "the count begins anew")
    }

    @Test(arguments: [1, 4]) func `who comes with somebody else's name is counted, and whom it belongs to is not`(shards: Int) {
        let broker = flapping(3, shards: shards)
        let alice = broker.client("pump")
        for _ in 0..<10 {
            broker.address = "192.0.2.1"
            alice.connect(userName: "alice")
            let mallory = broker.client("pump")
            broker.address = "198.51.100.7"
            mallory.connect(userName: "mallory")
            #expect(alice.disconnectReason == .sessionTakenOver)
            mallory.lose()
        }
        let theirs = Offence.flapping("pump", BanScope(user: "mallory", party: "198.51.100.7"))
        #expect(broker.offences == [theirs, theirs, theirs])
    }

    @Test func `a client that takes its own session over again and again is counted, from its address and as its user alone`() {
        let broker = flapping(3)
        func come(_ user: EncodedString?, from address: String) {
            broker.address = address
            broker.client("two").connect(userName: user)
        }
        for _ in 0..<20 {
            come(nil, from: "192.0.2.1")
            come(nil, from: "192.0.2.2")
            come("u", from: "192.0.2.2")
        }
        #expect(broker.offences.isEmpty, "two that have one name throw each other out: nobody knows whose it is")
        for _ in 0..<3 { come("u", from: "192.0.2.2") }
        #expect(broker.offences == [.flapping("two", BanScope(user: "u", party: "192.0.2.2"))])
    }

    @Test(arguments: [1, 4]) func `a ban of a client as one user comes with it from one address keeps out nobody else`(shards: Int)
    {
        let broker = SimulatedBroker(shards: shards)
        let target = BanTarget(client: "pump", BanScope(user: "mallory", party: "2001:db8::/64"))
        func comes(_ user: EncodedString?, from address: String, as name: EncodedString = "pump") -> Bool {
            broker.address = address
            return broker.client(name).connect(userName: user)?.isAccepted == true
        }
        #expect(comes("mallory", from: "2001:db8::1"))
        let owner = broker.client("other")
        owner.connect(userName: "mallory")
        apply([Ban(target, by: "martlet_flapping", reason: "", at: 7, until: nil)], to: broker)
        #expect(owner.isConnected)
        #expect(!comes("mallory", from: "2001:db8::1") && !comes("mallory", from: "2001:db8::2:3"))
        #expect(comes("mallory", from: "2001:db9::1") && comes("alice", from: "2001:db8::1") && comes(nil, from: "2001:db8::1"))
        #expect(comes("mallory", from: "2001:db8::1", as: "pump2"))
    }

    @Test func `a ban of an address that the broker makes by itself keeps out who comes, and leaves in who is in`() throws {
        let broker = SimulatedBroker()
        let alice = broker.connected("alice")
        let own = try #require(BanTarget(.address, "192.0.2.1"))
        apply([Ban(own, by: "martlet_ban_after", reason: "", at: 7, until: nil)], to: broker)
        #expect(alice.isConnected && broker.client("late").connect()?.reasonCode == .banned)
        apply([Ban(own, by: "martlet_ban_after", reason: "", at: 7, until: nil), try ban(.network, "192.0.2.0/24")], to: broker)
        #expect(!alice.isConnected, "what an administrator has said holds for all")
    }

    @Test func `a failed login is told of where that counts`() {
        var settings = SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true }
        for counts in [false, true] {
            settings.countsFailedLogins = counts
            let broker = SimulatedBroker(settings: settings)
            broker.authenticate = { _ in .refused(.notAuthorized, because: .wrongPassword) }
            broker.client("client").connect(userName: "anna", password: [])
            #expect(broker.offences == (counts ? [.failedLogin(address: "192.0.2.1")] : []))
        }
    }
}
