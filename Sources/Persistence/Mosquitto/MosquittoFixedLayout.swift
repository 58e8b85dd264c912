import MQTTCodec

/// Versions 5 and 6: structures of C as they lie in memory, with lengths in front and what they measure behind.
struct MosquittoFixedLayout: MosquittoLayout {
    let version: UInt32

    func readKind(_ cursor: inout MosquittoCursor) throws(MosquittoDatabaseError) -> UInt32 { try cursor.readBig(UInt32.self) }

    func readConfiguration(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> Bool {
        try body.skip(8)  // the last message's number
        let wasWrittenAtEnd = try body.readBool()
        try body.readNumberSize()
        try body.skip(6)
        return wasWrittenAtEnd
    }

    func readClient(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClient {
        let endsAt = try body.readLittle(UInt64.self)
        let expiryInterval = try body.readBig(UInt32.self)
        let lastPacketIdentifier = try body.readBig(UInt16.self)
        let identifierLength = try body.readLength()
        var listenerPort: UInt16 = 0
        var userNameLength = 0
        if version > 5 {
            listenerPort = try body.readBig(UInt16.self)
            userNameLength = try body.readLength()
            try body.skip(4)
        }
        let identifier = try body.readIdentifier(identifierLength)
        // Another client's name, in a length that is wrong: see `MosquittoDatabase`.
        let isForeignName = userNameLength > 0 && body.count != userNameLength
        if isForeignName { try body.skip(body.count) }
        return MosquittoClient(
            identifier: identifier, sessionExpiryInterval: expiryInterval, sessionEndsAt: endsAt == 0 ? nil : endsAt,
            lastPacketIdentifier: lastPacketIdentifier, userName: isForeignName ? nil : try body.readUserName(userNameLength),
            listenerPort: listenerPort)
    }

    func readMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoMessage {
        let number = try body.readLittle(UInt64.self)
        let expiresAt = try body.readLittle(UInt64.self)
        let payloadLength = try body.readBig(UInt32.self)
        try body.skip(2)  // the publisher's packet identifier
        let sourceLength = try body.readLength()
        let userNameLength = try body.readLength()
        let topicLength = try body.readLength()
        let listenerPort = try body.readBig(UInt16.self)
        let qos = try body.readQoS()
        let retain = try body.readBool()
        let source = try body.take(sourceLength)
        let userName = try body.take(userNameLength)
        let topic = try body.readTopic(topicLength)
        let payload = try body.readPayload(payloadLength)
        return MosquittoMessage(
            number: number, source: source, topic: topic, payload: payload, qos: qos, retain: retain,
            properties: try body.readProperties(), expiresAt: expiresAt == 0 ? nil : expiresAt,
            userName: userName.isEmpty ? nil : EncodedString(userName), listenerPort: listenerPort)
    }

    func readClientMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClientMessage {
        let message = try body.readLittle(UInt64.self)
        let packetIdentifier = try body.readBig(UInt16.self)
        let identifierLength = try body.readLength()
        let qos = try body.readQoS()
        let state = try body.readState()
        let flags = try body.readByte()
        guard flags & 0xEE == 0 else { throw body.illegal("neither yes nor no", behind: 1) }
        let direction = try body.readDirection()
        let client = try body.readIdentifier(identifierLength)
        return MosquittoClientMessage(
            client: client, message: message, packetIdentifier: packetIdentifier, qos: qos, retain: flags & 0x10 != 0,
            isDuplicate: flags & 1 != 0, direction: direction, state: state,
            subscriptionIdentifiers: try body.readProperties().subscriptionIdentifiers)
    }

    func readSubscription(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoSubscription {
        let identifier = try body.readBig(UInt32.self)
        guard identifier <= 268_435_455 else { throw body.illegal("there is no such Subscription Identifier", behind: 4) }
        let identifierLength = try body.readLength()
        let filterLength = try body.readLength()
        let qos = try body.readQoS()
        let options = try body.readByte()
        guard options & ~0x3C == 0 else { throw body.illegal("there are no such options", behind: 1) }
        try body.skip(2)
        let client = try body.readIdentifier(identifierLength)
        return MosquittoSubscription(
            client: client, filter: try body.readFilter(filterLength), maximumQoS: qos, noLocal: options & 4 != 0,
            retainAsPublished: options & 8 != 0, identifier: identifier)
    }
}
