import MartletTesting
import Testing

/// Tasks that are cancelled at every point where they can be.
struct CancellationTests {
    @Test(arguments: [false, true]) func `a subscription that is cancelled anywhere is gone at the server`(isConnected: Bool)
        async throws
    {
        for moment in 0..<120 {
            try await Simulation.run(seed: UInt64(moment) &* 7 &+ (isConnected ? 1 : 0)) { world in
                let broker = world.broker()
                let client = try world.client("c", of: broker) { $0.session = .kept(.seconds(1000)) }
                let other = try world.client("other", of: broker)
                try await other.connect()
                if isConnected { try await client.connect() } else { client.start() }
                let task = Task {
                    let messages = client.messages("c/#")
                    try await messages.granted()
                    _ = try await other.publish("1", to: "c/1", qos: .exactlyOnce)
                    for try await message in messages {
                        _ = try await client.publish(message.payload, to: "d", qos: .exactlyOnce)
                    }
                }
                // Moments close to each other in the beginning, and then as far apart as the network's delays.
                for _ in 0..<(moment % 40) { await Task.yield() }
                await world.advance(by: .milliseconds(moment / 8))
                task.cancel()
                _ = await task.result
                await world.advance(by: .seconds(30))
                #expect(broker.subscriptions(of: "c") == [], "moment \(moment)")
                #expect(client.state.isOnline, "moment \(moment)")
            }
        }
    }

    @Test func `who does not wait any longer for a connection that others want leaves it to them`() async throws {
        try await Simulation.run(seed: 1) { world in
            let broker = world.broker()
            broker.crash(for: .seconds(30))
            let client = try world.client("c", of: broker)
            client.start()
            let impatient = Task { try await client.connect() }
            await world.advance(by: .seconds(5))
            impatient.cancel()
            await #expect(throws: ClientError.cancelled) { try await impatient.value }
            await world.advance(by: .seconds(120))
            #expect(client.state.isOnline)
            // And alone it ends what it has begun.
            broker.crash(for: .seconds(30))
            let other = try world.client("d", of: broker) { $0.connectTimeout = .seconds(60) }
            world.faults.delayMilliseconds = 50_000...50_000
            let alone = Task { try await other.connect() }
            await world.advance(by: .milliseconds(1))
            alone.cancel()
            _ = await alone.result
            await world.settle()
            #expect(other.state == .offline)
        }
    }

    @Test func `publish and connect that are cancelled anywhere end, and the client goes on`() async throws {
        for moment in 0..<100 {
            try await Simulation.run(seed: UInt64(moment) &* 11) { world in
                let broker = world.broker()
                let client = try world.client("c", of: broker)
                let task = Task {
                    try await client.connect()
                    try await client.publish("1", to: "t", qos: .exactlyOnce)
                    try await client.publish("2", to: "t", qos: .exactlyOnce)
                }
                for _ in 0..<(moment % 25) { await Task.yield() }
                await world.advance(by: .milliseconds(moment / 8))
                task.cancel()
                _ = await task.result
                try await client.connect()
                try await client.publish("3", to: "t", qos: .exactlyOnce)
                #expect(broker.published("t").filter { $0.payload == "3" }.count == 1, "moment \(moment)")
                #expect(Set(broker.published("t").map(\.payload)).count == broker.published("t").count, "moment \(moment)")
            }
        }
    }
}
