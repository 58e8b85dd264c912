import MQTTCodec

/// What stands at the front of a row of `StoreTable.entry`; `StoredEntry` draws it.
struct EntryHeader {
    var session: UInt64
    var qos: QoS
    var retain: Bool
    var byteCount: UInt32
    var group: UInt64
    /// Of a message that no group has chosen the session for; its place is the group's.
    var name = MessageName.none
    var packetIdentifier: UInt16 = 0
    var identifiersLength: UInt32 = 0
    /// Whether the message stands in the row; else its number does.
    var isInline = true

    private enum Flag {
        static let retain: UInt8 = 1
        static let isInline: UInt8 = 2
        static let hasName: UInt8 = 4
        static let all: UInt8 = 7
    }

    static let size = 28
    /// Stands for the packet identifier of a QoS 0 message, which has none, where the row is not to outlive the broker: nobody was promised
    /// the message, and it may have been delivered.
    static let endsWithBroker: UInt16 = 1
    /// Where the packet identifier stands.
    static let packetIdentifierOffset = 2

    init(session: UInt64, qos: QoS, retain: Bool, byteCount: UInt32, group: UInt64) {
        self.session = session
        self.qos = qos
        self.retain = retain
        self.byteCount = byteCount
        self.group = group
    }

    init?(_ reader: inout RecordReader) {
        guard let flags = reader.read(UInt8.self), flags & ~Flag.all == 0,
            let qos = reader.read(UInt8.self).flatMap({ QoS(rawValue: $0) }),
            let packetIdentifier = reader.read(UInt16.self), let byteCount = reader.read(UInt32.self),
            let session = reader.read(UInt64.self), let group = reader.read(UInt64.self),
            let identifiersLength = reader.read(UInt32.self)
        else { return nil }
        self.init(session: session, qos: qos, retain: flags & Flag.retain != 0, byteCount: byteCount, group: 0)
        if flags & Flag.hasName != 0 { name = MessageName(rawValue: group) } else { self.group = group }
        self.packetIdentifier = packetIdentifier
        self.identifiersLength = identifiersLength
        isInline = flags & Flag.isInline != 0
    }

    /// `target` has room for `size` bytes.
    func write(to target: UnsafeMutableRawPointer) {
        let flags = (retain ? Flag.retain : 0) | (isInline ? Flag.isInline : 0) | (name == .none ? 0 : Flag.hasName)
        target.storeBytes(of: flags, as: UInt8.self)
        target.storeBytes(of: qos.rawValue, toByteOffset: 1, as: UInt8.self)
        target.storeBytes(of: packetIdentifier, toByteOffset: 2, as: UInt16.self)
        target.storeBytes(of: byteCount, toByteOffset: 4, as: UInt32.self)
        target.storeBytes(of: session, toByteOffset: 8, as: UInt64.self)
        target.storeBytes(of: name == .none ? group : name.rawValue, toByteOffset: 16, as: UInt64.self)
        target.storeBytes(of: identifiersLength, toByteOffset: 24, as: UInt32.self)
    }
}
