import ClientStore
import Platform
import Testing

@testable import MartletClient

/// What has ended leaves no memory behind, though consumers, sinks and engines know each other.
@Suite(.timeLimit(.minutes(10))) struct LifetimeTests {
    private let server = TestServer()

    private struct Weak: @unchecked Sendable {
        // Unchecked: it is only asked whether the object is there.
        weak let object: AnyObject?
    }

    private func client() throws -> Client {
        let disk = MemoryDisk()
        var settings = server.settings
        settings.store = .custom { () throws(StoreError) in try MemoryStore(disk) }
        return try Client(settings)
    }

    /// Waits until all of them are gone.
    private func gone(_ objects: Locked<[Weak]>) async {
        while objects.withLock({ $0.contains { $0.object != nil } }) { await Task.yield() }
    }

    /// The pipes and sinks of a client as they are now.
    private func parts(_ client: Client) async throws -> Locked<[Weak]> {
        let parts = Locked<[Weak]>([])
        client.engine.post(
            .records { engine in
                parts.withLock { parts in
                    for pipe in engine.subscriptions.pipes.values { parts += [Weak(object: pipe), Weak(object: pipe.sink)] }
                }
            })
        // Behind it.
        _ = try await client.outbox.measure()
        return parts
    }

    @Test func `a subscription by the store and an inbox are gone when they have ended`() async throws {
        defer { server.end() }
        let client = try client()
        try await client.connect()
        var parts: Locked<[Weak]>
        do {
            let messages = client.messages("t", SubscriptionSettings(backlog: .spill))
            let inbox = try client.inbox("all", of: "u")
            try await messages.granted()
            try await inbox.granted()
            parts = try await self.parts(client)
            #expect(parts.withLock(\.count) == 4)
            inbox.end()
        }
        await gone(parts)
        await client.disconnect()
    }

    @Test func `a client with an inbox is gone with its last reference`() async throws {
        defer { server.end() }
        let engine = Locked<[Weak]>([])
        do {
            let client = try client()
            let inbox = try client.inbox("all", of: "u")
            let messages = client.messages("t")
            try await client.connect()
            try await inbox.granted()
            try await messages.granted()
            engine.withLock { $0 = [Weak(object: client.engine)] }
        }
        await gone(engine)
    }

    @Test func `who waits for arrivals hears that the server refuses the subscription, and its name is free`() async throws {
        defer { server.end() }
        let client = try client()
        let inbox = try client.inbox("all", of: "refused/+")
        try await client.connect()
        await #expect(throws: ClientError.refused(.notAuthorized, nil)) { for try await _ in inbox.arrivals {} }
        _ = try client.inbox("all", of: "u")
    }
}
