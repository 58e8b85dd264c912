public import MQTTCodec

/// What the client's owner asks for.
extension ClientSession {
    /// Publishes a message. One of QoS 1 or 2 waits while there is no connection or the window is full, and ends in a
    /// `published` event; one of QoS 0 needs a connection.
    ///
    /// Its Message Expiry Interval is counted while it waits: what is left of it is sent; one that was never sent and
    /// gets too old ends in an `expired` event. One that was sent goes again, for the standard wants it so, with at
    /// least a second. [MQTT-4.4.0-1 v5]
    ///
    /// - `time`: since when its Message Expiry Interval counts, in milliseconds; nil for now.
    @discardableResult
    public mutating func publish(
        _ publication: Publication, since time: UInt64? = nil, now: UInt64
    ) throws(RequestRefusal) -> PublishTicket {
        let expiresAt = publication.expiry(since: time ?? now)
        let properties = propertyBytes(of: publication.aged(to: now, expiresAt: expiresAt))
        try check(publication, propertiesLength: properties.count)
        let ticket = PublishTicket(number: lastTicket.number + 1)
        if publication.qos == .atMostOnce {
            guard state == .online else { throw .notConnected }
            transmit(publication, properties, 0, now: now)
        } else if state == .online, outgoing.maySend, !outgoing.hasEarlier,
            let identifier = outgoing.begin(publication, ticket, expiresAt: expiresAt)
        {
            record(.sent(ticket, packetIdentifier: identifier, publication))
            transmit(publication, properties, identifier, now: now)
        } else {
            guard outgoing.waiting.count < options.waitingMessagesMax else { throw .tooManyWaiting }
            outgoing.waiting.append(WaitingMessages.Waiting(ticket: ticket, publication: publication, expiresAt: expiresAt))
        }
        lastTicket = ticket
        return ticket
    }

    /// Takes back a message that waits and was never sent. Returns whether it did: then nothing more is told of it.
    public mutating func withdraw(_ ticket: PublishTicket) -> Bool { outgoing.waiting.withdraw(ticket) }

    /// How many messages of QoS 1 and 2, published now, would be sent at once; 0 without a connection.
    public var windowRoom: Int { state == .online ? max(0, outgoing.room) : 0 }

    /// Subscribes. The answer is the `subscribed` event with the packet identifier that is returned.
    @discardableResult
    public mutating func subscribe(
        _ subscriptions: [Subscription], properties: Properties = Properties(), now: UInt64
    ) throws(RequestRefusal) -> UInt16 {
        try check(subscriptions, properties)
        return try request(.awaitingSuback, filterCount: subscriptions.count, now: now) { identifier in
            .subscribe(SubscribePacket(packetIdentifier: identifier, properties: properties, subscriptions: subscriptions))
        }
    }

    /// Ends subscriptions. The answer is the `unsubscribed` event with the packet identifier that is returned.
    @discardableResult
    public mutating func unsubscribe(
        _ filters: [TopicFilter], properties: Properties = Properties(), now: UInt64
    ) throws(RequestRefusal) -> UInt16 {
        if filters.isEmpty { throw .notAllowed(.protocolError) }  // [MQTT-3.10.3-2 v5]
        return try request(.awaitingUnsuback, filterCount: filters.count, now: now) { identifier in
            .unsubscribe(UnsubscribePacket(packetIdentifier: identifier, properties: properties, filters: filters))
        }
    }

    private mutating func request(
        _ step: OutgoingFlow.Step, filterCount: Int, now: UInt64, _ packet: (UInt16) -> ControlPacket
    ) throws(RequestRefusal) -> UInt16 {
        guard state == .online else { throw .notConnected }
        guard let identifier = outgoing.beginRequest(step, filterCount: filterCount) else { throw .noIdentifierLeft }
        let encoded = packet(identifier).encoded(version: options.version)
        guard encoded.count <= packetSizeMax else {
            _ = outgoing.completeRequest(identifier, at: step, filterCount: nil)
            throw .packetTooLarge
        }
        output.append(encoded)
        lastSentAt = now
        if requestDeadline == nil { requestDeadline = now + options.requestTimeoutMilliseconds }
        return identifier
    }

    /// The largest packet that the server takes, in bytes; no packet can be larger than the standard's own limit.
    /// [MQTT-3.2.2-15 v5]
    var packetSizeMax: Int {
        let standard = VariableByteInteger.max + 5
        guard state == .online, options.version == .v5, let maximum = serverProperties.maximumPacketSize else { return standard }
        return min(standard, Int(maximum))
    }

    /// What the server said it would not take. [MQTT-3.2.2-11 v5] [MQTT-3.2.2-14 v5] [MQTT-3.2.2-15 v5]
    private func check(_ publication: Publication, propertiesLength: Int) throws(RequestRefusal) {
        if size(of: publication, propertiesLength: propertiesLength) > packetSizeMax { throw .packetTooLarge }
        // [MQTT-3.3.2-13 v5] [MQTT-3.3.2-14 v5]
        if publication.hasProperties, let topic = publication.properties.responseTopic, TopicName(topic.bytes) == nil {
            throw .notAllowed(.topicNameInvalid)
        }
        guard state == .online, options.version == .v5 else { return }
        if publication.qos > serverProperties.maximumQoS ?? .exactlyOnce { throw .qosNotSupported }
        if publication.retain, serverProperties.retainAvailable == false { throw .retainNotSupported }
    }

