import Bytes
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What a shard answers about what it holds: page by page, a bounded number of steps a turn.
struct QueryTests {
    private func clients(_ pages: [ShardReply.Rows]) -> [ClientRow] {
        var found: [ClientRow] = []
        for case .clients(let rows) in pages { found += rows }
        return found
    }

    private func subscriptions(_ pages: [ShardReply.Rows]) -> [SubscriptionRow] {
        var found: [SubscriptionRow] = []
        for case .subscriptions(let rows) in pages { found += rows }
        return found
    }

    private func retained(_ pages: [ShardReply.Rows]) -> [String] {
        var found: [String] = []
        for case .retained(let rows) in pages { found += rows.map { String(decoding: $0.topic, as: UTF8.self) } }
        return found
    }

    private func names(_ rows: [ClientRow]) -> [String] { rows.map { "\($0.clientIdentifier)" } }

    @Test(arguments: [1, 3]) func `clients are listed with what they are and what waits for them`(shards: Int) throws {
        let broker = SimulatedBroker(shards: shards)
        let here = broker.client("here")
        here.connect(keepAlive: 60, expiry: 5, userName: "user")
        here.acknowledgement = .manual
        here.subscribe("t", qos: .atLeastOnce)
        here.subscribe("$share/group/x")
        let away = broker.client("away", version: .v311)
        away.connect(clean: false)
        away.subscribe("t", qos: .atLeastOnce)
        away.disconnect()
        let publisher = broker.connected("publisher")
        for _ in 0..<3 { publisher.publish("t", "12345", qos: .atLeastOnce) }
        let rows = clients(broker.pages(.clients()))
        #expect(names(rows).sorted() == ["away", "here", "publisher"])
        let first = try #require(rows.first { $0.clientIdentifier == "here" })
        #expect(first.userName == "user" && first.version == .v5 && first.sessionExpirySeconds == 5)
        #expect(first.connection?.address == "192.0.2.1" && first.connection?.keepAliveSeconds == 60)
        #expect(first.connection?.listener == 0)
        #expect(first.subscriptionCount == 2 && first.inFlightMessages == 3 && first.queuedMessages == 0)
        let second = try #require(rows.first { $0.clientIdentifier == "away" })
        #expect(second.connection == nil && second.version == .v311 && second.sessionExpirySeconds == .max)
        #expect(second.queuedMessages == 3 && second.queuedBytes >= 15 && second.inFlightMessages == 0)
    }

    @Test(arguments: [1, 3], [1, 7, 100]) func `every client is on exactly one page, however small`(shards: Int, rowsMax: Int) {
        let broker = SimulatedBroker(shards: shards)
        let all = (0..<30).map { "client \($0)" }
        for name in all { broker.connected(EncodedString(name)!) }
        let pages = broker.pages(.clients(), rowsMax: rowsMax)
        #expect(pages.allSatisfy { clients([$0]).count <= rowsMax })
        #expect(names(clients(pages)).sorted() == all.sorted())
    }

    @Test(arguments: 1...10) func `what stays while others come and go is on exactly one page`(seed: UInt64) {
        let broker = SimulatedBroker(seed: seed)
        var random = SeededGenerator(seed: seed)
        let staying = (0..<40).map { "staying \($0)" }
        for name in staying { broker.connected(EncodedString(name)!).subscribe("\(name)/#") }
        var passing: [TestClient] = []
        func change(_ page: Int) {
            for number in 0..<3 {
                let client = broker.connected("passing \(page) \(number)")
                client.subscribe("passing/\(number)")
                client.publish("passing/\(page)/\(number)", "x", retain: true)
                passing.append(client)
            }
            passing.remove(at: Int.random(in: 0..<passing.count, using: &random)).disconnect()
            passing[0].publish("passing/\(Int.random(in: -5...page, using: &random))/0", retain: true)
        }
        for page in -5 ... -1 { change(page) }
        let found = names(clients(broker.pages(.clients(), rowsMax: 5, between: change))).filter { $0.hasPrefix("staying") }
        #expect(found.sorted() == staying.sorted())
        let filters = subscriptions(broker.pages(.subscriptions(of: nil, matching: nil), rowsMax: 5, between: change))
            .map { String(decoding: $0.filter, as: UTF8.self) }.filter { $0.hasPrefix("staying") }
        #expect(filters.sorted() == staying.map { "\($0)/#" }.sorted())
        for name in staying { passing[0].publish(EncodedString(name)!, "x", retain: true) }
        let topics = retained(broker.pages(.retained("#"), rowsMax: 5, between: change)).filter { $0.hasPrefix("staying") }
        #expect(topics.sorted() == staying.sorted())
    }

