import ClientStore
import MartletClient
import Testing

@Suite(.timeLimit(.minutes(10))) struct InboxTests {
    private let server = TestServer()
    private let disk = MemoryDisk()

    private enum Rooms {
        static let message = Endpoint(String.self, coding: .text, qos: .exactlyOnce) {
            "chat"; Parameter("room", String.self); Parameter("to", Int.self)
        }
    }

    private func client() throws -> (Client, MemoryStore) {
        let store = try MemoryStore(disk)
        var settings = server.settings
        settings.store = .custom { () throws(StoreError) in store }
        return (try Client(settings), store)
    }

    @Test func `what comes is stored, acknowledged, counted and told of, by conversation`() async throws {
        defer { server.end() }
        let (client, _) = try client()
        let inbox = try client.inbox("chat", of: Rooms.message, by: \.0)
        try await client.connect()
        try await inbox.granted()
        for (room, text) in [("lobby", "1"), ("bar", "2"), ("lobby", "3")] {
            server.publish(text, to: EncodedString("chat/\(room)/7") ?? "", qos: .exactlyOnce)
        }
        var arrived: [String] = []
        for try await batch in inbox.arrivals {
            arrived += batch.map(\.payload)
            if arrived.count == 3 { break }
        }
        #expect(arrived == ["1", "2", "3"])
        #expect(inbox.unread == 3)
        server.wait { $0.acknowledged.count == 3 }
        let rooms = try await inbox.conversations(limit: 20)
        #expect(rooms.map(\.key) == ["lobby", "bar"])
        #expect(rooms.map(\.unread) == [2, 1])
        #expect(rooms[0].last.payload == "3")
        let page = try await inbox.messages(in: "lobby", before: rooms[0].last.number, limit: 50)
        #expect(page.map(\.payload) == ["1"])
        try await inbox.markRead("lobby", through: page[0].number)
        #expect(inbox.unread == 2)
        for await count in inbox.unreadCounts {
            #expect(count["lobby"] == 1)
            break
        }
        #expect(throws: ClientError.settings("the inbox chat is open")) { _ = try client.inbox("chat", of: "x") }
    }

    @Test func `arrivals that nobody follows wait as far as their bytes go, and all are stored`() async throws {
        defer { server.end() }
        let (client, _) = try client()
        let inbox = try client.inbox("chat", of: "t")
        try await client.connect()
        try await inbox.granted()
        let large = String(repeating: "x", count: 1 << 20)
        for _ in 1...18 { server.publish(large) }
        server.wait { $0.acknowledged.count == 18 }
        // The counts are told with the arrivals, behind the commit.
        for await count in inbox.unreadCounts where count.total == 18 { break }
        for try await batch in inbox.arrivals {
            #expect(batch.count == 15)
            break
        }
        #expect(try await inbox.messages(in: "t", limit: 50).count == 18)
    }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `a message whose client died before it was acknowledged comes once`(qos: QoS) async throws {
        defer { server.end() }
        let (first, store) = try client()
        let before = try first.inbox("chat", of: "t")
        try await first.connect()
        try await before.granted()
        store.holdsCommits = true
        server.publish("lost with the process", qos: qos)
        while store.heldCount == 0 { await Task.yield() }
        await first.crash()
        #expect(server.acknowledged.isEmpty)

        let (second, _) = try client()
        let inbox = try second.inbox("chat", of: "t")
        try await second.connect()
        server.wait { $0.acknowledged.count == 1 }
        #expect(try await inbox.messages(in: "t", limit: 9).count == 1)
        // Stored, but the answer did not arrive: the server sends it again under the same identifier.
        server.sendAgain()
        server.wait { $0.acknowledged.count == 2 }
        #expect(try await inbox.messages(in: "t", limit: 9).count == 1)
        #expect(inbox.unread == 1)
    }

    @Test func `what a publisher sends again is known by its identifier`() async throws {
        defer { server.end() }
        let (client, _) = try client()
        let inbox = try client.inbox("chat", of: "t")
        try await client.connect()
        try await inbox.granted()
        for identifier in ["a", "b", "a", "b", "c"] { server.publish(identifier, identifier: identifier) }
        server.wait { $0.acknowledged.count == 5 }
        #expect(try await inbox.messages(in: "t", limit: 9).map(\.payload.text) == ["c", "b", "a"])
        #expect(inbox.unread == 3)
        withExtendedLifetime(client) {}
    }

    @Test func `arrivals end with the client`() async throws {
        defer { server.end() }
        var (client, _): (Client?, MemoryStore) = try client()
        let inbox = try client?.inbox("chat", of: "t")
        async let ended: Void = { for try await _ in try #require(inbox).arrivals {} }()
        client = nil
        try await ended
    }
}