    private func check(_ subscriptions: [Subscription], _ properties: Properties) throws(RequestRefusal) {
        if subscriptions.isEmpty { throw .notAllowed(.protocolError) }  // [MQTT-3.8.3-2 v5]
        guard state == .online, options.version == .v5 else { return }
        for subscription in subscriptions where subscription.filter.isShared {
            if subscription.options.noLocal { throw .notAllowed(.protocolError) }  // [MQTT-3.8.3-4 v5]
            if serverProperties.sharedSubscriptionAvailable == false { throw .notAllowed(.sharedSubscriptionsNotSupported) }
        }
        if serverProperties.wildcardSubscriptionAvailable == false,
            subscriptions.contains(where: { $0.filter.bytes.contains(where: Self.isWildcard) })
        {
            throw .notAllowed(.wildcardSubscriptionsNotSupported)
        }
        if serverProperties.subscriptionIdentifierAvailable == false, !properties.subscriptionIdentifiers.isEmpty {
            throw .notAllowed(.subscriptionIdentifiersNotSupported)
        }
    }

    private static func isWildcard(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "+") || byte == UInt8(ascii: "#") }

    private func size(of publication: Publication, propertiesLength: Int) -> Int {
        PublishHeader.encodedSize(
            version: options.version, qos: publication.qos, topicLength: publication.topic.bytes.count,
            propertiesLength: propertiesLength, payloadLength: publication.payload.count)
    }

    /// The properties as they stand on the wire, without their length and what the library sets itself.
    private func propertyBytes(of publication: Publication) -> [UInt8] {
        guard publication.hasProperties, options.version == .v5 else { return [] }
        var properties = publication.properties
        properties.topicAlias = nil
        properties.subscriptionIdentifiers = []  // [MQTT-3.3.4-6 v5]
        return properties.encodedContent()
    }

    /// Writes PUBLISH.
    private mutating func transmit(
        _ publication: Publication, _ properties: [UInt8], _ identifier: UInt16, isDuplicate: Bool = false, now: UInt64
    ) {
        var (topic, alias) = (publication.topic.bytes, UInt16(0))
        if sentAliases.areAllowed {
            let size = size(of: publication, propertiesLength: properties.count)
            switch sentAliases.form(of: publication.topic, maySet: size + SentTopicAliases.aliasByteCount + 1 <= packetSizeMax) {
            case .plain: break
            case .setting(let number): alias = number
            case .alias(let number): (topic, alias) = ([], number)
            }
        }
        output.append(
            PublishHeader(version: options.version, qos: publication.qos, retain: publication.retain, duplicate: isDuplicate),
            version: options.version, qos: publication.qos, topic: topic, alias: alias, packetIdentifier: identifier,
            properties: properties, payload: publication.payload)
        lastSentAt = now
    }

    /// Sends messages that wait, as far as the window and the identifiers go. [MQTT-4.9.0-2 v5] [MQTT-3.3.4-7 v5]
    ///
    /// One that this server would not take, or no longer, ends here with the reason that the server would give.
    mutating func sendWaiting(now: UInt64) {
        while state == .online, outgoing.maySend, let (publication, expiresAt, identifier) = outgoing.resendNext() {
            let properties = propertyBytes(of: publication.aged(to: now, expiresAt: expiresAt))
            do throws(RequestRefusal) {
                try check(publication, propertiesLength: properties.count)
                transmit(publication, properties, identifier, isDuplicate: true, now: now)  // [MQTT-3.3.1-1 v5]
            } catch {
                if let ticket = outgoing.giveUp(identifier) { finish(ticket, error.reasonCode) }
            }
        }
        while state == .online, outgoing.maySend, outgoing.mayBegin, let waiting = outgoing.waiting.removeFirst(),
            let publication = waiting.publication
        {
            if waiting.expiresAt <= now {
                expire(waiting.ticket)
                continue
            }
            let properties = propertyBytes(of: publication.aged(to: now, expiresAt: waiting.expiresAt))
            do throws(RequestRefusal) {
                try check(publication, propertiesLength: properties.count)
            } catch {
                finish(waiting.ticket, error.reasonCode)
                continue
            }
            guard let identifier = outgoing.begin(publication, waiting.ticket, expiresAt: waiting.expiresAt) else { return }
            record(.sent(waiting.ticket, packetIdentifier: identifier, publication))
            transmit(publication, properties, identifier, now: now)
        }
    }
}

/// Which call of `publish` is meant: they are numbered from 1, and grow for as long as the session object lives. One
/// that is restored goes on behind the highest that is stored.
public struct PublishTicket: Hashable, Sendable, Comparable {
    public let number: UInt64

    public init(number: UInt64) { self.number = number }

    public static func < (left: PublishTicket, right: PublishTicket) -> Bool { left.number < right.number }
}

/// Why a client did not take a request.
public enum RequestRefusal: Error, Hashable, Sendable {
    /// There is no connection, and what is asked does not wait for one.
    case notConnected
    /// As many messages wait as may.
    case tooManyWaiting
    /// The server takes no packet as large.
    case packetTooLarge
    /// The server takes no message of that QoS.
    case qosNotSupported
    /// The server keeps no retained messages.
    case retainNotSupported
    /// 65,535 requests are unanswered.
    case noIdentifierLeft
    /// The standard does not let a client send it, or this server has said that it takes no such thing: what it would
    /// answer.
    case notAllowed(ReasonCode)
}

extension RequestRefusal {
    /// What a server says to the same request.
    public var reasonCode: ReasonCode {
        switch self {
        case .notConnected: .unspecifiedError
        case .tooManyWaiting: .quotaExceeded
        case .packetTooLarge: .packetTooLarge
        case .qosNotSupported: .qosNotSupported
        case .retainNotSupported: .retainNotSupported
        case .noIdentifierLeft: .packetIdentifierInUse
        case .notAllowed(let reason): reason
        }
    }
}
