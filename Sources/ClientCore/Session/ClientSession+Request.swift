public import MQTTCodec

/// What the client's owner asks for.
extension ClientSession {
    /// Publishes a message. One of QoS 1 or 2 waits while there is no connection or the window is full, and ends in a `published` event;
    /// one of QoS 0 needs a connection.
    @discardableResult
    public mutating func publish(
        _ publication: Publication, now: UInt64
    ) throws(RequestRefusal) -> PublishTicket {
        let qos = publication.qos
        let packet = PublishPacket(
            topic: publication.topic.text, qos: qos, retain: publication.retain, properties: publication.properties,
            payload: publication.payload.bytes)
        if qos == .atMostOnce, state != .online { throw .notConnected }
        if qos > .atMostOnce, outgoing.waitingCount >= options.waitingMessagesMax { throw .tooManyWaiting }
        try check(packet)
        lastTicket += 1
        let ticket = PublishTicket(number: lastTicket)
        if qos == .atMostOnce {
            send(.publish(sentAliases.shorten(packet)), now: now)
        } else {
            outgoing.wait(packet, ticket)
            if state == .online { sendWaiting(now: now) }
        }
        return ticket
    }

    /// Takes back a message that waits and was never sent. Returns whether it did: then nothing more is told of it.
    public mutating func withdraw(_ ticket: PublishTicket) -> Bool { outgoing.withdraw(ticket) }

    /// How many messages of QoS 1 and 2, published now, would be sent at once; 0 without a connection.
    public var windowRoom: Int { state == .online ? max(0, outgoing.room) : 0 }

    /// Subscribes. The answer is the `subscribed` event with the packet identifier that is returned.
    @discardableResult
    public mutating func subscribe(
        _ subscriptions: [Subscription], properties: Properties = Properties(), now: UInt64
    ) throws(RequestRefusal) -> UInt16 {
        let identifier = try beginRequest()
        send(
            .subscribe(SubscribePacket(packetIdentifier: identifier, properties: properties, subscriptions: subscriptions)),
            now: now)
        return identifier
    }

    /// Ends subscriptions. The answer is the `unsubscribed` event with the packet identifier that is returned.
    @discardableResult
    public mutating func unsubscribe(
        _ filters: [TopicFilter], properties: Properties = Properties(), now: UInt64
    ) throws(RequestRefusal) -> UInt16 {
        let identifier = try beginRequest()
        send(.unsubscribe(UnsubscribePacket(packetIdentifier: identifier, properties: properties, filters: filters)), now: now)
        return identifier
    }

    private mutating func beginRequest() throws(RequestRefusal) -> UInt16 {
        guard state == .online else { throw .notConnected }
        guard let identifier = identifiers.take() else { throw .noIdentifierLeft }
        requests.insert(identifier)
        return identifier
    }

    /// What the server said it would not take. [MQTT-3.2.2-11 v5] [MQTT-3.2.2-14 v5] [MQTT-3.2.2-15 v5]
    private func check(_ packet: PublishPacket) throws(RequestRefusal) {
        guard state == .online, options.version == .v5 else { return }
        if packet.qos > serverProperties.maximumQoS ?? .exactlyOnce { throw .qosNotSupported }
        if packet.retain, serverProperties.retainAvailable == false { throw .retainNotSupported }
        if let maximum = serverProperties.maximumPacketSize, size(of: packet) > Int(maximum) { throw .packetTooLarge }
    }

    private func size(of packet: PublishPacket) -> Int {
        ControlPacket.publish(packet).encoded(version: options.version).count
    }

    /// Sends messages that wait, as far as the window and the identifiers go. [MQTT-4.9.0-2 v5] [MQTT-3.3.4-7 v5]
    ///
    /// One that was published offline and that this server would not take ends here, with the reason that the server would give.
    mutating func sendWaiting(now: UInt64) {
        while state == .online, outgoing.maySend, var packet = outgoing.resendNext() {
            packet.duplicate = true  // [MQTT-3.3.1-1 v5]
            send(.publish(sentAliases.shorten(packet)), now: now)
        }
        while state == .online, outgoing.maySend, outgoing.waitingCount > 0, let identifier = identifiers.take() {
            let (packet, ticket) = outgoing.sendNext(identifier)
            do throws(RequestRefusal) {
                try check(packet)
                send(.publish(sentAliases.shorten(packet)), now: now)
            } catch {
                outgoing.giveUp(identifier)
                identifiers.giveBack(identifier)
                tell(.published(ticket, error.reasonCode))
            }
        }
    }
}
