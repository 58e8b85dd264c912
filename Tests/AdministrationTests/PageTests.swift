import BrokerCore
import BrokerModel
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// Lists are read to their end whatever the names in them are.
@Suite struct PageTests {
    /// A name of 60,000 bytes.
    private static func long(_ letter: String, _ number: Int) -> String {
        letter + String(repeating: "n", count: 59_990) + String(number)
    }

    /// All rows of a list, read one at a time.
    private func rows(_ path: String, of house: AdministrationHouse, _ name: String) -> [String] {
        var (found, cursor): ([String], String?) = ([], nil)
        for _ in 0..<20 {
            let page = house.get(path + (path.contains("?") ? "&" : "?") + "limit=1" + (cursor.map { "&cursor=\($0)" } ?? ""))
            #expect(page.status == 200, "\(path) \(page.body.prefix(200))")
            found += page.column(name)
            cursor = page.cursor
            #expect(cursor.map { $0.utf8.count <= 1400 } ?? true, "\(path): a cursor has to fit into a request's first line")
            if cursor == nil { return found.sorted() }
        }
        return ["no end"]
    }

    @Test func `every paged list comes to its end with names of 60,000 bytes`() throws {
        let house = AdministrationHouse(shards: 2)
        let names = (0..<3).map { Self.long("c", $0) }
        let topics = (0..<3).map { Self.long("t", $0) }
        for name in names + ["reader"] {
            let client = house.simulation.connected(try #require(EncodedString(name)))
            for topic in topics { client.subscribe([Subscription(filter: try #require(TopicFilter(topic)))]) }
            guard name == "reader" else { continue }
            for topic in topics { client.publish(try #require(EncodedString(topic)), "x", qos: .exactlyOnce, retain: true) }
        }
        #expect(rows("clients?fields=clientid", of: house, "clientid") == names + ["reader"])
        #expect(rows("clients?fields=clientid&sort=-connected_at", of: house, "clientid") == names + ["reader"])
        #expect(rows("clients/reader/subscriptions", of: house, "filter") == topics)
        #expect(rows("subscriptions", of: house, "filter").count == 12)
        #expect(rows("topics/tree", of: house, "name") == topics)
        #expect(rows("retained", of: house, "topic") == topics)
        for name in names { #expect(house.send(.post, "bans", #"{"as":"username","who":"\#(name)"}"#).status == 201) }
        #expect(rows("bans", of: house, "who") == names)
        for name in names { house.simulation.client(try #require(EncodedString(name))).lose() }
        #expect(Set(rows("connections/closed", of: house, "clientid")).isSubset(of: names + ["reader"]))
    }

    /// All rows of a list, read with the largest limit, and the most bytes that a page had.
    private func pages(_ path: String, of house: AdministrationHouse, _ name: String) -> (names: [String], bytesMax: Int) {
        var (found, cursor, most): ([String], String?, Int) = ([], nil, 0)
        for _ in 0..<200 {
            let page = house.get(path + (path.contains("?") ? "&" : "?") + "limit=1000" + (cursor.map { "&cursor=\($0)" } ?? ""))
            // Read once: it is long.
            let object = page.object
            let rows = object?["data"]?.array ?? []
            #expect(page.status == 200 && !rows.isEmpty, "\(path) \(page.body.prefix(200))")
            found += rows.map { $0.object?[name]?.string ?? "-" }
            most = max(most, page.body.utf8.count)
            cursor = object?["meta"]?.object?["cursor"]?.string
            if cursor == nil { return (found.sorted(), most) }
        }
        return (["no end"], most)
    }

    /// What a page has at most: 1 MiB of rows, one reply of a shard that came last, and what stands around.
    private static let pageBytesMax = (1 << 20) + (400 << 10)

    @Test func `every paged list ends a page where its bytes are enough, and leaves nothing out`() throws {
        let house = AdministrationHouse(shards: 2)
        let topics = (10..<34).map { Self.long("t", $0) }
        let clients = try (10..<30).map { house.simulation.connected(try #require(EncodedString(Self.long("c", $0)))) }
        for topic in topics {
            clients[0].publish(try #require(EncodedString(topic)), "x", qos: .exactlyOnce, retain: true)
            clients[1].subscribe([Subscription(filter: try #require(TopicFilter(topic)))])
            #expect(house.send(.post, "bans", #"{"as":"username","who":"\#(topic)"}"#).status == 201)
        }
        let names = (10..<30).map { Self.long("c", $0) }
        for (path, column, expected) in [
            ("retained", "topic", topics), ("subscriptions", "filter", topics), ("topics/tree", "name", topics),
            ("bans", "who", topics), ("clients", "clientid", names),
            ("clients?sort=-connected_at&fields=clientid", "clientid", names),
        ] {
            let (found, most) = pages(path, of: house, column)
            #expect(found == expected, "\(path)")
            #expect(most <= Self.pageBytesMax, "\(path): a page of \(most) bytes")
        }
        for client in clients { client.lose() }
        #expect(pages("connections/closed", of: house, "clientid").bytesMax <= Self.pageBytesMax)
        #expect(house.get("drops?limit=1000").body.utf8.count <= Self.pageBytesMax)
    }

    @Test func `the log's page has the newest lines that there is room for`() {
        let house = AdministrationHouse()
        house.broker.lines = (0..<100).map {
            AdministeredLogLine(topic: .notice, text: "\($0) " + String(repeating: "x", count: 30_000), at: UInt64($0), fields: nil)
        }
        let page = house.get("log?lines=100")
        #expect(page.body.utf8.count <= 1 << 20 && page.rows.count == 34)
        #expect(page.column("message").first?.hasPrefix("66 ") == true && page.column("message").last?.hasPrefix("99 ") == true)
    }

    @Test func `a cursor that is forgotten is told so`() {
        var cursors = LongCursors()
        let (first, short) = (String(repeating: "a", count: 2000), String(repeating: "a", count: 1024))
        let stand = cursors.short(first)
        #expect(stand.utf8.count < 64 && cursors.whole(stand) == first && cursors.short(first) == stand)
        #expect(cursors.short(short) == short && cursors.whole(short) == short)
        for number in 0..<63 { _ = cursors.short(first + "\(number)") }
        #expect(cursors.whole(stand) == first)
        _ = cursors.short(first + "b")
        #expect(cursors.whole(stand) == nil)
        #expect(AdministrationHouse().get("clients?cursor=\(stand)").code == "BAD_REQUEST")
    }
}
