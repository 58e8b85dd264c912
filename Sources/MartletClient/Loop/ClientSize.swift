internal import ClientStore

/// What a client holds, for tests that look whether bounds are kept.
package struct ClientSize: Sendable {
    package struct Part: Hashable, Sendable {
        package var messages: Int
        /// Of topics and payloads; of the outbox and of what is not durable, of rows.
        package var bytes: Int

        package static var zero: Part { Part(messages: 0, bytes: 0) }
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
    /// Calls of `enqueue` that wait for room in the outbox, and cancelled ones that are not forgotten.
    let blockedEnqueues: Int
    /// Received messages that nobody has subscribed to yet: at most `Limits.unmatchedMessagesMax`.
    let unmatched: Part
    /// By inbox, what waits for those who follow its arrivals: about `Limits.inboxWindowMax`.
    let inboxes: [Part]
    /// Changes that the store has not made durable: about `Limits.storeChangesMax`.
    let unstored: Part
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
            blockedEnqueues: engine.records?.blocked.count ?? 0, unmatched: engine.unmatched.size,
            inboxes: engine.records?.inboxesInOrder.map(\.core.size) ?? [], unstored: engine.records?.unstored ?? .zero,
            outputBytes: engine.session.outputByteCount)
    }
}
