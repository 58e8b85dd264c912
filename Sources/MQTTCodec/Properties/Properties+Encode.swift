extension Properties {
    /// The properties as they stand on the wire behind the property length.
    public func encodedContent() -> [UInt8] {
        var room: [UInt8] = []
        room.reserveCapacity(Self.usualByteCount)
        var writer = PacketWriter(appendingTo: room)
        encodeContent(to: &writer)
        return writer.bytes
    }

    /// So that the memory of a request's properties need not grow.
    private static let usualByteCount = 64

    /// Writes the property length and every property that is set, whether or not it belongs on the packet. [MQTT-2.2.2-1 v5]
    ///
    /// What CONNACK says of a connection comes first, in mosquitto's order; the others follow by identifier.
    func encode(to writer: inout PacketWriter) {
        let start = writer.beginLength()
        encodeContent(to: &writer)
        writer.endLength(start)
    }

    private func encodeContent(to writer: inout PacketWriter) {
        encodeTerms(to: &writer)
        encodeMessage(to: &writer)
        encodeConnection(to: &writer)
        encodeAvailability(to: &writer)
        for property in userProperties {  // [MQTT-3.3.2-18 v5]
            writer.write(PropertyIdentifier.userProperty.rawValue)
            writer.write(property.name)
            writer.write(property.value)
        }
    }

    private func encodeTerms(to writer: inout PacketWriter) {
        writer.write(.serverKeepAlive, serverKeepAlive)
        writer.write(.topicAliasMaximum, topicAliasMaximum)
        writer.write(.assignedClientIdentifier, assignedClientIdentifier)
        writer.write(.retainAvailable, retainAvailable)
        writer.write(.maximumPacketSize, maximumPacketSize)
        writer.write(.receiveMaximum, receiveMaximum)
        writer.write(.maximumQoS, maximumQoS == .exactlyOnce ? nil : maximumQoS?.rawValue)  // Only 0 and 1 can be said.
    }

    private func encodeMessage(to writer: inout PacketWriter) {
        writer.write(.payloadFormatIndicator, payloadFormatIndicator)
        writer.write(.messageExpiryInterval, messageExpiryInterval)
        writer.write(.contentType, contentType)
        writer.write(.responseTopic, responseTopic)
        writer.write(.correlationData, correlationData)
        for identifier in subscriptionIdentifiers {
            writer.write(PropertyIdentifier.subscriptionIdentifier.rawValue)
            writer.write(variableByteInteger: Int(identifier))
        }
    }

    private func encodeConnection(to writer: inout PacketWriter) {
        writer.write(.sessionExpiryInterval, sessionExpiryInterval)
        writer.write(.authenticationMethod, authenticationMethod)
        writer.write(.authenticationData, authenticationData)
        writer.write(.requestProblemInformation, requestProblemInformation)
        writer.write(.willDelayInterval, willDelayInterval)
        writer.write(.requestResponseInformation, requestResponseInformation)
        writer.write(.responseInformation, responseInformation)
        writer.write(.serverReference, serverReference)
        writer.write(.reasonString, reasonString)
    }

    private func encodeAvailability(to writer: inout PacketWriter) {
        writer.write(.topicAlias, topicAlias)
        writer.write(.wildcardSubscriptionAvailable, wildcardSubscriptionAvailable)
        writer.write(.subscriptionIdentifierAvailable, subscriptionIdentifierAvailable)
        writer.write(.sharedSubscriptionAvailable, sharedSubscriptionAvailable)
    }
}

/// One property each: its identifier and its value, or nothing if it is absent.
extension PacketWriter {
    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: UInt8?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: Bool?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: UInt16?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: UInt32?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: EncodedString?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: [UInt8]?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(lengthPrefixed: value)
    }
}
