import ClientStore
import MartletClient
import Platform
import Testing

/// The outbox of a client, over connections that come and go and clients that die.
@Suite(.timeLimit(.minutes(10))) struct OutboxTests {
    private let server = TestServer()
    private let disk = MemoryDisk()

    /// A client, and the store that a test crashes or holds up.
    private func client(_ change: (inout ClientSettings) -> Void = { _ in }) throws -> (Client, MemoryStore) {
        let store = try MemoryStore(disk)
        var settings = server.settings
        settings.store = .custom { () throws(StoreError) in store }
        change(&settings)
        return (try Client(settings), store)
    }

    @Test func `what is enqueued offline arrives in order, and the outbox is empty then`() async throws {
        defer { server.end() }
        let (client, store) = try client()
        var deliveries: [Delivery] = []
        for number in 1...5 { deliveries.append(try await client.enqueue(Payload("\(number)"), to: "t")) }
        #expect(try store.measure(StoreQuery(.outbox)).rows == 5)
        #expect(deliveries[4].status == .queued(ahead: 4))
        try await client.connect()
        for delivery in deliveries { try await delivery.arrival() }
        #expect(server.texts == ["1", "2", "3", "4", "5"])
        #expect(try await client.outbox.open().isEmpty)
        #expect(try await client.outbox.measure().messages == 0)
        #expect(server.received.map { $0.properties.messageIdentifier } == deliveries.map(\.id))
        #expect(Set(deliveries.map(\.id)).count == 5)
    }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `what was enqueued survives a client that dies, in flight or not`(qos: QoS) async throws {
        defer { server.end() }
        let (first, _) = try client { $0.inFlight = 2 }
        server.isSilent = true
        try await first.connect()
        for number in 1...5 { _ = try await first.enqueue(Payload("\(number)"), to: "t", qos: qos) }
        server.wait { $0.received.count == 2 }
        await first.crash()
        server.isSilent = false
        let (second, _) = try client { $0.inFlight = 2 }
        let open = try await second.outbox.open()
        #expect(open.count == 5)
        #expect(open.map(\.status.rankForTest) == [1, 1, 0, 0, 0])
        try await second.connect()
        for delivery in open { try await delivery.arrival() }
        // In flight first, again; what is of QoS 2 only once.
        let again = qos == .exactlyOnce ? ["1", "2", "3", "4", "5"] : ["1", "2", "1", "2", "3", "4", "5"]
        #expect(server.texts == again)
    }

    @Test func `a message of QoS 2 leaves after its packet identifier is on the disk`() async throws {
        defer { server.end() }
        let (client, store) = try client()
        try await client.connect()
        store.holdsCommits = true
        async let enqueued = client.enqueue("x", to: "t", qos: .exactlyOnce)
        while store.heldCount == 0 { await Task.yield() }
        // The message, whose sender hears of it, and then the packet identifier.
        store.complete(1)
        let delivery = try await enqueued
        while store.heldCount == 0 { await Task.yield() }
        #expect(server.received.isEmpty)
        store.complete(1)
        server.wait { $0.received.count == 1 }
        store.holdsCommits = false
        try await delivery.arrival()
        // What the turn of the last answer has changed is in the store before this is read from it.
        #expect(try await client.outbox.open().isEmpty)
        #expect(try store.measure(StoreQuery(.outgoing)).rows == 0)
    }

    @Test func `who follows a message hears that the client has ended`() async throws {
        defer { server.end() }
        var (client, _): (Client?, MemoryStore) = try client()
        let delivery = try #require(try await client?.enqueue("x", to: "t"))
        let following = Task { await delivery.statuses.reduce(into: []) { $0.append($1) } }
        let waiting = Task { try await delivery.arrival() }
        client = nil
        #expect(await following.value.last == .queued(ahead: 0))
        await #expect(throws: ClientError.ended) { try await waiting.value }
        // Also who comes late.
        await #expect(throws: ClientError.ended) { try await delivery.arrival() }
    }

    @Test func `the server's refusal and the statuses reach whoever follows`() async throws {
        defer { server.end() }
        let (client, _) = try client()
        server.refusal = .quotaExceeded
        try await client.connect()
        let delivery = try await client.enqueue("x", to: "t")
        var last: DeliveryStatus?
        for await status in delivery.statuses {
            #expect((last?.rankForTest ?? 0) <= status.rankForTest)
            last = status
        }
        #expect(last == .failed(.refused(.quotaExceeded)))
        #expect(try await client.outbox.open().isEmpty)
    }

    private func quotaTexts() -> Properties {
        var texts = Properties()
        texts.reasonString = "quota of tenant 7 used up"
        texts.userProperties = [UserProperty(name: "tenant", value: "7")]
        return texts
    }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `the server's words and User Properties of a refused message reach whoever published it`(qos: QoS) async throws {
        defer { server.end() }
        let refusals = Locked<[Refusal]>([])
        let (client, _) = try client {
            $0.interceptors = [
                OnRefusal(of: .quotaExceeded) { refusal in
                    refusals.withLock { $0.append(refusal) }
                    return .none
                }
            ]
        }
        (server.refusal, server.refusalTexts) = (.quotaExceeded, quotaTexts())
        try await client.connect()
        let refused = ClientError.refused(.quotaExceeded, "quota of tenant 7 used up", quotaTexts().userProperties)
        await #expect(throws: refused) { try await client.publish("x", to: "t", qos: qos) }
        let delivery = try await client.enqueue("y", to: "t", qos: qos)
        await #expect(throws: refused) { try await delivery.arrival() }
        #expect("\(refused)" == "the server refuses: quota of tenant 7 used up")
        _ = try await client.outbox.refused()
        let told = Refusal(
            .publication("t"), .quotaExceeded, "quota of tenant 7 used up", userProperties: quotaTexts().userProperties)
        #expect(refusals.value == [told, told])
    }

    @Test func `the words of a refused SUBSCRIBE and UNSUBSCRIBE reach whoever asked`() async throws {
        defer { server.end() }
        let (client, _) = try client()
        server.refusalTexts = quotaTexts()
        try await client.connect()
        let refused = ClientError.refused(.notAuthorized, "quota of tenant 7 used up", quotaTexts().userProperties)
        let messages = client.messages("refused/a")
        await #expect(throws: refused) { try await messages.granted() }
        await #expect(throws: refused) { try await client.unsubscribe(["granted/a", "refused/b"]) }
        try await client.unsubscribe(["granted/a"])
    }

    @Test func `what the server has refused of the outbox is told after a restart, until its owner has seen it`() async throws {
        defer { server.end() }
        let (first, _) = try client()
        (server.refusal, server.refusalTexts) = (.quotaExceeded, quotaTexts())
        try await first.connect()
        let lost = try await first.enqueue("1", to: "a", retain: true)
        await #expect(throws: ClientError.self) { try await lost.arrival() }
        server.isSilent = true
        server.refusal = nil
        _ = try await first.enqueue("2", to: "b", qos: .exactlyOnce)
        server.wait { $0.received.count == 1 }
        await first.crash()
        // The second was in flight: it is refused in this run, and nobody follows it.
        server.refusal = .notAuthorized
        let (second, _) = try client()
        try await second.connect()
        var refused = try await second.outbox.refused()
        while refused.count < 2 { refused = try await second.outbox.refused() }
        #expect(refused.map(\.publication.topic) == ["a", "b"] && refused.map { "\($0.publication.payload)" } == ["1", "2"])
        #expect(refused[0].id == lost.id && refused[0].publication.retain && refused[0].time > .zero)
        #expect(refused[0].error == .refused(.quotaExceeded, "quota of tenant 7 used up", quotaTexts().userProperties))
        #expect(refused[1].error == .refused(.notAuthorized, "quota of tenant 7 used up", quotaTexts().userProperties))
        try await second.outbox.forgetRefused([refused[0]])
        await second.crash()
        let (third, _) = try client()
        #expect(try await third.outbox.refused() == [refused[1]])
        #expect(try await third.outbox.open().isEmpty)
    }

    @Test func `interceptors see what is enqueued, and what the server refuses of it`() async throws {
        defer { server.end() }
        let (refusals, told) = AsyncStream.makeStream(of: Refusal.self)
        let (client, _) = try client {
            $0.interceptors = [
                AddUserProperties(["app": "panel"]),
                OnRefusal(of: .quotaExceeded) { refusal in
                    told.yield(refusal)
                    return .none
                },
            ]
        }
        server.refusal = .quotaExceeded
        try await client.connect()
        let delivery = try await client.enqueue("x", to: "t")
        for await refusal in refusals {
            #expect(refusal == Refusal(.publication("t"), .quotaExceeded))
            break
        }
        for await _ in delivery.statuses {}
        #expect(delivery.status == .failed(.refused(.quotaExceeded)))
    }

    @Test func `a message that is withdrawn does not arrive, one that was sent cannot be`() async throws {
        defer { server.end() }
        let (client, _) = try client()
        let first = try await client.enqueue("1", to: "t")
        let second = try await client.enqueue("2", to: "t")
        #expect(try await client.outbox.withdraw(first))
        #expect(first.status == .failed(.cancelled))
        try await client.connect()
        try await second.arrival()
        #expect(!(try await client.outbox.withdraw(second)))
        #expect(server.texts == ["2"])
    }

    @Test func `a full outbox refuses, drops the oldest, or lets wait`() async throws {
        defer { server.end() }
        let (first, _) = try client { $0.outbox = ClientSettings.QueueLimits(messages: 2, whenFull: .refuse) }
        for text in ["1", "2"] { _ = try await first.enqueue(Payload(text), to: "t") }
        await #expect(throws: ClientError.queueFull) { _ = try await first.enqueue("3", to: "t") }
        await first.crash()
        let (second, _) = try client { $0.outbox = ClientSettings.QueueLimits(messages: 2, whenFull: .dropOldest) }
        // The outbox of an earlier run is read first.
        let open = try await second.outbox.open()
        var isDropped = false
        while !isDropped { isDropped = (try? await second.enqueue("3", to: "t")) != nil }
        #expect(open[0].status == .failed(.queueFull))
        await second.crash()
        let (third, _) = try client { $0.outbox = ClientSettings.QueueLimits(messages: 2, whenFull: .wait) }
        async let waiting = third.enqueue("4", to: "t")
        try await third.connect()
        try await waiting.arrival()
        #expect(server.texts == ["2", "3", "4"])
    }

    @Test func `a message that gets too old in the outbox expires`() async throws {
        defer { server.end() }
        let (client, _) = try client()
        var publication = Publication("t", "x", qos: .atLeastOnce)
        publication.properties.messageExpiryInterval = 0
        let delivery = try await client.enqueue(publication)
        for await _ in delivery.statuses {}
        #expect(delivery.status == .expired)
        #expect(try await client.outbox.open().isEmpty)
    }

    @Test func `without room enqueue fails, and what was stored arrives`() async throws {
        defer { server.end() }
        let (client, store) = try client()
        let first = try await client.enqueue("1", to: "t")
        disk.bytesMax = 1
        await #expect(throws: ClientError.store("there is no room for memory")) { _ = try await client.enqueue("2", to: "t") }
        disk.bytesMax = nil
        store.complete()
        try await client.connect()
        try await first.arrival()
        #expect(server.texts == ["1"])
    }

    @Test func `without a store enqueue says what is missing, and a store in use who has it`() async throws {
        defer { server.end() }
        let plain = try Client(server.settings)
        await #expect(throws: ClientError.settings("enqueue needs a store: set settings.store")) {
            _ = try await plain.enqueue("x", to: "t")
        }
        let (client, _) = try client()
        var settings = server.settings
        settings.store = .custom { [disk] () throws(StoreError) in try MemoryStore(disk) }
        #expect(throws: ClientError.store("memory is used by another client")) { _ = try Client(settings) }
        withExtendedLifetime(client) {}
    }

    @Test func `a store in a file is there for the next client as soon as the last has gone`() async throws {
        defer { server.end() }
        let file = String(server.path.dropLast(6)) + "panel.db"
        var settings = server.settings
        settings.store = .file(file)
        var client: Client? = try Client(settings)
        for number in 1...3 { _ = try await client?.enqueue(Payload("\(number)"), to: "t") }
        client = nil
        let next = try Client(settings)
        #expect(try await next.outbox.open().count == 3)
        try await next.connect()
        server.wait { $0.received.count == 3 }
        #expect(server.texts == ["1", "2", "3"])
    }
}

extension DeliveryStatus {
    var rankForTest: Int {
        switch self {
        case .queued: 0
        case .sent: 1
        case .received: 2
        case .acknowledged, .failed, .expired: 3
        }
    }
}
