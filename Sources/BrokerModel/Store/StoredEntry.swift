public import MQTTCodec

/// One message on its way to one session, as the store keeps it: never changed once it is there; `StoredFlow` tells how far it has come.
///
///     flags 1 | QoS 1 | packet identifier 2 | byte count 4 | session 8 | group or name 8 | identifiers' length 4 | name 8, if it has both | identifiers |
///     message
///
/// The message stands in the row itself, or is the number of a row of `message`.
public struct StoredEntry: Equatable, Sendable {
    public enum Content: Equatable, Sendable {
        case inline(StoredMessage)
        /// The number of a row of `StoreTable.message`.
        case shared(UInt64)
    }

    /// The key of its session.
    public var session: UInt64
    public var qos: QoS
    public var retain: Bool
    /// The identifier that it was sent with at once, 0 for none.
    public var packetIdentifier: UInt16
    /// Topic, properties and payload together: what it counts for in a queue.
    public var byteCount: UInt32
    /// Stands for the share group that chose the session; 0 for none.
    public var group: UInt64
    /// What a cluster's log calls the message; `MessageName.none` for none.
    public var name = MessageName.none
    /// The Subscription Identifiers to send with it, as properties.
    public var identifiers: [UInt8]
    public var content: Content

    public init(
        session: UInt64, qos: QoS, retain: Bool, packetIdentifier: UInt16 = 0, group: UInt64 = 0, identifiers: [UInt8] = [],
        message: StoredMessage
    ) {
        self.session = session
        self.qos = qos
        self.retain = retain
        self.packetIdentifier = packetIdentifier
        byteCount = UInt32(clamping: message.topic.count + message.properties.count + message.payload.count)
        self.group = group
        self.identifiers = identifiers
        content = .inline(message)
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let header = EntryHeader(&reader), let identifiers = reader.take(Int(header.identifiersLength)) else { return nil }
        if header.isInline {
            guard let message = StoredMessage(&reader) else { return nil }
            content = .inline(message)
        } else {
            guard let number = reader.read(UInt64.self) else { return nil }
            content = .shared(number)
        }
        guard reader.isAtEnd else { return nil }
        session = header.session
        qos = header.qos
        retain = header.retain
        packetIdentifier = header.packetIdentifier
        byteCount = header.byteCount
        (group, name) = (header.group, header.name)
        self.identifiers = Array(identifiers)
    }

    /// Whether it is what a client may be sent.
    package var isLegal: Bool {
        guard identifiers.withUnsafeBytes(Properties.areSubscriptionIdentifiers) else { return false }
        return switch content {
        case .inline(let message): message.isLegal
        case .shared: true
        }
    }

    public func encoded() -> [UInt8] {
        var header = EntryHeader(session: session, qos: qos, retain: retain, byteCount: byteCount, group: group)
        (header.packetIdentifier, header.name) = (packetIdentifier, name)
        header.identifiersLength = UInt32(identifiers.count)
        if case .shared = content { header.isInline = false }
        var bytes = [UInt8](repeating: 0, count: header.size)
        bytes.withUnsafeMutableBytes { if let base = $0.baseAddress { header.write(to: base) } }
        var writer = RecordWriter()
        writer.append(bytes)
        writer.append(identifiers)
        switch content {
        case .inline(let message): message.write(to: &writer)
        case .shared(let number): writer.write(number)
        }
        return writer.bytes
    }
}
