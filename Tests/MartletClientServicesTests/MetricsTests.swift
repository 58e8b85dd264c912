#if Metrics
    import CoreMetrics
    import MartletClient
    import MartletClientServices
    import Synchronization
    import Testing

    @Suite struct MetricsTests {
        @Test func `messages and bytes are counted by QoS, failures and durations beside them`() throws {
            let registry = Registry()
            let interceptor = MetricsInterceptor("panel", factory: registry)
            interceptor.didPublish(Publication("a", "123", qos: .atLeastOnce), .success(PublishReceipt()), after: .milliseconds(2))
            interceptor.didPublish(Publication("a", "1"), .success(PublishReceipt()), after: .zero)
            interceptor.didPublish(Publication("a", "1"), .failure(.notConnected), after: .zero)
            var message = ReceivedMessage(
                topic: "a", payload: "12", qos: .exactlyOnce, retain: false, duplicate: false, token: nil)
            interceptor.didReceive(&message)
            interceptor.didDrop(DroppedMessages(.backlogFull, count: 3))
            interceptor.didDrop(DroppedMessages(.noSubscription, count: 2))
            #expect(registry["mqtt_client_published qos=0"] == 1)
            #expect(registry["mqtt_client_published qos=1"] == 1)
            #expect(registry["mqtt_client_published_bytes"] == 4)
            #expect(registry["mqtt_client_publish_failures"] == 1)
            #expect(registry["mqtt_client_publish_duration"] == 2_000_000)
            #expect(registry["mqtt_client_received qos=2"] == 1)
            #expect(registry["mqtt_client_received_bytes"] == 2)
            #expect(registry["mqtt_client_dropped reason=backlog_full"] == 3)
            #expect(registry["mqtt_client_dropped reason=no_subscription"] == 2)
        }

        @Test func `a client without a connection is not online`() async throws {
            let registry = Registry()
            let client = try Client(ClientSettings(server: "mqtt://127.0.0.1:1"))
            let task = Task { await client.measureStates("panel", factory: registry) }
            task.cancel()
            await task.value
            #expect(registry["mqtt_client_online"] == 0)
        }
    }

    /// Metrics that can be read.
    private final class Registry: MetricsFactory {
        private let values = Mutex<[String: Int64]>([:])

        subscript(name: String) -> Int64? { values.withLock { $0[name] } }

        fileprivate func change(_ name: String, _ body: (inout Int64) -> Void) {
            values.withLock { body(&$0[name, default: 0]) }
        }

        private func metric(_ label: String, _ dimensions: [(String, String)]) -> Metric {
            let rest = dimensions.first { $0.0 != "client" }.map { " \($0.0)=\($0.1)" } ?? ""
            return Metric(registry: self, name: label + rest)
        }

        func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler { metric(label, dimensions) }
        func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
            metric(label, dimensions)
        }
        func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { metric(label, dimensions) }
        func destroyCounter(_ handler: any CounterHandler) {}
        func destroyRecorder(_ handler: any RecorderHandler) {}
        func destroyTimer(_ handler: any TimerHandler) {}
    }

    private final class Metric: CounterHandler, RecorderHandler, TimerHandler {
        let registry: Registry
        let name: String

        init(registry: Registry, name: String) { (self.registry, self.name) = (registry, name) }

        func increment(by amount: Int64) { registry.change(name) { $0 += amount } }
        func reset() { registry.change(name) { $0 = 0 } }
        func record(_ value: Int64) { registry.change(name) { $0 = value } }
        func record(_ value: Double) { registry.change(name) { $0 = Int64(value) } }
        func recordNanoseconds(_ duration: Int64) { registry.change(name) { $0 = duration } }
    }
#endif
