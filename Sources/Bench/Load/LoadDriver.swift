/// What a worker's connections are to do: the scenario's part of a worker. Called on the worker's thread.
protocol LoadDriver: AnyObject {
    /// Handlers have run: opens connections, publishes. Returns when the next turn must begin at the latest, in milliseconds.
    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64?

    /// The client has read; perhaps a message has come, perhaps it is ready now.
    func received(_ client: LoadClient, _ worker: Worker)

    /// The client's connection has ended.
    func ended(_ client: LoadClient, _ worker: Worker)
}
