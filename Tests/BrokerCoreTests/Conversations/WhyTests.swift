import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What is remembered for whoever asks why a message did not arrive, and why a client has gone.
struct WhyTests {
    private func drops(_ broker: SimulatedBroker, of shard: Int = 0) throws -> DropReport {
        guard case .drops(let report) = try #require(broker.ask(ShardQuery(.drops), of: shard)).rows else { throw Missing() }
        return report
    }

    private struct Missing: Error {}

    private func closed(
        _ broker: SimulatedBroker, rowsMax: Int = 100, _ change: (inout ClosedSelection) -> Void = { _ in }
    ) throws -> [ClosedConnectionRow] {
        var selection = ClosedSelection()
        change(&selection)
        let reply = try #require(broker.ask(ShardQuery(.closedConnections(selection), rowsMax: rowsMax)))
        guard case .closedConnections(let rows) = reply.rows else { throw Missing() }
        return rows
    }

    @Test func `the last drops are told with time, topic, client, reason and size, last first`() throws {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 1 })
        let away = broker.client("away")
        away.connect(expiry: 100)
        away.subscribe("#", qos: .atLeastOnce)
        away.lose()
        let publisher = broker.connected("publisher")
        for number in 0..<151 {
            broker.advance(milliseconds: 1)
            publisher.publish("house/room/\(number)", "xyz", qos: .atLeastOnce)
        }
        broker.advance(seconds: 1)
        publisher.publish("other", "xyz", qos: .atLeastOnce)
        let report = try drops(broker)
        #expect(report.last.count == 100)
        let last = try #require(report.last.first)
        #expect(last.topic == Array("other".utf8) && last.clientIdentifier == "away" && last.reason == .queueFull)
        #expect(last.at == broker.now && last.qos == .atLeastOnce && last.byteCount == 8)
        #expect(report.last.last.map { String(decoding: $0.topic, as: UTF8.self) } == "house/room/52")
        #expect(report.byPrefix.map { String(decoding: $0.prefix, as: UTF8.self) } == ["house/room", "other"])
        #expect(report.byPrefix.map { $0.drops[.queueFull] } == [150, 1] && report.ofOtherPrefixes.total == 0)
        #expect(report.byListener.map(\.total) == [151])
    }

    @Test func `prefixes are bounded in number and length`() throws {
        var log = DropLog(hashing: TopicHash(seed: 1))
        let long = Array(repeating: UInt8(ascii: "x"), count: 5_000)
        func drop(_ topic: [UInt8], at now: UInt64 = 0) {
            topic.withUnsafeBytes {
                let message = DroppedMessage(topic: $0, qos: .atMostOnce, byteCount: 1)
                log.add(.expired, message, client: nil, listener: nil, at: now)
            }
        }
        drop(long)
        for number in 0..<1_000 { drop(Array("\(number)/a/b".utf8)) }
        let report = log.report()
        #expect(report.byPrefix.count == Limits.dropPrefixesMax && report.last.count == Limits.dropsRememberedMax)
        #expect(report.ofOtherPrefixes[.expired] == 1_001 - UInt64(Limits.dropPrefixesMax))
        #expect(report.byPrefix.allSatisfy { $0.prefix.count <= Limits.dropPrefixBytesMax })
        #expect(report.byPrefix.contains { $0.prefix == Array("7/a".utf8) })
        // Of one time there are as many rows as there is room for; of the next one there are others.
        #expect(report.last.last?.topic.count == Limits.dropTopicBytesMax)
        drop(Array("7/a/c".utf8))
        drop(long, at: 1)
        #expect(log.report().byPrefix.first { $0.prefix == Array("7/a".utf8) }?.drops.total == 2)
        #expect(log.report().last.first?.topic.count == Limits.dropTopicBytesMax)
    }

    @Test func `a connection that has ended is told with its reason, one that was refused too`() throws {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true })
        broker.authenticate = { request in
            guard case .password("good", _) = request.step else {
                return .refused(.badUserNameOrPassword, because: .wrongPassword)
            }
            return .accepted(userName: "good", data: nil)
        }
        let polite = broker.client("polite")
        polite.connect(userName: "good")
        polite.publish("t", "x")
        broker.advance(seconds: 3)
        polite.disconnect()
        broker.client("bad").connect(userName: "bad")
        let silent = broker.client("silent")
        silent.connect(keepAlive: 10, userName: "good")
        broker.advance(seconds: 20)
        let lost = broker.client("lost")
        lost.connect(userName: "good")
        lost.lose()
        let rows = try closed(broker)
        #expect(rows.map(\.clientIdentifier) == ["lost", "silent", "bad", "polite"])
        #expect(rows.map(\.reason) == [nil, .keepAliveTimeout, .badUserNameOrPassword, .normalDisconnection])
        #expect(rows.map(\.wasAdmitted) == [true, true, false, true] && rows.map(\.isByClient) == [false, false, false, true])
        #expect(rows[2].words == "wrong password" && rows[2].userName == "bad" && rows[2].address == "192.0.2.1")
        #expect(rows[3].position.at - rows[3].from == 3_000 && rows[3].traffic.receivedMessages == 1)
        #expect(try closed(broker) { $0.wasAdmitted = false }.map(\.clientIdentifier) == ["bad"])
        #expect(try closed(broker) { $0.clientIdentifier = "silent" }.count == 1)
        #expect(try closed(broker) { $0.network = AddressRange("198.51.100.1") }.isEmpty)
        let first = try closed(broker, rowsMax: 3)
        #expect(first.count == 3)
        #expect(try closed(broker) { $0.before = first.last?.position }.map(\.clientIdentifier) == ["polite"])
    }

    @Test func `as many closed connections are remembered as allowed`() {
        var closed = ClosedConnections(shard: 2, shardCount: 10)
        for number in 0..<2_500 {
            let position = closed.nextPosition(at: UInt64(number))
            closed.add(
                ClosedConnectionRow(
                    position: position, clientIdentifier: nil, userName: nil, address: "a", port: 0, listener: 0, wasAdmitted: true,
                    from: 0, reason: nil, words: "", isByClient: false, traffic: ClientTraffic()))
        }
        #expect(closed.count == 1_000)
        let (rows, hasMore) = closed.rows(ClosedSelection(), max: 10)
        #expect(rows.map(\.position.at) == (2_490..<2_500).reversed() && hasMore)
        #expect(closed.rows(ClosedSelection(), max: 2_000).rows.last?.position.at == 1_500)
    }

    // MARK: Slow clients

    @Test func `the lag is the age of the oldest byte that a client has not taken`() {
        var lag = OutputLag()
        #expect(lag.milliseconds(now: 100) == 0)
        lag.record(sent: 0, pending: 10, now: 100)
        lag.record(sent: 5, pending: 20, now: 200)
        #expect(lag.milliseconds(now: 300) == 200)
        // The first ten bytes are gone; what came with the second note is there still.
        lag.record(sent: 12, pending: 30, now: 300)
        #expect(lag.milliseconds(now: 350) == 150)
        lag.record(sent: 42, pending: 1, now: 400)
        #expect(lag.milliseconds(now: 450) == 50)
        lag.clear()
        #expect(lag.milliseconds(now: 500) == 0)
    }

    private func slow(disconnects: Bool) -> SimulatedBroker {
        SimulatedBroker(
            settings: SimulatedBroker.testSettings {
                $0.slowClients = SlowClientPolicy(disconnects: disconnects, milliseconds: 30_000)
                $0.tellsPresence = true
            })
    }

    private func slowEvents(_ broker: SimulatedBroker) -> [EncodedString] {
        broker.presence.compactMap { if case .slow(let client, _, _) = $0 { client } else { nil } }
    }

    @Test func `a client that does not read is told of once, and again when it has read`() {
        let broker = slow(disconnects: false)
        let client = broker.connected("client")
        client.subscribe("t")
        let publisher = broker.connected("publisher")
        for round in 1...2 {
            client.connection?.isReading = false
            publisher.publish("t", "x")
            broker.advance(seconds: 29)
            #expect(slowEvents(broker).count == round - 1)
            publisher.publish("t", "x")
            broker.advance(seconds: 60)
            #expect(slowEvents(broker) == Array(repeating: "client", count: round))
            client.connection?.isReading = true
            broker.advance(seconds: 2)
        }
        #expect(broker.logLines.count { $0.contains("Client client is slow") } == 2)
        #expect(client.isConnected)
    }

    @Test func `a client that acknowledges nothing while messages wait is slow too, and its connection ends if that is wanted`() {
        let broker = slow(disconnects: true)
        let client = broker.client("client")
        client.connect(properties: .having { $0.receiveMaximum = 1 })
        client.acknowledgement = .manual
        client.subscribe("t", qos: .atLeastOnce)
        let publisher = broker.connected("publisher")
        publisher.publish("t", "x", qos: .atLeastOnce)
        broker.advance(seconds: 100)
        #expect(client.isConnected)
        publisher.publish("t", "x", qos: .atLeastOnce)
        broker.advance(seconds: 29)
        #expect(client.isConnected)
        broker.advance(seconds: 5)
        #expect(!client.isConnected && client.disconnectReason == .quotaExceeded)
        #expect(slowEvents(broker) == ["client"])
    }

    @Test func `who reads and acknowledges is never slow`() {
        let broker = slow(disconnects: true)
        let client = broker.connected("client")
        client.subscribe("t", qos: .atLeastOnce)
        let publisher = broker.connected("publisher")
        for _ in 0..<50 {
            publisher.publish("t", "x", qos: .atLeastOnce)
            broker.advance(seconds: 2)
        }
        #expect(client.isConnected && client.messages.count == 50)
    }
}
