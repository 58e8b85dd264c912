public import MQTTCodec

/// One message on its way to one session, as the store keeps it: never changed once it is there; `StoredFlow` tells how
/// far it has come.
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

/// What stands at the front of a row of `StoreTable.entry`; `StoredEntry` draws it.
package struct EntryHeader {
    package var session: UInt64
    package var qos: QoS
    package var retain: Bool
    package var byteCount: UInt32
    package var group: UInt64
    /// What a cluster's log calls the message.
    package var name = MessageName.none
    package var packetIdentifier: UInt16 = 0
    package var identifiersLength: UInt32 = 0
    /// Whether the message stands in the row; else its number does.
    package var isInline = true

    private enum Flag {
        package static let retain: UInt8 = 1
        package static let isInline: UInt8 = 2
        package static let hasName: UInt8 = 4
        package static let hasGroupAndName: UInt8 = 8
        package static let names = hasName | hasGroupAndName
        package static let all: UInt8 = 15
    }

    /// Bytes in front of the Subscription Identifiers.
    package var size: Int { hasGroupAndName ? 36 : 28 }
    private var hasGroupAndName: Bool { group != 0 && name != .none }

    /// Stands for the packet identifier of a QoS 0 message, which has none, where the row is not to outlive the broker:
    /// nobody was promised the message, and it may have been delivered.
    package static let endsWithBroker: UInt16 = 1
    /// Where the packet identifier stands.
    package static let packetIdentifierOffset = 2

    package init(session: UInt64, qos: QoS, retain: Bool, byteCount: UInt32, group: UInt64) {
        self.session = session
        self.qos = qos
        self.retain = retain
        self.byteCount = byteCount
        self.group = group
    }

    package init?(_ reader: inout RecordReader) {
        guard let flags = reader.read(UInt8.self), flags & ~Flag.all == 0, flags & Flag.names != Flag.names,
            let qos = reader.read(UInt8.self).flatMap({ QoS(rawValue: $0) }),
            let packetIdentifier = reader.read(UInt16.self), let byteCount = reader.read(UInt32.self),
            let session = reader.read(UInt64.self), let group = reader.read(UInt64.self),
            let identifiersLength = reader.read(UInt32.self)
        else { return nil }
        self.init(session: session, qos: qos, retain: flags & Flag.retain != 0, byteCount: byteCount, group: 0)
        if flags & Flag.hasName != 0 { name = MessageName(rawValue: group) } else { self.group = group }
        if flags & Flag.hasGroupAndName != 0 {
            guard group != 0, let name = reader.read(UInt64.self), name != 0 else { return nil }
            self.name = MessageName(rawValue: name)
        }
        self.packetIdentifier = packetIdentifier
        self.identifiersLength = identifiersLength
        isInline = flags & Flag.isInline != 0
    }

    /// `target` has room for `size` bytes.
    package func write(to target: UnsafeMutableRawPointer) {
        let naming = hasGroupAndName ? Flag.hasGroupAndName : name == .none ? 0 : Flag.hasName
        let flags = (retain ? Flag.retain : 0) | (isInline ? Flag.isInline : 0) | naming
        target.storeBytes(of: flags, as: UInt8.self)
        target.storeBytes(of: qos.rawValue, toByteOffset: 1, as: UInt8.self)
        target.storeBytes(of: packetIdentifier, toByteOffset: 2, as: UInt16.self)
        target.storeBytes(of: byteCount, toByteOffset: 4, as: UInt32.self)
        target.storeBytes(of: session, toByteOffset: 8, as: UInt64.self)
        target.storeBytes(of: group != 0 ? group : name.rawValue, toByteOffset: 16, as: UInt64.self)
        target.storeBytes(of: identifiersLength, toByteOffset: 24, as: UInt32.self)
        if hasGroupAndName { target.storeBytes(of: name.rawValue, toByteOffset: 28, as: UInt64.self) }
    }
}
