#if Tracing
    public import MartletClient
    public import Tracing

    /// Sends the context of the task that publishes with each message, as User Properties, by the instrument that the
    /// process has been given. MQTT 5.0 only.
    ///
    /// The other side takes it up again:
    ///
    /// ```swift
    /// for try await message in client.messages("orders/+") {
    ///     try await message.withSpan("order") { span in try await fulfil(message) }
    /// }
    /// ```
    public struct TracingInterceptor: Interceptor {
        /// Uses the instrument of the process.
        public init() {}

        /// Adds the task's context to the message's User Properties, if there is one.
        public func willPublish(_ publication: inout Publication) throws(ClientError) {
            guard let context = ServiceContext.current else { return }
            var carrier: [UserProperty] = []
            InstrumentationSystem.instrument.inject(context, into: &carrier, using: UserPropertyCarrier())
            if !carrier.isEmpty { publication.properties.userProperties += carrier }
        }
    }

    extension Message {
        /// The context that its publisher sent with it, on top of the task's own.
        public var serviceContext: ServiceContext {
            var context = ServiceContext.current ?? .topLevel
            InstrumentationSystem.instrument.extract(
                received.properties.userProperties, into: &context, using: UserPropertyCarrier())
            return context
        }

        /// Runs the body in a span of a consumer that follows on the publisher's.
        public func withSpan<Answer>(
            _ name: String, isolation: isolated (any Actor)? = #isolation, _ body: (any Span) async throws -> Answer
        ) async rethrows -> Answer {
            try await Tracing.withSpan(name, context: serviceContext, ofKind: .consumer, isolation: isolation, body)
        }
    }

    /// User Properties as an instrument writes and reads them: the first of a name counts.
    struct UserPropertyCarrier: Injector, Extractor {
        func inject(_ value: String, forKey key: String, into carrier: inout [UserProperty]) {
            guard let name = EncodedString(key), let value = EncodedString(value) else { return }
            carrier.append(UserProperty(name: name, value: value))
        }

        func extract(key: String, from carrier: [UserProperty]) -> String? {
            carrier.first { $0.name.description == key }?.value.description
        }
    }
#endif
