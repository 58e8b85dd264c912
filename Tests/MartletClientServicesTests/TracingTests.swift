#if Tracing
    import MartletClient
    @testable import MartletClientServices
    import Testing
    import Tracing

    @Suite struct TracingTests {
        @Test func `the context of the publishing task goes with the message and is found at the other side`() async throws {
            InstrumentationSystem.bootstrap(TraceParent())
            let interceptor = TracingInterceptor()
            var publication = Publication("orders/1", "{}")
            var context = ServiceContext.topLevel
            context.traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            try ServiceContext.$current.withValue(context) { try interceptor.willPublish(&publication) }
            #expect(publication.properties.userProperties.map { "\($0.name)" } == ["traceparent"])
            var untraced = Publication("orders/1", "{}")
            try interceptor.willPublish(&untraced)
            #expect(!untraced.hasProperties)
            let client = StubClient()
            let messages = client.messages("orders/+")
            try await client.publish(publication)
            var iterator = messages.makeAsyncIterator()
            let message = try #require(try await iterator.next())
            #expect(message.serviceContext.traceParent == context.traceParent)
            let inside = await message.withSpan("order") { _ in ServiceContext.current?.traceParent }
            #expect(inside == context.traceParent)
        }
    }

    /// An instrument that knows one field, as W3C names it.
    private struct TraceParent: Instrument {
        func extract<Carrier, Extract>(_ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract)
        where Extract: Extractor, Extract.Carrier == Carrier {
            context.traceParent = extractor.extract(key: "traceparent", from: carrier)
        }

        func inject<Carrier, Inject>(_ context: ServiceContext, into carrier: inout Carrier, using injector: Inject)
        where Inject: Injector, Inject.Carrier == Carrier {
            if let value = context.traceParent { injector.inject(value, forKey: "traceparent", into: &carrier) }
        }
    }

    extension ServiceContext {
        private enum TraceParentKey: ServiceContextKey { typealias Value = String }

        fileprivate var traceParent: String? {
            get { self[TraceParentKey.self] }
            set { self[TraceParentKey.self] = newValue }
        }
    }
#endif
