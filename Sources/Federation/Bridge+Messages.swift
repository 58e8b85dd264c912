import MQTTCodec

/// Messages that the other broker sends, and how one is written as the other side calls it.
extension Bridge {
    /// A message for this broker.
    func takeIn(_ view: PublishView) throws(WireError) {
        if view.topicAlias != 0 {
            guard view.topicAlias <= settings.topicAliasMaximum else { throw .topicAliasZero }
            if view.topic.isEmpty {
                guard let known = aliases[view.topicAlias] else { throw .emptyTopic }
                return known.withUnsafeBytes { takeIn(view, topic: $0) }
            }
            aliases[view.topicAlias] = Array(view.topic)
        }
        takeIn(view, topic: view.topic)
    }

    private func takeIn(_ view: PublishView, topic: UnsafeRawBufferPointer) {
        lastMessageAt = now
        guard let renaming = map.in(topic) else { return refuse(view, .success) }
        guard !renaming.isReserved else {
            warnOnce(
                "the other broker sends a message whose topic, without its prefix, would begin with $ here, where such topics are not for "
                    + "clients. Such messages are not forwarded.")
            return refuse(view, .success)
        }
        renaming.withName(of: topic) { takeIn(view, from: topic, as: $0) }
    }

    private func takeIn(_ view: PublishView, from topic: UnsafeRawBufferPointer, as name: UnsafeRawBufferPointer) {
        let stay = settings.version == .v5 ? path.in(view.properties, local: name, remote: topic) : []
        guard let stay, !needsEchoFilter || !echoes.isEcho(view, topic, now: now) else {
            report.echoes += 1
            return refuse(view, .success, counts: false)
        }
        let written = write(
            view, as: name, adding: stay, version: .v5, qos: view.qos, retain: view.retain && nearTakesRetain,
            duplicate: view.duplicate && view.qos != .atMostOnce, bytesMax: nearPacketBytesMax, into: &localOutput)
        guard written > 0 else {
            warnOnce(
                "the other broker sends a message that is, or whose topic is, larger than this broker takes. Such messages are not forwarded."
            )
            return refuse(view, .implementationSpecificError)
        }
        report.messagesIn += 1
    }

    /// A message is not taken; the other broker must not send it again.
    private func refuse(_ view: PublishView, _ reason: ReasonCode, counts: Bool = true) {
        refuse(view.qos, view.packetIdentifier, reason, counts: counts)
    }

    func refuse(_ qos: QoS, _ packetIdentifier: UInt16, _ reason: ReasonCode, counts: Bool = true) {
        if counts { report.droppedIn += 1 }
        switch qos {
        case .atMostOnce: return
        case .atLeastOnce: acknowledge(.puback, packetIdentifier, reason)
        // Its PUBREL goes to this broker, which answers that it knows of no such message.
        case .exactlyOnce: acknowledge(.pubrec, packetIdentifier, reason)
        }
    }

    /// Whether own messages may come back.
    var needsEchoFilter: Bool { settings.version != .v5 && !hasAnnounced && settings.mayEcho }

    /// Writes a message as it is called on the other side.
    ///
    /// - Parameters:
    ///   - view: the message.
    ///   - name: its topic there; empty if `addition` has an alias for it.
    ///   - addition: bytes of properties that it gets on top in MQTT 5.0.
    ///   - version: of the packet, with `qos`, `retain` and `duplicate`.
    ///   - bytesMax: the most that the packet may have.
    ///   - output: where it goes.
    /// - Returns: its bytes; 0 if nothing is written, because there would be more than `bytesMax`, or no such topic.
    func write(
        _ view: PublishView, as name: UnsafeRawBufferPointer, adding addition: [UInt8], version: ProtocolVersion, qos: QoS,
        retain: Bool, duplicate: Bool, bytesMax: Int, into output: inout [UInt8]
    ) -> Int {
        guard name.count <= Int(UInt16.max) else { return 0 }
        let expiryLength = view.messageExpiryInterval == nil ? 0 : 5
        let propertiesLength = version == .v5 ? view.forwardedPropertiesLength + addition.count + expiryLength : 0
        let size = PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: name.count, propertiesLength: propertiesLength,
            payloadLength: view.payload.count)
        guard size <= bytesMax, size <= Self.packetBytesLargest else { return 0 }
        let header = PublishHeader(version: version, qos: qos, retain: retain, duplicate: duplicate)
        withUnsafeTemporaryAllocation(byteCount: size - view.payload.count, alignment: 1) { head in
            guard let packet = head.baseAddress else { return }
            let offsets = header.write(
                to: packet, topic: name, packetIdentifier: view.packetIdentifier, propertiesLength: propertiesLength,
                payloadLength: view.payload.count)
            if version == .v5 {
                var place = packet + offsets.propertiesOffset
                if let interval = view.messageExpiryInterval {
                    place.storeBytes(of: 0x02, as: UInt8.self)
                    (place + 1).storeBytes(of: interval.bigEndian, as: UInt32.self)
                    place += 5
                }
                view.copyForwardedProperties(to: place)
                place += view.forwardedPropertiesLength
                // Behind those of its publisher, whose order stands. [MQTT-3.3.2-18 v5]
                addition.withUnsafeBytes { bytes in
                    if let base = bytes.baseAddress { place.copyMemory(from: base, byteCount: bytes.count) }
                }
            }
            output.append(contentsOf: UnsafeRawBufferPointer(head))
        }
        output.append(contentsOf: view.payload)
        return size
    }

    private static let packetBytesLargest = 268_435_460
}
