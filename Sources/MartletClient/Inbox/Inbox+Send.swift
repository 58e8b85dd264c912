internal import ClientCore
internal import ClientStore
public import MQTTCodec
internal import Platform

/// Sending from an inbox.
extension Inbox {
    /// Stores one's own message in its conversation and in the outbox, both or neither, and returns when it is on the disk: it stands in `messages`
    /// and `conversations` at once, as sending. It is sent in its turn, in this run or a later one, as by `Client.enqueue`; what becomes of it says
    /// ``InboxItem/delivery``, also in later runs, and of a message that the server refused for what reason.
    ///
    /// It goes at QoS 1 at least. Receivers learn when it was sent, in MQTT 5.0. What the server sends back of it is not taken for another's: in MQTT 5.0
    /// it is known by its identifier, before by its contents, for a day.
    ///
    /// Throws what `Client.enqueue` throws; `ClientError.topic` for a topic that belongs to no conversation, and `ClientError.ended` if the inbox has
    /// ended.
    @discardableResult
    public func send(_ publication: Publication) async throws(ClientError) -> InboxItem<Value> {
        var publication = publication
        publication.qos = max(publication.qos, .atLeastOnce)
        for interceptor in core.engine.settings.interceptors { try interceptor.willPublish(&publication) }
        var received = ReceivedMessage(
            topic: publication.topic, payload: publication.payload, qos: publication.qos, retain: publication.retain,
            duplicate: false, token: nil)
        if publication.hasProperties { received.properties = publication.properties }
        guard let conversation = core.key(received) else {
            throw .topic("\(publication.topic) belongs to no conversation of the inbox \(name)")
        }
        let value = try decode(received)
        let call = EnqueueCall(publication, for: .inbox(name, conversation: conversation))
        core.engine.post(.records { $0.enqueue(call) })
        let delivery = try await call.call.outcome(cancelled: { [core] in
            core.engine.post(.records { $0.records?.blockedCancelled() })
        }).get()
        guard let message = call.item.withLock({ $0 }) else { throw .ended }
        return InboxItem(
            conversation: message.conversation, number: message.number, topic: message.topic, payload: value,
            arrivedAt: .milliseconds(message.arrivedAt), sentAt: .milliseconds(message.arrivedAt), properties: message.properties,
            delivery: delivery)
    }

    /// As above, for a value of an endpoint.
    @discardableResult
    public func send(_ value: Value, to topic: EndpointTopic<Value>) async throws(ClientError) -> InboxItem<Value> {
        try await send(try topic.publication(value))
    }
}

extension Inbox where Value == Payload {
    /// As above, for bytes.
    @discardableResult
    public func send(
        _ payload: Payload, to topic: TopicName, qos: QoS = .atLeastOnce
    ) async throws(ClientError) -> InboxItem<Payload> {
        try await send(Publication(topic, payload, qos: qos, retain: false))
    }
}

extension ClientEngine {
    /// Follows messages of the outbox; those that are not over alone. Ends when what is over is stored.
    func follow(_ open: [(number: UInt64, byteCount: Int)], _ call: AwaitedOutcome<[UInt64: DeliveryTracking]>) {
        guard let records, records.failure == nil else {
            call.complete(.failure(self.records?.failure ?? .ended))
            return
        }
        var trackings: [UInt64: DeliveryTracking] = [:]
        for (number, byteCount) in open where records.owners[number] != nil {
            trackings[number] = records.board.tracking(
                number, byteCount: byteCount,
                records.outbox.isInFlight(number) ? .sent : .queued(ahead: records.outbox.countAhead(of: number)))
        }
        let found = trackings
        guard found.count < open.count else {
            call.complete(.success(found))
            return
        }
        records.afterCommit { _, error in call.complete(error.map { .failure($0) } ?? .success(found)) }
    }

    func remove(_ core: InboxCore, _ conversation: String, _ numbers: ClosedRange<UInt64>, _ call: AwaitedOutcome<Void>) {
        guard let records, records.failure == nil, let sink = records.inboxes[core.name] else {
            call.complete(.failure(self.records?.failure ?? .ended))
            return
        }
        sink.add(InboxJob(work: .remove(conversation, numbers), call: call), records)
    }
}
