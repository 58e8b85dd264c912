import MQTTCodec

/// Versions 3 and 4: field after field, texts behind their length in 16 bits. They know nothing of MQTT 5.0.
struct MosquittoPackedLayout: MosquittoLayout {
    let version: UInt32

    func readKind(_ cursor: inout MosquittoCursor) throws(MosquittoDatabaseError) -> UInt32 {
        UInt32(try cursor.readBig(UInt16.self))
    }

    func readConfiguration(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> Bool {
        let wasWrittenAtEnd = try body.readBool()
        try body.readNumberSize()
        try body.skip(8)  // the last message's number
        return wasWrittenAtEnd
    }

    func readClient(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClient {
        let identifier = try readIdentifier(&body)
        let lastPacketIdentifier = try body.readBig(UInt16.self)
        try body.skip(body.count > 4 ? 8 : 4)  // when it went; as long as the machine's time_t
        return MosquittoClient(
            identifier: identifier, sessionExpiryInterval: .max, lastPacketIdentifier: lastPacketIdentifier, listenerPort: 0)
    }

    func readMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoMessage {
        let number = try body.readLittle(UInt64.self)
        let source = try body.take(try body.readLength())
        let userName = version > 3 ? try body.take(try body.readLength()) : []
        let listenerPort = version > 3 ? try body.readBig(UInt16.self) : 0
        try body.skip(4)  // the publisher's packet identifier, and one that nobody used
        let topic = try body.readTopic(try body.readLength())
        let qos = try body.readQoS()
        let retain = try body.readBool()
        let payload = try body.readPayload(try body.readBig(UInt32.self))
        return MosquittoMessage(
            number: number, source: source, topic: topic, payload: payload, qos: qos, retain: retain, properties: Properties(),
            userName: userName.isEmpty ? nil : EncodedString(userName), listenerPort: listenerPort)
    }

    func readClientMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClientMessage {
        let client = try readIdentifier(&body)
        let message = try body.readLittle(UInt64.self)
        let packetIdentifier = try body.readBig(UInt16.self)
        let qos = try body.readQoS()
        let retain = try body.readBool()
        let direction = try body.readDirection()
        let state = try body.readState()
        return MosquittoClientMessage(
            client: client, message: message, packetIdentifier: packetIdentifier, qos: qos, retain: retain,
            isDuplicate: try body.readBool(), direction: direction, state: state, subscriptionIdentifiers: [])
    }

    func readSubscription(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoSubscription {
        let client = try readIdentifier(&body)
        let filter = try body.readFilter(try body.readLength())
        return MosquittoSubscription(
            client: client, filter: filter, maximumQoS: try body.readQoS(), noLocal: false, retainAsPublished: false, identifier: 0)
    }

    private func readIdentifier(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> EncodedString {
        try body.readIdentifier(try body.readLength())
    }
}
