#if Metrics
    public import CoreMetrics
    public import MartletClient

    /// Counts what a client publishes and gets, with the labels `client` and `qos`.
    ///
    /// | metric | |
    /// | --- | --- |
    /// | `mqtt_client_published` | messages that were taken over, by QoS |
    /// | `mqtt_client_published_bytes` | their payloads |
    /// | `mqtt_client_publish_failures` | messages that were not |
    /// | `mqtt_client_publish_duration` | a timer: from `publish` to its answer, QoS 1 and 2 |
    /// | `mqtt_client_received`, `mqtt_client_received_bytes` | messages that came, by QoS |
    /// | `mqtt_client_dropped` | messages that came and nobody got, by `reason`: `backlog_full` or `no_subscription` |
    /// | `mqtt_client_online`, `mqtt_client_connections` | by `Client.measureStates`: a gauge of 0 or 1, and how many connections there were |
    public struct MetricsInterceptor: Interceptor {
        private let published: [Counter]
        private let publishedBytes: Counter
        private let failures: Counter
        private let duration: Timer
        private let received: [Counter]
        private let receivedBytes: Counter
        private let droppedFull: Counter
        private let droppedUnmatched: Counter

        /// - Parameters:
        ///   - name: what tells this client from others of the process.
        ///   - factory: where the metrics are made; nil for that of the process.
        public init(_ name: String, factory: (any MetricsFactory)? = nil) {
            let factory = factory ?? MetricsSystem.factory
            let client = ("client", name)
            func byQoS(_ label: String) -> [Counter] {
                (0...2).map { Counter(label: label, dimensions: [client, ("qos", "\($0)")], factory: factory) }
            }
            published = byQoS("mqtt_client_published")
            publishedBytes = Counter(label: "mqtt_client_published_bytes", dimensions: [client], factory: factory)
            failures = Counter(label: "mqtt_client_publish_failures", dimensions: [client], factory: factory)
            duration = Timer(label: "mqtt_client_publish_duration", dimensions: [client], factory: factory)
            received = byQoS("mqtt_client_received")
            receivedBytes = Counter(label: "mqtt_client_received_bytes", dimensions: [client], factory: factory)
            func dropped(_ reason: String) -> Counter {
                Counter(label: "mqtt_client_dropped", dimensions: [client, ("reason", reason)], factory: factory)
            }
            (droppedFull, droppedUnmatched) = (dropped("backlog_full"), dropped("no_subscription"))
        }

        /// Counts them by reason.
        public func didDrop(_ messages: DroppedMessages) {
            switch messages.reason {
            case .backlogFull: droppedFull.increment(by: messages.count)
            case .noSubscription: droppedUnmatched.increment(by: messages.count)
            }
        }

        /// Counts the message, or the failure.
        public func didPublish(
            _ publication: Publication, _ outcome: Result<PublishReceipt, ClientError>, after duration: Duration
        ) {
            guard case .success = outcome else { return failures.increment() }
            published[Int(publication.qos.rawValue)].increment()
            publishedBytes.increment(by: publication.payload.count)
            if publication.qos > .atMostOnce { self.duration.recordNanoseconds(duration.wholeNanoseconds) }
        }

        /// Counts the message.
        public func didReceive(_ message: inout ReceivedMessage) {
            received[Int(message.qos.rawValue)].increment()
            receivedBytes.increment(by: message.payload.count)
        }
    }

    extension Client {
        /// Measures whether there is a connection, and counts connections, until the client ends or the task is
        /// cancelled.
        public func measureStates(_ name: String, factory: (any MetricsFactory)? = nil) async {
            let factory = factory ?? MetricsSystem.factory
            let online = Gauge(label: "mqtt_client_online", dimensions: [("client", name)], factory: factory)
            let connections = Counter(label: "mqtt_client_connections", dimensions: [("client", name)], factory: factory)
            var counted: UInt64 = 0
            for await state in states {
                online.record(state.isOnline ? 1 : 0)
                guard case .online(let server) = state, server.connectionNumber > counted else { continue }
                connections.increment(by: server.connectionNumber - counted)
                counted = server.connectionNumber
            }
            online.record(0)
        }
    }

    extension Duration {
        fileprivate var wholeNanoseconds: Int64 {
            let (seconds, attoseconds) = components
            let (nanoseconds, isTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
            return isTooLong ? .max : nanoseconds + attoseconds / 1_000_000_000
        }
    }
#endif
