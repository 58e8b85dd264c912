/// What an import took over, and what it did not.
public struct MosquittoImportCounts: Equatable, Sendable {
    public internal(set) var sessions = 0
    public internal(set) var subscriptions = 0
    /// Messages on their way to clients, sent or not.
    public internal(set) var queuedMessages = 0
    /// QoS 2 messages from clients, published and not yet released.
    public internal(set) var receivedMessages = 0
    public internal(set) var retainedMessages = 0
    /// Records of no client, of no message, or that stand there twice.
    public internal(set) var leftOut = 0
}
