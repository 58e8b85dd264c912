#if ServiceLifecycle && Logging
    import Logging
    import MartletClient
    import MartletClientServices
    import ServiceLifecycle
    import Testing

    @Suite(.timeLimit(.minutes(10))) struct LifecycleTests {
        @Test func `a client in a group of services ends with its graceful shutdown`() async throws {
            let client = try Client(ClientSettings(server: "mqtt://127.0.0.1:1"))
            let group = ServiceGroup(services: [ClientService(client)], logger: Logger(label: "test"))
            async let run: Void = group.run()
            // It tries for ever to connect to a server that is not there.
            for await state in client.states {
                if case .waiting = state { break }
            }
            await group.triggerGracefulShutdown()
            try await run
            #expect(client.state == .offline)
        }
    }
#endif
