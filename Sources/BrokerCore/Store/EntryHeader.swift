import MQTTCodec

/// What stands at the front of a row of `StoreTable.entry`; `StoredEntry` draws it.
struct EntryHeader {
    var session: UInt64
    var qos: QoS
    var retain: Bool
    var byteCount: UInt32
    var group: UInt64
    /// What a cluster's log calls the message.
    var name = MessageName.none
    var packetIdentifier: UInt16 = 0
    var identifiersLength: UInt32 = 0
    /// Whether the message stands in the row; else its number does.
    var isInline = true

    private enum Flag {
        static let retain: UInt8 = 1
        static let isInline: UInt8 = 2
        static let hasName: UInt8 = 4
        static let hasGroupAndName: UInt8 = 8
        static let names = hasName | hasGroupAndName
        static let all: UInt8 = 15
    }

    /// Bytes in front of the Subscription Identifiers.
    var size: Int { hasGroupAndName ? 36 : 28 }
    private var hasGroupAndName: Bool { group != 0 && name != .none }

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
    func write(to target: UnsafeMutableRawPointer) {
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