    @Test(arguments: [1, 3]) func `one client's subscriptions are listed, those in share groups too`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let other = broker.connected("other")
        other.subscribe("a/#")
        other.subscribe("$share/group/b/+")
        let one = broker.connected("one")
        one.subscribe(
            [Subscription(filter: "a/+", options: SubscriptionOptions(maximumQoS: .atLeastOnce, noLocal: true))], identifier: 7)
        one.subscribe("$share/group/b/+", qos: .exactlyOnce)
        one.subscribe("gone")
        one.unsubscribe("gone")
        let rows = subscriptions(broker.pages(.subscriptions(of: "one", matching: nil), rowsMax: 1))
        #expect(rows.count == 2)
        let plain = rows.first { $0.shareName == nil }
        #expect(plain?.filter == Array("a/+".utf8) && plain?.identifier == 7)
        #expect(plain?.options == SubscriptionOptions(maximumQoS: .atLeastOnce, noLocal: true))
        let shared = rows.first { $0.shareName == "group" }
        #expect(shared?.filter == Array("b/+".utf8) && shared?.options.maximumQoS == .exactlyOnce)
        #expect(rows.allSatisfy { $0.clientIdentifier == "one" })
        #expect(subscriptions(broker.pages(.subscriptions(of: "nobody", matching: nil))).isEmpty)
    }

    private static let filters: [TopicFilter] = [
        "#", "+", "+/+", "+/#", "a", "a/#", "a/+", "a/b", "a/b/#", "a/b/+", "a/+/c", "+/b/#", "/", "/+", "$SYS", "$SYS/#", "$SYS/+",
        "+/b",
    ]
    private static let topics: [TopicName] = ["a", "a/b", "a/b/c", "a/c", "/", "/b", "b", "$SYS", "$SYS/b", "x/b/y/z", "a/"]

    @Test(arguments: [1, 3]) func `subscriptions are found by topic, and retained topics by filter, as the standard matches`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards)
        for (index, filter) in Self.filters.enumerated() {
            broker.connected("client \(index)").subscribe(
                index % 2 == 0 ? filter : TopicFilter(Array("$share/s/".utf8) + filter.bytes)!)
        }
        for topic in Self.topics {
            let found = subscriptions(broker.pages(.subscriptions(of: nil, matching: topic), rowsMax: 3)).map(\.filter)
            let expected = Self.filters.filter { $0.matches(topic) }.map { Array($0.matchingBytes) }
            #expect(Set(found) == Set(expected) && found.count == expected.count, "\(topic.text)")
        }
        let party = broker.attached("keeper")
        for topic in Self.topics { party.publish(topic.text, "x", retain: true) }
        // Nobody writes below $SYS.
        let kept = Self.topics.filter { !$0.bytes.starts(with: "$SYS".utf8) }
        for filter in Self.filters {
            let found = retained(broker.pages(.retained(filter), rowsMax: 2))
            let expected = kept.filter { filter.matches($0) }.map { "\($0.text)" }
            #expect(found.sorted() == expected.sorted(), "\(filter)")
        }
    }

    @Test func `a retained message is told with its size and its publisher, and not once it has expired`() throws {
        let broker = SimulatedBroker()
        let publisher = broker.connected("publisher")
        publisher.publish("a", "12345", qos: .atLeastOnce, retain: true, properties: .having { $0.messageExpiryInterval = 10 })
        let reply = try #require(broker.ask(ShardQuery(.retained("a"), token: 9)))
        guard case .retained(let rows) = reply.rows else { return }
        #expect(reply.token == 9 && reply.next == nil)
        #expect(rows.map(\.payloadBytes) == [5])
        #expect(rows.first?.publisher == "publisher" && rows.first?.qos == .atLeastOnce)
        #expect(rows.first?.expiresAt == broker.now + 10_000)
        broker.advance(seconds: 11)
        #expect(retained(broker.pages(.retained("#"))).isEmpty)
    }

    /// Notes how much had been looked at when something was sent.
    private final class Sink: OutputSink {
        private let shard: BrokerShard
        private(set) var stepsThen: [Int] = []

        init(_ shard: BrokerShard) { self.shard = shard }

        func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
            stepsThen.append(shard.inspection.queries.stepCount)
            return slices.reduce(0) { $0 + $1.count }
        }
    }

    @Test func `what is to be sent goes out before a question is looked at`() {
        let shard = BrokerShard(
            index: 0, shardCount: 1, settings: BrokerSettings(), seed: 1, random: SeededGenerator(seed: 1),
            sessionCount: SimulatedSessionCount(), now: 0)
        let id = shard.connected(ConnectionInfo(address: "192.0.2.1"))
        let packet = ControlPacket.connect(ConnectPacket(version: .v5, clientIdentifier: "client")).encoded(version: .v5)
        packet.withUnsafeBytes { shard.received($0, from: id) }
        #expect(shard.ask(ShardQuery(.clients())))
        let sink = Sink(shard)
        shard.endTurn(into: sink) { _, _ in }
        #expect(sink.stepsThen == [0])
        #expect(shard.inspection.queries.stepCount > 0)
    }

    @Test func `no turn takes more steps than allowed, however many ask and however much there is`() {
        let broker = SimulatedBroker()
        let many = broker.connected("many")
        for start in stride(from: 0, to: 9_000, by: 1_000) {
            many.subscribe((start..<start + 1_000).map { Subscription(filter: TopicFilter(Array("a/\($0)".utf8))!) })
        }
        let core = broker.cores[0]
        for token in 0..<3 as Range<UInt64> {
            #expect(core.ask(ShardQuery(.subscriptions(of: "nobody else", matching: nil), token: token)))
            #expect(core.ask(ShardQuery(.subscriptions(of: "many", matching: "a/8999"), token: 10 + token)))
        }
        var turns = 0
        while !core.inspection.queries.isEmpty {
            let before = core.inspection.queries.stepCount
            #expect(broker.step())
            #expect(core.inspection.queries.stepCount - before <= Limits.queryStepsPerTurn)
            turns += 1
        }
        #expect(turns >= 3 * 9_000 / Limits.queryStepsPerTurn)
        let replies = broker.takeReplies(of: 0)
        #expect(Set(replies.map(\.token)) == [0, 1, 2, 10, 11, 12])
        #expect(subscriptions(replies.filter { $0.token >= 10 }.map(\.rows)).count == 3)
    }

    @Test func `too many questions at once are not taken, and a page has no more rows than allowed`() {
        let broker = SimulatedBroker()
        let core = broker.cores[0]
        for _ in 0..<Limits.queriesMax { #expect(core.ask(ShardQuery(.clients()))) }
        #expect(!core.ask(ShardQuery(.clients())))
        broker.settle()
        #expect(broker.takeReplies(of: 0).count == Limits.queriesMax)
        #expect(core.ask(ShardQuery(.clients())))
        #expect(ShardQuery(.clients(), rowsMax: 0).rowsMax == 1)
        #expect(ShardQuery(.clients(), rowsMax: .max).rowsMax == SharedLimits.queryRowsMax)
    }

    @Test func `a share group larger than a page is told over several`() {
        let broker = SimulatedBroker()
        for number in 0..<25 { broker.connected("member \(number)").subscribe("$share/group/a") }
        let pages = broker.pages(.subscriptions(of: nil, matching: "a"), rowsMax: 10)
        #expect(pages.map { subscriptions([$0]).count } == [10, 10, 5])
        #expect(Set(subscriptions(pages).map(\.clientIdentifier)).count == 25)
    }

    // MARK: Orders of clients

    /// Clients with 0, 10, 20 … messages waiting for them.
    private func brokerWithQueues(_ count: Int, shards: Int) -> SimulatedBroker {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("zz publisher")
        for number in 0..<count {
            let client = broker.client("client \(number)")
            client.connect(clean: false, expiry: 1000, userName: number % 2 == 0 ? "Even" : "odd")
            client.subscribe("q/\(number)", qos: .atLeastOnce)
            client.disconnect()
            for _ in 0..<number { publisher.publish("q/\(number)", "x", qos: .atLeastOnce) }
        }
        return broker
    }

    /// All rows in an order, page by page, merged as an administrator's page is.
    private func sorted(_ broker: SimulatedBroker, _ selection: ClientSelection, rowsMax: Int) -> [ClientRow] {
        var (rows, selection): ([ClientRow], ClientSelection) = ([], selection)
        while true {
            var page: [ClientRow] = []
            var hasMore = false
            for shard in 0..<broker.shardCount {
                guard let reply = broker.ask(ShardQuery(.clients(selection), rowsMax: rowsMax), of: shard) else { return [] }
                page += clients([reply.rows])
                hasMore = hasMore || reply.hasMore
            }
            page.sort { $0.position.precedes($1.position, isDescending: selection.isDescending) }
            hasMore = hasMore || page.count > rowsMax
            rows += page.prefix(rowsMax)
            selection.after = page.prefix(rowsMax).last?.position
            guard hasMore else { return rows }
        }
    }

    @Test(arguments: [1, 3], [1, 4, 100]) func `clients come in the order that was asked for, each once`(shards: Int, rowsMax: Int)
    {
        let broker = brokerWithQueues(12, shards: shards)
        let longest = sorted(broker, ClientSelection(order: .queuedMessages, isDescending: true), rowsMax: rowsMax)
        #expect(longest.map(\.queuedMessages) == Array((0..<12).reversed()) + [0])
        let all = names(longest)
        let byName = names(sorted(broker, ClientSelection(order: .clientIdentifier), rowsMax: rowsMax))
        #expect(byName == all.sorted())
        #expect(
            names(sorted(broker, ClientSelection(order: .clientIdentifier, isDescending: true), rowsMax: rowsMax))
                == all.sorted().reversed())
        for order in ClientOrder.allCases {
            #expect(Set(names(sorted(broker, ClientSelection(order: order), rowsMax: rowsMax))) == Set(all), "\(order)")
        }
    }

    @Test(arguments: 1...10) func `in an order too, what stays while others come and go is told once`(seed: UInt64) {
        let broker = SimulatedBroker(seed: seed)
        var random = SeededGenerator(seed: seed)
        let staying = (0..<30).map { "staying \($0)" }
        for name in staying { broker.connected(EncodedString(name)!) }
        var (found, after): ([String], ClientPosition?) = ([], nil)
        var passing: [TestClient] = []
        repeat {
            for number in 0..<3 { passing.append(broker.connected("passing \(passing.count) \(number)")) }
            passing.remove(at: Int.random(in: 0..<passing.count, using: &random)).disconnect()
            let query = ShardQuery(
                .clients(ClientSelection(order: .clientIdentifier, isDescending: true, after: after)), rowsMax: 4)
            guard let reply = broker.ask(query) else { break }
            found += names(clients([reply.rows]))
            after = clients([reply.rows]).last?.position
            if !reply.hasMore { break }
        } while true
        #expect(found.filter { $0.hasPrefix("staying") } == staying.sorted().reversed())
    }

    @Test func `clients are chosen by what they are`() {
        let broker = brokerWithQueues(12, shards: 1)
        func chosen(_ change: (inout ClientSelection) -> Void) -> [String] {
            var selection = ClientSelection(order: .clientIdentifier)
            change(&selection)
            return names(clients(broker.pages(.clients(selection))))
        }
        #expect(chosen { $0.text = Array("LIENT 1".utf8) } == ["client 1", "client 10", "client 11"])
        #expect(chosen { $0.text = Array("eVe".utf8) }.count == 6)
        #expect(chosen { $0.prefix = "zz" } == ["zz publisher"])
        #expect(chosen { $0.userName = "odd" }.count == 6)
        #expect(chosen { $0.isConnected = true } == ["zz publisher"])
        #expect(chosen { $0.isConnected = false }.count == 12)
        #expect(chosen { $0.queuedMin = 10 } == ["client 10", "client 11"])
        #expect(chosen { $0.network = AddressRange("192.0.2.0/28") } == ["zz publisher"])
        #expect(chosen { $0.network = AddressRange("198.51.100.0/24") } == [])
        #expect(chosen { $0.listener = 0 } == ["zz publisher"])
        #expect(chosen { $0.version = .v311 } == [])
        #expect(chosen { $0.dropsMin = 1 } == [])
        let reply = broker.ask(ShardQuery(.clients(ClientSelection(order: .queuedMessages)), rowsMax: 5))
        #expect(reply?.count == 13 && reply?.hasMore == true && reply?.next == nil)
    }

    @Test func `no turn judges more than 2,000 sessions`() {
        let broker = SimulatedBroker()
        broker.checksInvariants = false
        for number in 0..<5_000 {
            broker.client("client \(number)").beginConnect(
                ConnectPacket(version: .v5, clientIdentifier: "client \(number)"))
        }
        broker.settle()
        let core = broker.cores[0]
        for _ in 0..<3 { #expect(core.ask(ShardQuery(.clients(ClientSelection(order: .drops))))) }
        var turns = 0
        while !core.inspection.queries.isEmpty {
            let before = core.inspection.queries.stepCount
            #expect(broker.step())
            #expect(core.inspection.queries.stepCount - before <= 2 * 2_000)
            turns += 1
        }
        #expect(turns >= 8)
        #expect(broker.takeReplies(of: 0).map { $0.count } == [5_000, 5_000, 5_000])
    }

    // MARK: One client

    @Test func `one client is told whole`() throws {
        let broker = SimulatedBroker()
        let client = broker.client("client")
        client.connect(
            expiry: 60, will: Will(topic: "gone", payload: [1, 2], qos: .atLeastOnce, retain: true), userName: "user",
            properties: .having { $0.maximumPacketSize = 1000 })
        client.publish("a", "x")
        guard case .client(let detail?) = broker.ask(ShardQuery(.client("client")))?.rows else {
            Issue.record("the client is not there")
            return
        }
        #expect(detail.will == ClientWillRow(Will(topic: "gone", payload: [1, 2], qos: .atLeastOnce, retain: true)))
        #expect(detail.packetBytesMax == 1000 && detail.info?.address == "192.0.2.1")
        #expect(detail.row.connection?.traffic.receivedMessages == 1 && detail.row.connection?.connectedAt == broker.now)
        #expect(detail.row.createdAt == broker.now && detail.row.disconnectedAt == nil)
        broker.advance(seconds: 2)
        client.disconnect()
        guard case .client(let away?) = broker.ask(ShardQuery(.client("client")))?.rows else { return }
        #expect(away.row.connection == nil && away.row.disconnectedAt == broker.now && away.info == nil)
        guard case .client(nil) = broker.ask(ShardQuery(.client("nobody")))?.rows else {
            Issue.record("there is nobody")
            return
        }
    }

    @Test func `a queue is told message by message, with its content if that is asked for`() throws {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.inFlightMessagesMax = 2 })
        let client = broker.client("client")
        client.connect()
        client.acknowledgement = .manual
        client.subscribe("t/#", qos: .exactlyOnce)
        let publisher = broker.connected("publisher")
        for number in 0..<5 { publisher.publish("t/\(number)", "text", qos: .atLeastOnce) }
        broker.advance(milliseconds: 1500)
        client.publish("x", "x", qos: .exactlyOnce, until: .answered)
        func queue(_ query: ShardQuery) throws -> [QueueRow] {
            switch try #require(broker.ask(query)).rows {
            case .queue(let rows, _), .inFlight(let rows, _): return rows
            default: return []
            }
        }
        let rows = try queue(ShardQuery(.queue(of: "client", withPayload: true)))
        #expect(rows.map(\.state) == [.sent, .sent, .waiting, .waiting, .waiting])
        #expect(rows.map { $0.topic.map { String(decoding: $0, as: UTF8.self) } } == (0..<5).map { "t/\($0)" })
        #expect(rows.allSatisfy { $0.payload == Array("text".utf8) && $0.byteCount == 7 && $0.ageMilliseconds == 1500 })
        #expect(rows.map(\.packetIdentifier) == [1, 2, 0, 0, 0] && rows.map(\.position) == [0, 1, 2, 3, 4])
        #expect(try queue(ShardQuery(.queue(of: "client"))).allSatisfy { $0.payload == nil })
        let page = try #require(broker.ask(ShardQuery(.queue(of: "client"), rowsMax: 3)))
        #expect(page.count == 5 && page.hasMore)
        #expect(try queue(ShardQuery(.queue(of: "client"), cursor: page.next, rowsMax: 3)).map(\.position) == [3, 4])
        guard case .inFlight(let sent, let received) = broker.ask(ShardQuery(.inFlight(of: "client")))?.rows else { return }
        #expect(sent.count == 2 && received.count == 1)
        #expect(try queue(ShardQuery(.queue(of: "nobody"))).isEmpty)
        guard case .client(let detail?) = broker.ask(ShardQuery(.client("client")))?.rows else { return }
        #expect(detail.row.lagMilliseconds == 1500)
    }

    // MARK: Topics

    @Test(arguments: [1, 3]) func `the levels below a topic are told with what is there`(shards: Int) throws {
        let broker = SimulatedBroker(shards: shards)
        let one = broker.connected("one")
        one.subscribe("a/b/c")
        one.subscribe("a/+/c")
        one.subscribe("$share/g/a/b")
        one.subscribe("#")
        let two = broker.connected("two")
        two.subscribe("a/b/c")
        two.publish("a/b", "x", retain: true)
        two.publish("a/d/e", "x", retain: true)
        two.publish("f", "x", retain: true)
        func levels(_ prefix: String?, after: String? = nil, rowsMax: Int = 100) -> [String] {
            var sums: [[UInt8]: TopicLevelRow] = [:]
            for shard in 0..<shards {
                let query = ShardQuery(
                    .topicTree(under: prefix.map { Array($0.utf8) }, after: after.map { Array($0.utf8) }), rowsMax: rowsMax)
                guard case .topicTree(let rows) = broker.ask(query, of: shard)?.rows else { return ["?"] }
                for row in rows {
                    var sum = sums[row.name] ?? TopicLevelRow(name: row.name)
                    sum.subscriptions += row.subscriptions
                    sum.retainedMessages += row.retainedMessages
                    sum.hasMoreLevels = sum.hasMoreLevels || row.hasMoreLevels
                    sums[row.name] = sum
                }
            }
            return sums.values.map {
                "\(String(decoding: $0.name, as: UTF8.self)) \($0.subscriptions) \($0.retainedMessages)\($0.hasMoreLevels ? " …" : "")"
            }.sorted()
        }
        #expect(levels(nil) == ["# 1 0", "a 4 2 …", "f 0 1"])
        #expect(levels("a") == ["+ 1 0 …", "b 3 1 …", "d 0 1 …"])
        #expect(levels("a/b") == ["c 2 0"])
        #expect(levels("nothing") == [])
        #expect(levels("a", after: "b") == ["d 0 1 …"])
        if shards == 1 { #expect(levels("a", rowsMax: 1) == ["+ 1 0 …"]) }
    }

    @Test func `a page ends where its topics have enough bytes, and the next one goes on`() throws {
        let broker = SimulatedBroker()
        let client = broker.connected("client")
        let topics = (10..<40).map { "t\($0)" + String(repeating: "n", count: 60_000) }
        for topic in topics {
            client.publish(try #require(EncodedString(topic)), "x", qos: .atLeastOnce, retain: true)
            client.subscribe([Subscription(filter: try #require(TopicFilter(topic)))])
        }
        for subject in [ShardQuery.Subject.retained("#"), .subscriptions(of: nil, matching: nil)] {
            var (found, cursor) = ([[UInt8]](), ShardCursor?.none)
            repeat {
                let reply = try #require(broker.ask(ShardQuery(subject, cursor: cursor, rowsMax: 1000)))
                let names: [[UInt8]] =
                    switch reply.rows {
                    case .retained(let rows): rows.map(\.topic)
                    case .subscriptions(let rows): rows.map(\.filter)
                    default: []
                    }
                #expect(!names.isEmpty && names.count <= 5)
                found += names
                cursor = reply.next
            } while cursor != nil
            #expect(Set(found).count == 30 && found.count == 30)
        }
    }

    @Test func `of more levels than are remembered the first by name are told, and the others by the pages that follow`() throws {
        var (after, told, pages) = ([UInt8]?.none, [[UInt8]](), 0)
        repeat {
            var levels = TopicLevels(under: nil, after: after)
            // Names of 64 KiB: 200 of them are more than is remembered.
            for number in 0..<200 {
                let name = Array("\((number * 37) % 200 + 100)".utf8) + [UInt8](repeating: 0x6E, count: 65_000)
                name.withUnsafeBytes { levels.add($0, subscriptions: 1, retained: 0, isBelow: false) }
            }
            let (rows, hasMore) = levels.first(1000)
            #expect(rows.reduce(0) { $0 + $1.name.count } <= 4 << 20)
            #expect(levels.count == (hasMore ? nil : rows.count))
            told += rows.map(\.name)
            after = hasMore ? told.last : nil
            pages += 1
        } while after != nil && pages < 100
        #expect(told.count == 200 && told == told.sorted { $0.lexicographicallyPrecedes($1) })
        #expect(Set(told).count == 200)
    }

    @Test func `a retained message is told with its content`() throws {
        let broker = SimulatedBroker()
        let publisher = broker.connected("publisher")
        publisher.publish("a", "12345", retain: true, properties: .having { $0.contentType = "text/plain" })
        guard case .retainedMessage(let content?) = broker.ask(ShardQuery(.retainedMessage("a")))?.rows else {
            Issue.record("the message is not there")
            return
        }
        #expect(content.packet.payload == Array("12345".utf8) && content.packet.properties.contentType == "text/plain")
        #expect(content.row.publisher == "publisher")
        guard case .retainedMessage(nil) = broker.ask(ShardQuery(.retainedMessage("b")))?.rows else {
            Issue.record("there is none")
            return
        }
    }
}
