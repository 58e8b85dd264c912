#if ServiceLifecycle
    public import MartletClient
    public import ServiceLifecycle

    /// A client as a service of a group: connects when the group runs, says goodbye when it shuts down, and fails when
    /// the server refuses it for good.
    ///
    /// ```swift
    /// let client = try Client(settings)
    /// let group = ServiceGroup(services: [ClientService(client), heating], gracefulShutdownSignals: [.sigterm], logger: logger)
    /// try await group.run()
    /// ```
    /// A group shuts down its services in the opposite order: those that use the client stand behind it.
    public struct ClientService: Service {
        private let client: Client

        /// Runs this client.
        public init(_ client: Client) { self.client = client }

        /// Returns when the group shuts down or the task is cancelled. Throws `ClientError`.
        public func run() async throws {
            try await cancelWhenGracefulShutdown { try await client.run() }
        }
    }
#endif
