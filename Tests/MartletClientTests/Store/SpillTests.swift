import ClientStore
import MartletClient
import Testing

/// Messages that wait for their consumer in the store.
@Suite(.timeLimit(.minutes(10))) struct SpillTests {
    private let server = TestServer()
    private let disk = MemoryDisk()

    private func client() throws -> (Client, MemoryStore) {
        let store = try MemoryStore(disk)
        var settings = server.settings
        settings.store = .custom { () throws(StoreError) in store }
        return (try Client(settings), store)
    }

    @Test func `messages are acknowledged when they are stored, and come in order however slow their consumer is`() async throws {
        defer { server.end() }
        let (client, store) = try client()
        let messages = client.messages("t")
        try await client.connect()
        try await messages.granted()
        for number in 1...2000 { server.publish("\(number)", qos: number.isMultiple(of: 2) ? .exactlyOnce : .atLeastOnce) }
        server.wait { $0.acknowledged.count == 2000 }
        #expect(messages.waitingCount <= 256)
        var next = 0
        for try await message in messages {
            next += 1
            #expect(message.payload.text == "\(next)")
            if next == 2000 { break }
        }
        messages.cancel()
        _ = try await client.outbox.open()
        #expect(try store.measure(StoreQuery(.spill)).rows == 0)
    }

    @Test func `nothing is acknowledged before it is on the disk`() async throws {
        defer { server.end() }
        let (client, store) = try client()
        let messages = client.messages("t")
        try await client.connect()
        try await messages.granted()
        store.holdsCommits = true
        server.publish("1")
        server.publish("2", qos: .exactlyOnce)
        while store.heldCount == 0 { await Task.yield() }
        #expect(server.acknowledged.isEmpty)
        #expect(messages.waitingCount == 0)
        store.holdsCommits = false
        server.wait { $0.acknowledged.count == 2 }
        var iterator = messages.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == "1")
        #expect(try await iterator.next()?.payload == "2")
    }

    @Test func `what the consumer had not taken comes again after a crash, and before what is new`() async throws {
        defer { server.end() }
        let (first, _) = try client()
        let before = first.messages("t")
        try await first.connect()
        try await before.granted()
        for number in 1...400 { server.publish("\(number)") }
        server.wait { $0.acknowledged.count == 400 }
        var iterator = before.makeAsyncIterator()
        for number in 1...100 { #expect(try await iterator.next()?.payload.text == "\(number)") }
        // Messages whose successors were asked for are taken.
        _ = try await first.outbox.open()
        await first.crash()
        let (second, _) = try client()
        let after = second.messages("t")
        try await second.connect()
        server.publish("401")
        var next = 100
        for try await message in after {
            #expect(message.payload.text == "\(next)")
            next += 1
            if next == 402 { break }
        }
    }

    @Test func `without a store spilling is refused`() async throws {
        defer { server.end() }
        let client = try Client(server.settings)
        let messages = client.messages("t", SubscriptionSettings(backlog: .spill))
        await #expect(throws: ClientError.settings("the backlog .spill needs a store: set settings.store")) {
            for try await _ in messages {}
        }
    }
}
