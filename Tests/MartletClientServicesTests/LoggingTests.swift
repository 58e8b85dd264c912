#if Logging
    import Logging
    import MartletClient
    import MartletClientServices
    import Synchronization
    import Testing

    @Suite struct LoggingTests {
        private let witness = Witness()

        @Test func `what is not published is a notice, what is published and what comes a trace`() async throws {
            var settings = ClientSettings(server: "mqtt://127.0.0.1:1")
            settings.interceptors = [LoggingInterceptor(witness.logger)]
            let client = try Client(settings)
            await #expect(throws: ClientError.notConnected) { try await client.publish("21", to: "home/kitchen") }
            let interceptor = LoggingInterceptor(witness.logger)
            interceptor.didPublish(Publication("a", "1", qos: .atLeastOnce), .success(PublishReceipt()), after: .zero)
            var message = ReceivedMessage(
                topic: "a", payload: "1", qos: .atMostOnce, retain: false, duplicate: false, token: nil)
            interceptor.didReceive(&message)
            let lines = witness.lines.withLock(\.self)
            #expect(lines.map(\.level) == [.notice, .trace, .trace])
            #expect(lines.first?.metadata["topic"] == "home/kitchen" && lines.first?.metadata["bytes"] == "2")
        }

        @Test
        func `what nobody had declared a subscription for is a warning, what a full backlog drops is for those who look closely`() {
            let interceptor = LoggingInterceptor(witness.logger)
            interceptor.didDrop(DroppedMessages(.noSubscription, count: 2, topic: "jobs/1"))
            interceptor.didDrop(DroppedMessages(.backlogFull, count: 1, filters: ["home/#"]))
            let lines = witness.lines.withLock(\.self)
            #expect(lines.map(\.level) == [.warning, .debug])
            #expect(
                lines.map(\.message) == [
                    "2 messages, such as at “jobs/1”, are dropped: no subscription was declared in time",
                    "1 message of “home/#” is dropped: its backlog is full",
                ])
            #expect(lines.map { $0.metadata["count"] } == ["2", "1"])
        }

        @Test func `each state of the connection is a line`() async throws {
            let client = try Client(ClientSettings(server: "mqtt://127.0.0.1:1"))
            let task = Task { await client.logStates(to: witness.logger) }
            await witness.waitForLine("offline")
            task.cancel()
            await task.value
        }
    }

    /// What a logger was told.
    private final class Witness: Sendable {
        struct Line: Sendable {
            var level: Logger.Level
            var message: String
            var metadata: Logger.Metadata
        }

        let lines = Mutex<[Line]>([])

        var logger: Logger { Logger(label: "test") { _ in Handler(witness: self) } }

        func waitForLine(_ text: String) async {
            while !lines.withLock({ $0.contains { $0.message == text } }) { await Task.yield() }
        }
    }

    private struct Handler: LogHandler {
        let witness: Witness
        var metadata: Logger.Metadata = [:]
        var logLevel: Logger.Level = .trace

        init(witness: Witness) { self.witness = witness }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            witness.lines.withLock {
                $0.append(Witness.Line(level: event.level, message: "\(event.message)", metadata: event.metadata ?? [:]))
            }
        }
    }
#endif
