import ClientStore
import Glibc
import MartletClient
import Platform
import Testing

@Suite(.timeLimit(.minutes(10))) final class CollectionReaderTests {
    private let directory: String
    private var path: String { directory + "/panel.db" }

    init() {
        var template = Array("/tmp/collection-XXXXXX\0".utf8CString)
        _ = mkdtemp(&template)
        directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress.unsafelyUnwrapped) }
    }

    deinit {
        for rest in ["", "-wal", "-shm", "-lock"] { unlink(path + rest) }
        rmdir(directory)
    }

    private func server() throws -> StoringServer { StoringServer(try FileStore(path)) }

    @Test func `a reader without a client sees what the server has told, and what changes`() async throws {
        let server = try server()
        let temperatures = try server.collection(of: Home.temperature)
        server.inner.publishOther("21.5", "home/kitchen/sensor/3/temperature")
        server.inner.publishOther("12", "home/cellar/sensor/1/temperature")
        server.inner.connect()
        try await temperatures.ready()
        let reader = try CollectionReader(Home.temperature, in: path)
        var changes = reader.changes.makeAsyncIterator()
        var added = 0
        while added < 2 { added += try #require(await changes.next()).added.count }
        #expect(try reader.entries { $0.value > 20 }.map(\.topic) == ["home/kitchen/sensor/3/temperature"])
        #expect(try reader.entries().allSatisfy { $0.state == .stored })
        server.inner.publishOther("22", "home/kitchen/sensor/3/temperature")
        let change = try #require(await changes.next())
        #expect(change.changed.map(\.value) == [22] && change.changed.map(\.old) == [21.5] && change.added.isEmpty)
        server.inner.publishOther("", "home/cellar/sensor/1/temperature")
        #expect(await changes.next()?.removed.map(\.value) == [12])
    }

    @Test func `what is stored is read by the coding that its message named`() async throws {
        let server = try server()
        let levels = try server.collection(of: Tank.level)
        server.inner.publishOther(#"{"litres":7}"#, "tank/1/level", contentType: "application/json")
        server.inner.publishOther("8", "tank/2/level", contentType: "text/plain")
        server.inner.publishOther("9", "tank/3/level", contentType: "application/cbor")
        server.inner.connect()
        try await levels.ready()
        let reader = try CollectionReader(Tank.level, in: path)
        var changes = reader.changes.makeAsyncIterator()
        #expect(await changes.next()?.added.map(\.value) == [Level(7), Level(8)])
        #expect(try reader.entries().map(\.key) == [1, 2])
        #expect(try reader.undecodable() == ["tank/3/level": .undecodable("no coding reads “application/cbor”")])
    }

    @Test func `a collection begins with what was stored, and asks the server for the rest`() async throws {
        do {
            let server = try server()
            let rooms = try server.collection(of: "home/+")
            server.inner.publishOther("1", "home/a")
            server.inner.publishOther("2", "home/b")
            server.inner.connect()
            try await rooms.ready()
            server.storage?.close()
        }
        let server = try server()
        let rooms = try server.collection(of: "home/+")
        #expect(rooms.entries.map(\.key) == ["home/a", "home/b"] && rooms.entries.allSatisfy { $0.state == .stored })
        var changes = rooms.changes.makeAsyncIterator()
        #expect(await changes.next()?.added.count == 2)
        server.inner.publishOther("1", "home/a")
        server.inner.connect()
        let change = try #require(await changes.next())
        #expect(change.removed.map(\.key) == ["home/b"] && change.changed.map(\.state) == [.confirmed])
        let reader = try Client.readCollection(of: "home/+", in: path)
        var stored = reader.changes.makeAsyncIterator()
        var keys: Set<TopicName> = ["home/a", "home/b"]
        while keys != ["home/a"] {
            let change = try #require(await stored.next())
            keys = keys.union(change.added.map(\.key)).subtracting(change.removed.map(\.key))
            if try reader.entries().count == 1 { keys = Set(try reader.entries().map(\.key)) }
        }
    }

    @Test func `local writes are not stored before the server has told them back`() async throws {
        let server = try server()
        let rooms = try server.collection(of: "home/+")
        server.inner.connect()
        try await rooms.ready()
        server.inner.refuse("home/a", .notAuthorized)
        await #expect(throws: ClientError.refused(.notAuthorized)) { try await rooms.set("1", at: "home/a").confirmed() }
        try await rooms.set("2", at: "home/b").confirmed()
        let reader = try Client.readCollection(of: "home/+", in: path)
        var changes = reader.changes.makeAsyncIterator()
        #expect(await changes.next()?.added.map(\.key) == ["home/b"])
    }

    @Test func `without a store there is nothing to read`() {
        #expect(throws: ClientError.self) { try CollectionReader(Home.temperature, in: "\(directory)/none.db") }
    }
}

/// A server's client that has a store.
private final class StoringServer: CollectionHost, ConnectionObserving {
    let inner = CollectionServer()
    let storage: (any ClientStorage)?

    init(_ storage: any ClientStorage) { self.storage = storage }

    var taskExecutor: (any TaskExecutor)? { nil }
    func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt { try await inner.publish(publication) }
    func messages(_ filters: [TopicFilter], _ settings: SubscriptionSettings) -> Messages { inner.messages(filters, settings) }
    func connections() -> AsyncStream<ConnectedServer?> { inner.connections() }
    var connection: ConnectedServer? { inner.connection }
}
