import MartletClient
import MartletClientJSON
import Platform
import Testing

@Suite(.timeLimit(.minutes(10))) struct LiveCollectionTests {
    private let server = CollectionServer()

    private typealias Rooms = LiveCollection<Payload, TopicName>

    /// A collection that has been told everything.
    private func collection(_ settings: CollectionSettings = CollectionSettings()) async throws -> Rooms {
        let rooms = try server.collection(of: "home/+", settings)
        server.connect()
        try await rooms.ready()
        return rooms
    }

    private typealias Threads = LiveCollection<Thread, Int>

    private func titles(_ threads: Threads, by isBefore: (Threads.Entry, Threads.Entry) -> Bool) -> [String] {
        threads.entries(limit: 10, by: isBefore).map { "\($0.value.title) \($0.state)" }
    }

    private func picture(_ rooms: Rooms) -> [String] { rooms.entries.map { "\($0.key)=\($0.value) \($0.state)" } }

    @Test func `the first picture is whole when the collection is ready`() async throws {
        server.publishOther("21", "home/kitchen")
        server.publishOther("12", "home/cellar")
        server.publishOther("5", "garden")
        let rooms = try await collection()
        #expect(rooms.isReady)
        #expect(picture(rooms) == ["home/cellar=12 confirmed", "home/kitchen=21 confirmed"])
        #expect(rooms["home/kitchen"]?.value == "21")
        #expect(rooms["home/attic"] == nil)
    }

    @Test func `each commit is one change, and the first is all that is there`() async throws {
        server.publishOther("21", "home/kitchen")
        let rooms = try await collection()
        var changes = rooms.changes.makeAsyncIterator()
        let first = try #require(await changes.next())
        #expect(first.added.map(\.key) == ["home/kitchen"])
        server.publishOther("22", "home/kitchen")
        let second = try #require(await changes.next())
        #expect(second.changed.map(\.value) == ["22"] && second.changed.map(\.old) == ["21"])
        server.publishOther("", "home/kitchen")
        let third = try #require(await changes.next())
        #expect(third.removed.map(\.value) == ["22"] && third.added.isEmpty && third.changed.isEmpty)
    }

    @Test(arguments: [ProtocolVersion.v5, .v311])
    func `a reconnect is one change also where the collection hears of it late`(
        version: ProtocolVersion
    ) async throws {
        server.state.withLock { $0.version = version }
        server.publishOther("1", "home/a")
        server.publishOther("2", "home/b")
        let rooms = try await collection()
        var changes = rooms.changes.makeAsyncIterator()
        _ = await changes.next()
        server.state.withLock { $0.holdsNews = true }
        server.cut()
        server.publishOther("", "home/a")
        server.publishOther("3", "home/c")
        // The client has made the old subscription again, and the collection has got what that was told, before it
        // knows.
        server.connect()
        while server.state.withLock({ $0.pipes.contains { $0.pipe.waitingCount > 0 } }) {
            await Task.yield()
        }
        server.tellNews()
        let change = try #require(await changes.next())
        #expect(
            change.removed.map(\.key) == ["home/a"] && change.added.map(\.key) == ["home/c"]
                && change.changed.isEmpty)
        #expect(picture(rooms) == ["home/b=2 confirmed", "home/c=3 confirmed"])
    }

    @Test func `a reconnect takes away exactly what has gone meanwhile, in one change`() async throws {
        server.publishOther("1", "home/a")
        server.publishOther("2", "home/b")
        let rooms = try await collection()
        var changes = rooms.changes.makeAsyncIterator()
        _ = await changes.next()
        server.cut()
        server.publishOther("", "home/a")
        server.publishOther("3", "home/c")
        #expect(picture(rooms).count == 2, "without a connection everything stays")
        server.connect(isSessionPresent: true)
        let change = try #require(await changes.next())
        #expect(change.removed.map(\.key) == ["home/a"] && change.added.map(\.key) == ["home/c"] && change.changed.isEmpty)
        let subscribed = server.state.withLock(\.subscribed)
        #expect(subscribed.count == 2 && subscribed[0][0] == "home/+" && subscribed[0][1] != subscribed[1][1])
    }

    @Test func `a kept session is not asked again where that is wanted, a lost one is`() async throws {
        var settings = CollectionSettings()
        settings.resynchronize = .whenSessionLost
        server.publishOther("1", "home/a")
        let rooms = try await collection(settings)
        var changes = rooms.changes.makeAsyncIterator()
        _ = await changes.next()
        server.cut()
        server.connect(isSessionPresent: true)
        server.publishOther("2", "home/a")
        #expect(await changes.next()?.changed.map(\.value) == ["2"])
        server.cut()
        server.publishOther("", "home/a")
        server.publishOther("3", "home/b")
        server.connect(isSessionPresent: false)
        let change = try #require(await changes.next())
        #expect(change.removed.map(\.key) == ["home/a"] && change.added.map(\.key) == ["home/b"])
    }

    @Test func `a local write is there at once, pending, and confirmed when it comes back`() async throws {
        server.publishOther("1", "home/a")
        let rooms = try await collection()
        var changes = rooms.changes.makeAsyncIterator()
        _ = await changes.next()
        let write = try await rooms.set("2", at: "home/a")
        try await write.confirmed()
        #expect(picture(rooms) == ["home/a=2 confirmed"])
        let states = [await changes.next()?.changed.first?.state, await changes.next()?.changed.first?.state]
        #expect(states == [.pending, .confirmed])
        let gone = try await rooms.remove(at: "home/a")
        try await gone.confirmed()
        #expect(rooms.entries.isEmpty)
        #expect(server.state.withLock(\.retained).isEmpty)
    }

    @Test func `a refused write throws the server's reason, and the old value is back`() async throws {
        server.publishOther("1", "home/a")
        let rooms = try await collection()
        server.refuse("home/a", .notAuthorized)
        let write = try await rooms.set("2", at: "home/a")
        await #expect(throws: ClientError.refused(.notAuthorized)) { try await write.confirmed() }
        #expect(picture(rooms) == ["home/a=1 confirmed"])
    }

    @Test func `a write that does not come back is rolled back after its patience`() async throws {
        let rooms = try await collection()
        server.state.withLock { _ = $0.unsent.insert("home/a") }
        let write = try await rooms.set("2", at: "home/a")
        await server.silence.pass(.seconds(10))
        #expect(picture(rooms) == ["home/a=2 pending"])
        await server.silence.pass(.seconds(10))
        await #expect(throws: ClientError.timedOut) { try await write.confirmed() }
        #expect(rooms.entries.isEmpty)
    }

    @Test func `writes to a topic are published one after another, and all are confirmed`() async throws {
        let rooms = try await collection()
        var writes: [CollectionWrite] = []
        for number in 1...20 { writes.append(try await rooms.set(Payload("\(number)"), at: "home/a")) }
        #expect(rooms["home/a"]?.value == "20")
        for write in writes { try await write.confirmed() }
        #expect(picture(rooms) == ["home/a=20 confirmed"])
    }

    @Test func `elsewhere the end is a guess: silence after one's own message`() async throws {
        server.state.withLock { $0.sendsMarks = false }
        server.publishOther("1", "home/a")
        let rooms = try server.collection(of: "home/+")
        server.connect()
        await server.silence.pass(.milliseconds(249))
        #expect(!rooms.isReady)
        await server.silence.pass(.milliseconds(1))
        try await rooms.ready()
        #expect(picture(rooms) == ["home/a=1 confirmed"])
    }

    @Test func `a server before MQTT 5.0 is followed too`() async throws {
        server.state.withLock { ($0.sendsMarks, $0.version) = (false, .v311) }
        let rooms = try server.collection(of: "home/+")
        server.connect()
        await server.silence.pass(.milliseconds(250))
        try await rooms.ready()
        var changes = rooms.changes.makeAsyncIterator()
        server.publishOther("1", "home/a")
        #expect(await changes.next()?.added.map(\.key) == ["home/a"])
        try await rooms.set("2", at: "home/a").confirmed()
        #expect(picture(rooms) == ["home/a=2 confirmed"])
    }

    @Test func `entries of an endpoint have its parameters and values`() async throws {
        let temperatures = try server.collection(of: Home.temperature)
        server.publishOther("21.5", "home/kitchen/sensor/3/temperature")
        server.publishOther("warm", "home/kitchen/sensor/4/temperature")
        server.connect()
        try await temperatures.ready()
        let entry = try #require(temperatures["kitchen", 3])
        #expect(entry.key == ("kitchen", 3) && entry.value == 21.5)
        #expect(temperatures.entries.count == 1)
        #expect(
            temperatures.undecodable == ["home/kitchen/sensor/4/temperature": .undecodable("“warm” is no Double")])
        let write = try await temperatures.set(22, at: "kitchen", 3)
        try await write.confirmed()
        #expect(temperatures["kitchen", 3]?.value == 22)
        #expect(throws: ClientError.self) { try server.collection(of: Home.alarm) }
    }

    @Test func `the Content Type of a message says which coding reads it, and one that none reads is an error of that entry alone`()
        async throws
    {
        let levels = try server.collection(of: Tank.level)
        server.publishOther(#"{"litres":7}"#, "tank/1/level", contentType: "application/json")
        server.publishOther("8", "tank/2/level", contentType: "text/plain; charset=utf-8")
        server.publishOther("9", "tank/3/level", contentType: "application/cbor")
        server.publishOther(#"{"litres":10}"#, "tank/4/level")
        server.connect()
        try await levels.ready()
        #expect(levels.entries.map(\.value) == [Level(7), Level(8), Level(10)])
        #expect(levels.undecodable == ["tank/3/level": .undecodable("no coding reads “application/cbor”")])
        var changes = levels.changes.makeAsyncIterator()
        #expect(await changes.next()?.added.map(\.key) == [1, 2, 4])
        server.publishOther("9", "tank/3/level", contentType: "text/plain")
        #expect(await changes.next()?.added.map(\.value) == [Level(9)], "it is mended, and the collection has not ended")
        server.publishOther("9", "tank/1/level", contentType: "text/plain")
        let change = try #require(await changes.next())
        #expect(change.changed.map(\.value) == [Level(9)] && change.changed.map(\.old) == [Level(7)])
        server.publishOther("9", "tank/1/level", contentType: "image/png")
        #expect(await changes.next()?.removed.map(\.value) == [Level(9)], "what cannot be read is no entry any more")
        try await levels.set(Level(1), at: 1).confirmed()
        #expect(levels[1]?.value == Level(1))
    }

    @Test func `snapshots are whole pictures`() async throws {
        let rooms = try await collection()
        var snapshots = rooms.snapshots.makeAsyncIterator()
        #expect(await snapshots.next()?.isEmpty == true)
        server.publishOther("1", "home/b")
        #expect(await snapshots.next()?.map(\.key) == ["home/b"])
        server.publishOther("2", "home/a")
        #expect(await snapshots.next()?.map(\.value) == ["2", "1"])
    }

    @Test func `the first entries in an order are kept up by changes`() async throws {
        for (topic, value) in [("home/a", "3"), ("home/b", "1"), ("home/c", "2"), ("home/d", "1")] as [(TopicName, Payload)] {
            server.publishOther(value, topic)
        }
        let rooms = try await collection()
        let newest = rooms.snapshots(limit: 3) { "\($0.value)" < "\($1.value)" }
        var pictures = newest.makeAsyncIterator()
        #expect(await pictures.next()?.map(\.key) == ["home/b", "home/d", "home/c"])
        server.publishOther("0", "home/a")
        #expect(await pictures.next()?.map(\.key) == ["home/a", "home/b", "home/d"])
        #expect(rooms.entries(limit: 1) { "\($0.value)" > "\($1.value)" }.map(\.key) == ["home/c"])
        #expect(rooms.entries(limit: 0) { _, _ in true }.isEmpty)
    }

    @Test func `a change says which fields are others`() async throws {
        let threads = try server.collection(of: Thread.endpoint)
        server.publishOther(#"{"title":"old","pinned":1}"#, "threads/1")
        server.connect()
        try await threads.ready()
        var changes = threads.changes.makeAsyncIterator()
        let first = try #require(await changes.next()?.added.first)
        #expect(!first.hasChanged(\.title) && !first.hasCleared(\.pinned))
        server.publishOther(#"{"title":"old"}"#, "threads/1")
        let second = try #require(await changes.next()?.changed.first)
        #expect(!second.hasChanged(\.title) && second.hasChanged(\.pinned) && second.hasCleared(\.pinned))
        #expect(first.changedFields == [] && second.changedFields == ["pinned"])
        server.publishOther(#"{"title":"new","pinned":2}"#, "threads/1")
        #expect(await changes.next()?.changed.first?.changedFields == ["title", "pinned"])
        let rooms = try await collection()
        var texts = rooms.changes.makeAsyncIterator()
        server.publishOther("1", "home/a")
        _ = await texts.next()
        server.publishOther("2", "home/a")
        #expect(await texts.next()?.changed.first?.old == "1")
    }

    @Test func `some fields are changed, and the others stay as they are`() async throws {
        let threads = try server.collection(of: Thread.endpoint)
        server.publishOther(#"{"title":"old","pinned":1}"#, "threads/1")
        server.publishOther("no thread", "threads/2")
        server.connect()
        try await threads.ready()
        try await threads.update(at: 1) { $0.title = "new" }?.confirmed()
        #expect(threads[1]?.value == Thread(title: "new", pinned: 1))
        #expect(try await threads.update(at: 7) { $0.title = "new" } == nil)
        await #expect {
            try await threads.update(at: 2) { $0.title = "new" }
        } throws: {
            if case ClientError.undecodable = $0 { true } else { false }
        }
        #expect(threads.entries.map(\.key) == [1])
    }

    @Test func `changes that many tasks make at the same time are all made`() async throws {
        let threads = try server.collection(of: Thread.endpoint)
        server.publishOther(#"{"title":"old","pinned":0}"#, "threads/1")
        server.connect()
        try await threads.ready()
        try await withThrowingTaskGroup { group in
            for _ in 1...50 {
                group.addTask { try await threads.update(at: 1) { $0.pinned = ($0.pinned ?? 0) + 1 }?.confirmed() }
            }
            try await group.waitForAll()
        }
        #expect(threads[1]?.value.pinned == 50)
    }

    @Test func `entries of the program's own stand in one list with the server's, and are never published`() async throws {
        let threads = try server.collection(of: Thread.endpoint)
        try threads.setLocal(Thread(title: "b", pinned: nil), at: 2)
        server.publishOther(#"{"title":"c"}"#, "threads/3")
        server.publishOther(#"{"title":"a"}"#, "threads/1")
        server.connect()
        try await threads.ready()
        #expect(titles(threads) { $0.value.title > $1.value.title } == ["c confirmed", "b local", "a confirmed"])
        var pictures = threads.snapshots(limit: 2) { $0.value.title < $1.value.title }.makeAsyncIterator()
        #expect(await pictures.next()?.map(\.value.title) == ["a", "b"])
        try threads.setLocal(Thread(title: "0", pinned: nil), at: 4)
        #expect(await pictures.next()?.map(\.value.title) == ["0", "a"])
        #expect(server.state.withLock(\.retained).count == 2)
        try await threads.update(at: 4) { $0.title = "d" }?.confirmed()
        try threads.removeLocal(at: 2)
        threads.removeAllLocal()
        #expect(titles(threads) { $0.key < $1.key } == ["a confirmed", "c confirmed", "d confirmed"])
    }

    @Test func `a slow consumer gets many commits as one`() async throws {
        let rooms = try await collection()
        var changes = rooms.changes.makeAsyncIterator()
        var writes: [CollectionWrite] = []
        for number in 1...200 { writes.append(try await rooms.set("x", at: TopicName("home/\(number)") ?? "home/0")) }
        for write in writes { try await write.confirmed() }
        var folded: Set<TopicName> = []
        var count = 0
        while folded.count < 200, let change = await changes.next() {
            count += 1
            folded.formUnion(change.added.map(\.key))
        }
        #expect(folded.count == 200)
        #expect(count <= 65)
    }

    @Test func `the collection ends with its last owner, and its subscription with it`() async throws {
        var rooms: Rooms? = try await collection()
        var changes = rooms?.changes
        rooms = nil
        #expect(server.state.withLock(\.pipes.count) == 1, "whoever follows the changes is an owner")
        #expect(changes != nil)
        changes = nil
        #expect(server.state.withLock(\.pipes.count) == 0)
    }

    @Test func `a client that ends ends its collections`() async throws {
        let rooms = try server.collection(of: "home/+")
        server.connect()
        try await rooms.ready()
        let changes = rooms.changes
        let consumer = Task { for await _ in changes {} }
        for made in server.state.withLock(\.pipes) { made.pipe.end(.ended) }
        await consumer.value
    }
}

/// Litres, in a text that is nothing but the number, or in JSON.
struct Level: Codable, Hashable, Sendable, LosslessStringConvertible {
    var litres: Int

    init(_ litres: Int) { self.litres = litres }
    init?(_ description: String) {
        guard let litres = Int(description) else { return nil }
        self.litres = litres
    }
    var description: String { "\(litres)" }
}

enum Tank {
    static let level = Endpoint(Level.self, coding: .json.or(.text), retain: true) {
        "tank"; Parameter("number", Int.self); "level"
    }
}

private struct Thread: Codable, Hashable, Sendable {
    static let endpoint = Endpoint(Thread.self, qos: .atLeastOnce, retain: true) {
        "threads"; Parameter("number", Int.self)
    }

    var title: String
    var pinned: Int?
}
