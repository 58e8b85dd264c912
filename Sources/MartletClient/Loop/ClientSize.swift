internal import ClientStore

/// What a client holds, for tests that look whether bounds are kept.
package struct ClientSize: Sendable {
    package struct Part: Hashable, Sendable {
        package var messages: Int
        /// Of topics and payloads; of the outbox, of its rows.
        package var bytes: Int
    }

    /// Messages of QoS 1 and 2 that tasks have handed over: at most `ClientSettings.queue`.
    package let publishing: Part
    /// Messages of QoS 0 that wait for a connection: the same again.
    package let offline: Part
    /// Messages that are stored: at most `ClientSettings.outbox`.
    package let outbox: Part
    /// Of these, what waits in memory.
    package let outboxInMemory: Part
    /// Messages of the outbox in the session's hands.
    package let outboxInFlight: Int
    /// All messages of QoS 1 and 2 in the session's hands.
    package let unacknowledged: Int
    /// Bytes that the transport has not taken.
    package let outputBytes: Int
}

extension Client {
    /// What it holds now. On its loop's thread alone.
    package var size: ClientSize {
        let outbox = engine.records?.outbox
        return ClientSize(
            publishing: engine.publishing.size, offline: engine.publishing.offlineSize,
            outbox: ClientSize.Part(messages: outbox?.count ?? 0, bytes: outbox?.byteCount ?? 0),
            outboxInMemory: ClientSize.Part(messages: outbox?.countInMemory ?? 0, bytes: outbox?.bytesInMemory ?? 0),
            outboxInFlight: engine.records?.flights.count ?? 0, unacknowledged: engine.session.unacknowledgedCount,
            outputBytes: engine.session.outputByteCount)
    }
}
