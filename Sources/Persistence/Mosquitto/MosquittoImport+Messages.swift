import BrokerModel
import MQTTCodec

extension MosquittoImport {
    // MARK: - To clients

    mutating func addOutgoing() {
        let outgoing = database.clientMessages.filter { $0.direction == .outgoing }
        var uses: [UInt64: Int] = [:]
        for delivery in outgoing where sessions[delivery.client] != nil { uses[delivery.message, default: 0] += 1 }
        for delivery in outgoing {
            guard let session = sessions[delivery.client], let message = messages[delivery.message] else {
                counts.leftOut += 1
                continue
            }
            add(delivery, of: session, message, isShared: uses[message.number, default: 0] > 1)
        }
    }

    private mutating func add(
        _ delivery: MosquittoClientMessage, of session: UInt64, _ message: MosquittoMessage, isShared: Bool
    ) {
        var entry = StoredEntry(
            session: session, qos: delivery.qos, retain: delivery.retain,
            identifiers: Self.encoded(delivery.subscriptionIdentifiers), message: Self.stored(message))
        if isShared { entry.content = .shared(sharedRow(of: message)) }
        let key = nextKey()
        if let progress = progress(of: delivery, session: session) {
            entry.packetIdentifier = progress.packetIdentifier
            if progress.state == .released { insert(.flow, key, progress.encoded()) }
        }
        insert(.entry, key, entry.encoded())
        counts.queuedMessages += 1
    }

    private mutating func sharedRow(of message: MosquittoMessage) -> UInt64 {
        if let key = sharedRows[message.number] { return key }
        let key = nextKey()
        sharedRows[message.number] = key
        insert(.message, key, Self.stored(message).encoded())
        return key
    }

    /// How far a message has come that may have been sent; nil for one that waits. An identifier that stands there
    /// twice is the first one's.
    private mutating func progress(of delivery: MosquittoClientMessage, session: UInt64) -> StoredFlow? {
        let state: StoredFlow.State
        switch delivery.state {
        case .queued, .publishAtMostOnce: return nil
        case .publishAtLeastOnce, .waitForPuback, .publishExactlyOnce, .waitForPubrec: state = .sent
        case .resendPubrel, .waitForPubcomp: state = .released
        case .waitForPubrel, .resendPubcomp, .sendPubrec: return nil  // the states of messages from clients
        }
        guard delivery.qos != .atMostOnce, delivery.packetIdentifier > 0 else { return nil }
        let receipt = StoredReceipt(session: session, packetIdentifier: delivery.packetIdentifier)
        guard sentIdentifiers.insert(receipt.key).inserted else { return nil }
        return StoredFlow(state: state, packetIdentifier: delivery.packetIdentifier)
    }

    // MARK: - From clients

    /// Publishes what clients have sent and not released; returns the messages.
    mutating func addIncoming() -> [MosquittoMessage] {
        var published: [MosquittoMessage] = []
        for arrival in database.clientMessages where arrival.direction == .incoming {
            guard let session = sessions[arrival.client], let message = messages[arrival.message], arrival.qos == .exactlyOnce,
                arrival.packetIdentifier > 0
            else {
                counts.leftOut += 1
                continue
            }
            let receipt = StoredReceipt(session: session, packetIdentifier: arrival.packetIdentifier)
            guard receivedIdentifiers.insert(receipt.key).inserted else {
                counts.leftOut += 1
                continue
            }
            insert(.received, receipt.key, [])
            counts.receivedMessages += 1
            // PUBREL has come, and the message went out with it.
            if arrival.state == .resendPubcomp { continue }
            publish(message)
            published.append(message)
        }
        return published
    }

    /// Publishes the wills of clients whose sessions ended with their connections; returns them.
    mutating func addWills() -> [MosquittoMessage] {
        var published: [MosquittoMessage] = []
        for pending in database.wills where sessions[pending.client] == nil {
            let will = pending.will
            let message = MosquittoMessage(
                number: 0, source: pending.client.bytes, topic: will.topic, payload: will.payload, qos: will.qos,
                retain: will.retain, properties: will.properties)
            publish(message)
            published.append(message)
        }
        return published
    }

    /// Puts a message into the queues that its topic matches: once for each session, with the best QoS that it was
    /// promised. Of a share group the first member gets it.
    private mutating func publish(_ message: MosquittoMessage) {
        var groups: Set<[UInt8]> = []
        for client in sessionOrder {
            guard let session = sessions[client], let own = subscriptions[client] else { continue }
            let isOwn = message.source == client.bytes
            let matching = own.filter {
                guard $0.filter.matches(message.topic), !($0.noLocal && isOwn) else { return false }
                return $0.filter.shareName == nil || groups.insert($0.filter.bytes).inserted
            }
            let qos = min(matching.map(\.maximumQoS.rawValue).max() ?? 0, message.qos.rawValue)
            guard let qos = QoS(rawValue: qos), qos != .atMostOnce else { continue }
            let entry = StoredEntry(
                session: session, qos: qos, retain: message.retain && matching.contains(where: \.retainAsPublished),
                identifiers: Self.encoded(matching.map(\.identifier).filter { $0 > 0 }), message: Self.stored(message))
            insert(.entry, nextKey(), entry.encoded())
            counts.queuedMessages += 1
        }
    }

    // MARK: - Retained

    /// Of several messages to a topic the last is retained; an empty payload takes it away.
    mutating func addRetained(_ published: [MosquittoMessage]) {
        let known = database.retained.compactMap { messages[$0] }
        counts.leftOut += database.retained.count - known.count
        var latest: [TopicName: MosquittoMessage] = [:]
        var order: [TopicName] = []
        for message in known + published.filter(\.retain) {
            if latest.updateValue(message, forKey: message.topic) == nil { order.append(message.topic) }
        }
        for message in order.compactMap({ latest[$0] }) where !message.payload.isEmpty {
            var row = Self.stored(message)
            row.retain = true
            insert(.retained, nextKey(), StoredRetained(message: row, origin: origin(of: message)).encoded())
            counts.retainedMessages += 1
        }
    }

    /// mosquitto's own rule does not hold for a message of the broker's or a bridge's, which has no source.
    private func origin(of message: MosquittoMessage) -> StoredOrigin? {
        guard !message.source.isEmpty, let identifier = EncodedString(message.source) else { return nil }
        return StoredOrigin(
            clientIdentifier: identifier, userName: message.userName, listener: listener(ofPort: message.listenerPort))
    }

    // MARK: - Rows

    private static func stored(_ message: MosquittoMessage) -> StoredMessage {
        var properties = message.properties
        // Those that belong to a connection; the expiry is told apart.
        (properties.topicAlias, properties.messageExpiryInterval, properties.subscriptionIdentifiers) = (nil, nil, [])
        properties.willDelayInterval = nil
        return StoredMessage(
            topic: message.topic.bytes, properties: properties.encodedContent(), payload: message.payload, qos: message.qos,
            retain: message.retain, expiresAt: message.expiresAt.flatMap(milliseconds))
    }

    private static func encoded(_ subscriptionIdentifiers: [UInt32]) -> [UInt8] {
        var properties = Properties()
        properties.subscriptionIdentifiers = subscriptionIdentifiers
        return properties.encodedContent()
    }
}
