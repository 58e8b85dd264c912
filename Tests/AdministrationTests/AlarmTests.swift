import BrokerCore
import BrokerModel
import Cluster
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// Alarms: when they are raised and cleared, and what is told of them.
@Suite struct AlarmTests {
    // MARK: The board

    /// A board, and a clock.
    private struct Board {
        var alarms = AlarmBoard()
        var seconds: UInt64 = 0

        /// Lets seconds pass, each with these conditions, and returns what is told in them.
        mutating func pass(_ count: Int, _ conditions: [AlarmCondition] = []) -> [String] {
            var texts: [String] = []
            for _ in 0..<count {
                seconds += 1
                let now = Moment(milliseconds: seconds * 1000, wallMilliseconds: 1_700_000_000_000 + seconds * 1000)
                texts += alarms.observe(conditions, at: now).map(\.text)
            }
            return texts
        }
    }

    private static let bridge = AlarmCondition(.bridgeDown, of: "site", "It is down.")
    private static let full = AlarmCondition(.storeFull, "No room.")

    @Test func `what is wrong for a moment raises nothing, and what stays is raised once`() {
        var board = Board()
        #expect(board.pass(10, [Self.bridge]) == [])
        #expect(board.pass(1) == [] && board.pass(10, [Self.bridge]) == [], "the time begins anew")
        #expect(board.pass(30, [Self.bridge]) == ["Alarm 1 raised: bridge_down site: It is down."])
        #expect(board.alarms.count(of: .bridgeDown) == 1 && board.alarms.raised.map(\.number) == [1])
        #expect(board.pass(1, [Self.bridge, Self.full]) == ["Alarm 2 raised: store_full: No room."], "at once")
    }

    @Test func `it is cleared when all has been well for a while, and is history then`() {
        var board = Board()
        _ = board.pass(1, [Self.full])
        #expect(board.pass(10) == [] && board.pass(1, [Self.full]) == [] && board.pass(10) == [], "not by a moment")
        #expect(board.pass(1) == ["Alarm 1 cleared: store_full, after 22 s."])
        #expect(board.alarms.raised.isEmpty && board.alarms.history.map(\.number) == [1])
    }

    @Test func `between its two thresholds an alarm neither comes nor goes`() {
        var board = Board()
        let high = AlarmCondition(.memoryHigh, "81 %")
        let holding = AlarmCondition(.memoryHigh, "75 %", isHolding: true)
        #expect(board.pass(60, [holding]) == [])
        #expect(board.pass(6, [high]).count == 1)
        #expect(board.pass(60, [holding]) == [] && board.alarms.raised.first?.message == "75 %")
        #expect(board.pass(11).count == 1)
    }

    @Test func `what comes and goes becomes one alarm`() {
        var board = Board()
        var raised = 0
        for _ in 0..<60 {
            raised += board.pass(2, [Self.full]).count { $0.contains("raised") }
            raised += board.pass(18).count { $0.contains("raised") }
        }
        #expect(raised == 2, "the first time it is cleared after 10 s, then after 20 s, which never pass")
        #expect(board.pass(60).count == 1, "it ends")
        _ = board.pass(700)
        _ = board.pass(1, [Self.full])
        #expect(board.pass(11).count == 1, "what was long ago is forgotten")
    }

    @Test func `there are so many at most`() {
        var board = Board()
        let many = (0..<300).map { AlarmCondition(.certificateEnds, of: "listener \($0)", "Soon.") }
        #expect(board.pass(1, many).count == Limits.alarmsMax)
        #expect(board.pass(11).count == Limits.alarmsMax)
        for _ in 0..<10 {
            _ = board.pass(1, many)
            _ = board.pass(700)
        }
        #expect(board.alarms.history.count == Limits.alarmHistoryMax && board.alarms.raised.isEmpty)
    }

    @Test func `whoever acknowledges first stays`() {
        var board = Board()
        _ = board.pass(1, [Self.full])
        let now = Moment(milliseconds: 5000, wallMilliseconds: 5000)
        #expect(board.alarms.acknowledge(1, by: "ann", at: now)?.acknowledgement?.who == "ann")
        #expect(board.alarms.acknowledge(1, by: "ben", at: now)?.acknowledgement?.who == "ann")
        #expect(board.alarms.acknowledge(2, by: "ben", at: now) == nil)
        _ = board.pass(11)
        #expect(board.alarms.acknowledge(1, by: "ben", at: now)?.acknowledgement?.who == "ann", "also in the history")
    }

    // MARK: The broker

    private func tick(_ house: AdministrationHouse, seconds: Int = 1) {
        for _ in 0..<seconds {
            house.now += 1000
            house.administration.tick { house.moment }
        }
    }

    private func active(_ house: AdministrationHouse) -> [String] { house.get("alarms").column("name") }

    @Test func `a store that fails is told of in list, log, count and metric, acknowledged, and cleared`() {
        let house = AdministrationHouse()
        tick(house)
        #expect(house.broker.alarmLines.isEmpty && house.broker.alarmCounts.values.allSatisfy { $0 == 0 })
        #expect(house.broker.alarmCounts.count == AlarmKind.allCases.count, "zeros are told of too")
        house.broker.condition.store = .full
        tick(house)
        #expect(active(house) == ["store_full"])
        #expect(house.broker.alarmLines.count == 1 && house.broker.alarmCounts[.storeFull] == 1)
        #expect(house.get("broker").object?["alarms"]?.integer == 1)
        #expect(house.send(.get, "/metrics").body.contains("martlet_alarms{name=\"store_full\",severity=\"critical\"} 1\n"))
        #expect(house.send(.post, "alarms/1/acknowledge").object?["acknowledged_by"]?.string == "anonymous")
        #expect(house.send(.post, "alarms/7/acknowledge").status == 404)
        #expect(house.send(.post, "alarms/x/acknowledge").status == 404)
        house.broker.condition.store = .good
        tick(house, seconds: 11)
        #expect(active(house).isEmpty && house.broker.alarmCounts[.storeFull] == 0)
        #expect(house.get("alarms?state=cleared").column("name") == ["store_full"])
        #expect(house.get("alarms?state=cleared").column("acknowledged_by") == ["anonymous"])
        #expect(house.get("alarms?state=all").rows.count == 1)
        #expect(house.get("alarms?state=some").status == 400)
        #expect(house.broker.alarmLines.last?.hasPrefix("Alarm 1 cleared: store_full, after") == true)
    }

    @Test func `disk, memory, bridges, certificates and the cluster are looked at`() {
        let house = AdministrationHouse()
        house.broker.condition.store = .failed
        house.broker.condition.storeDisk = .init(freeBytes: 500 << 20, totalBytes: 8 << 30)
        house.broker.condition.heapBytesMax = 64 << 20
        house.broker.condition.isMemoryFull = true
        for core in house.simulation.cores.prefix(1) { core.recordHeap(byteCount: 60 << 20) }
        var bridges = [AdministeredBridge(name: "site"), AdministeredBridge(name: "rests"), AdministeredBridge(name: "well")]
        (bridges[0].state, bridges[1].state, bridges[2].state) = (.waiting, .paused, .connected)
        (bridges[0].address, bridges[0].lastError) = ("10.0.0.1:1883", "Connection refused")
        house.broker.bridges = bridges
        let day: UInt64 = 86_400_000
        var (soon, over, fine) = (house.broker.listeners[0], house.broker.listeners[0], house.broker.listeners[0])
        (soon.name, over.name, fine.name) = ("listener 8883", "listener 8884", "listener 8885")
        soon.certificate = .init(name: "a.crt", subject: nil, notAfter: house.moment.wallMilliseconds + day)
        over.certificate = .init(name: "b.crt", subject: nil, notAfter: house.moment.wallMilliseconds - 1)
        fine.certificate = .init(name: "c.crt", subject: nil, notAfter: house.moment.wallMilliseconds + 40 * day)
        house.broker.listeners += [soon, over, fine]
        var cluster = ClusterStatus(name: "plant")
        cluster.trouble = "no server can be reached"
        cluster.refusal = "the servers have no room in the stream martlet_plant_log_0: maximum bytes exceeded"
        var said = NodeSummary(node: NodeID(2))
        said.name = "hall-2"
        var other = ClusterMember(node: NodeID(2), state: .gone, isSelf: false, since: 0, summary: said)
        other.clockOffset = 9000
        cluster.members = [other]
        house.broker.condition.cluster = cluster
        var source = BrokerCondition.LoginSource(name: "http")
        (source.isDown, source.lastFailure) = (true, "does not answer within 5 s")
        house.broker.condition.loginSources = [source, BrokerCondition.LoginSource(name: "password_file")]
        tick(house, seconds: 12)
        #expect(
            Set(active(house)) == [
                "store_failed", "disk_nearly_full", "memory_full", "memory_high", "bridge_down", "certificate_ends_soon",
                "certificate_expired", "cluster_down", "cluster_full", "node_down", "clock_differs", "login_source_down",
            ])
        let rows = house.get("alarms").rows
        #expect(rows.first { $0["name"]?.string == "bridge_down" }?["of"]?.string == "site")
        #expect(
            rows.first { $0["name"]?.string == "bridge_down" }?["message"]?.string
                == "The bridge is not connected to 10.0.0.1:1883: Connection refused.")
        #expect(
            rows.first { $0["name"]?.string == "login_source_down" }?["message"]?.string
                == "The login source http does not answer within 5 s: whom it alone knows does not come in.")
        #expect(rows.first { $0["name"]?.string == "certificate_ends_soon" }?["of"]?.string == "listener 8883")
    }

    @Test func `a disk that is small is nearly full with a tenth of it, and a large one with a gigabyte`() {
        for (free, total, isRaised) in [(20, 100, false), (9, 100, true), (900, 4_000_000, true), (1100, 4_000_000, false)]
            as [(UInt64, UInt64, Bool)]
        {
            let house = AdministrationHouse()
            house.broker.condition.storeDisk = .init(freeBytes: free << 20, totalBytes: total << 20)
            tick(house, seconds: 7)
            #expect(active(house) == (isRaised ? ["disk_nearly_full"] : []), "\(free) of \(total) MiB")
        }
    }

    @Test func `queues that overflow are told of, and for a while after`() {
        let house = AdministrationHouse(settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 2 })
        let client = TestClient(broker: house.simulation, identifier: "absent", version: .v5)
        client.connect(expiry: 1000)
        client.subscribe("a", qos: .atLeastOnce)
        client.lose()
        let publisher = house.simulation.connected("p")
        for _ in 0..<5 { publisher.publish("a", "x", qos: .atLeastOnce) }
        tick(house)
        #expect(active(house) == ["queues_full"])
        #expect(house.get("alarms").column("message").first?.contains(": 3 in the last second.") == true)
        tick(house, seconds: 12)
        #expect(active(house).isEmpty)
    }

    @Test func `one who only looks cannot acknowledge`() {
        let house = AdministrationHouse()
        house.broker.condition.store = .failed
        tick(house)
        house.configure { $0.listeners[0]?.anonymousRole = .viewer }
        #expect(house.send(.post, "alarms/1/acknowledge").status == 403)
        #expect(active(house) == ["store_failed"])
    }
}
