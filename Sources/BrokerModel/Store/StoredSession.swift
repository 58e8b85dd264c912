public import MQTTCodec

/// A session as the store keeps it, without its subscriptions and messages.
public struct StoredSession: Equatable, Sendable {
    public var clientIdentifier: EncodedString
    public var version: ProtocolVersion
    /// Seconds that it outlives its connection; `UInt32.max` for ever.
    public var expiryIntervalSeconds: UInt32
    /// When the session of a client that is away ends, in milliseconds since 1970; nil for never, or while the client is connected.
    public var endsAt: UInt64?
    /// Whether the client was connected: when the broker starts again, it has gone then.
    public var isConnected: Bool
    /// Whose it is: the user name, and what stands before the client's topics inside the broker; of that nil in rows that do not tell, where
    /// the listener's counts.
    public var userName: EncodedString?
    public var mountPoint: [UInt8]?
    /// Whether it is the first user's who asks for it, because nobody knows whose it is: mosquitto before 2.0 did not write that down. Rows
    /// that name their listener tell it; of others it holds for those without a user name.
    public var isUnclaimed = false
    /// The listener that the client came through.
    public var listener: StoredListener
    /// The will, published when the client is gone without a word.
    public var will: Will?
    /// When the will of a client that is away is due, in milliseconds since 1970; nil for none or while it is connected.
    public var willDueAt: UInt64?
    /// What a cluster calls the will whose sessions move; nil elsewhere.
    public var willName: SavedWill.Name?
    /// Whether it is on its way from another node of a cluster, and not whole: of no use after a crash.
    public var isArriving = false
    /// Up to where it was given a cluster's log, if that is not where its shard was; nil if it is.
    public var logFloor: LogPlaces?
    /// Whether it lacks what stands in the log between there and where its shard was.
    public var lacksLog = false
    /// By which claim the node has kept it in a cluster whose sessions move; 0 for none.
    public var epoch: UInt64 = 0
    /// Steps of a cluster's log up to this one say nothing of it; nil if that is not known.
    public var stepFloor: FlowStep.Place?

    public init(clientIdentifier: EncodedString, version: ProtocolVersion = .v311, expiryIntervalSeconds: UInt32 = .max) {
        self.clientIdentifier = clientIdentifier
        self.version = version
        self.expiryIntervalSeconds = expiryIntervalSeconds
        endsAt = nil
        isConnected = false
        userName = nil
        mountPoint = nil
        listener = .place(0)
        will = nil
        willDueAt = nil
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let identifier = reader.readBytes().flatMap({ EncodedString($0) }),
            let version = reader.read(UInt8.self).flatMap({ ProtocolVersion(rawValue: $0) }),
            let expiryInterval = reader.read(UInt32.self), let endsAt = reader.read(UInt64.self),
            let isConnected = reader.readBool(), let hasUserName = reader.readBool()
        else { return nil }
        self.init(clientIdentifier: identifier, version: version, expiryIntervalSeconds: expiryInterval)
        self.endsAt = endsAt == .max ? nil : endsAt
        self.isConnected = isConnected
        if hasUserName {
            guard let name = reader.readBytes().flatMap({ EncodedString($0) }) else { return nil }
            userName = name
        }
        guard let place = reader.read(UInt16.self), let willDueAt = reader.read(UInt64.self), let hasWill = reader.readBool()
        else { return nil }
        listener = .place(place)
        self.willDueAt = willDueAt == .max ? nil : willDueAt
        if hasWill {
            guard let will = Self.readWill(&reader) else { return nil }
            self.will = will
        }
        if place == StoredListener.named {
            guard let mountPoint = reader.readBytes(), let name = reader.readBytes(), let isUnclaimed = reader.readBool() else {
                return nil
            }
            self.mountPoint = mountPoint
            listener = .name(String(decoding: name, as: UTF8.self))
            self.isUnclaimed = isUnclaimed
        } else {
            isUnclaimed = userName == nil
        }
        guard !reader.isAtEnd else { return }
        // Of a session that moves; no other row has more.
        guard let flags = reader.read(UInt8.self), flags & ~Flag.all == 0, flags != 0 else { return nil }
        isArriving = flags & Flag.isArriving != 0
        lacksLog = flags & Flag.lacksLog != 0
        if flags & Flag.hasEpoch != 0 {
            guard let epoch = reader.read(UInt64.self) else { return nil }
            self.epoch = epoch
        }
        if flags & Flag.hasWillName != 0 {
            guard let epoch = reader.read(UInt64.self), let number = reader.read(UInt64.self) else { return nil }
            willName = SavedWill.Name(epoch: epoch, number: number)
        }
        if flags & Flag.hasStepFloor != 0 {
            guard let epoch = reader.read(UInt64.self), let number = reader.read(UInt64.self) else { return nil }
            stepFloor = FlowStep.Place(epoch: epoch, number: number)
        }
        if flags & Flag.hasLogFloor != 0 {
            guard let places = StoredLogPlaces(decoding: reader.rest) else { return nil }
            logFloor = places.places
        } else if !reader.isAtEnd {
            return nil
        }
    }

    private enum Flag {
        package static let isArriving: UInt8 = 1
        package static let hasLogFloor: UInt8 = 2
        package static let lacksLog: UInt8 = 4
        package static let hasEpoch: UInt8 = 8
        package static let hasWillName: UInt8 = 16
        package static let hasStepFloor: UInt8 = 32
        package static let all: UInt8 = 63
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(clientIdentifier.bytes)
        writer.write(version.rawValue)
        writer.write(expiryIntervalSeconds)
        writer.write(endsAt ?? .max)
        writer.write(isConnected)
        writer.write(userName != nil)
        if let userName { writer.write(userName.bytes) }
        writer.write(place)
        writer.write(willDueAt ?? .max)
        writer.write(will != nil)
        if let will { Self.write(will, to: &writer) }
        if case .name(let name) = listener {
            writer.write(mountPoint ?? [])
            writer.write(Array(name.utf8))
            writer.write(isUnclaimed)
        }
        let flags =
            (isArriving ? Flag.isArriving : 0) | (logFloor != nil ? Flag.hasLogFloor : 0) | (lacksLog ? Flag.lacksLog : 0)
            | (epoch != 0 ? Flag.hasEpoch : 0) | (willName != nil ? Flag.hasWillName : 0)
            | (stepFloor != nil ? Flag.hasStepFloor : 0)
        if flags != 0 { writer.write(flags) }
        if epoch != 0 { writer.write(epoch) }
        if let willName {
            writer.write(willName.epoch)
            writer.write(willName.number)
        }
        if let stepFloor {
            writer.write(stepFloor.epoch)
            writer.write(stepFloor.number)
        }
        if let logFloor { writer.append(StoredLogPlaces(logFloor).encoded()) }
        return writer.bytes
    }

    /// What stands for the listener in the middle of a row.
    private var place: UInt16 {
        switch listener {
        case .place(let place): place
        case .name: StoredListener.named
        }
    }

    private static func write(_ will: Will, to writer: inout RecordWriter) {
        writer.write(Array(will.topic.bytes))
        writer.write(will.payload)
        writer.write(will.qos.rawValue)
        writer.write(will.retain)
        writer.write(will.properties.encodedContent())
    }

    private static func readWill(_ reader: inout RecordReader) -> Will? {
        guard let topic = reader.readBytes().flatMap({ TopicName($0) }), let payload = reader.readBytes(),
            let qos = reader.read(UInt8.self).flatMap({ QoS(rawValue: $0) }), let retain = reader.readBool(),
            let content = reader.readBytes(), let properties = Properties(willContent: content)
        else { return nil }
        return Will(topic: topic, payload: payload, qos: qos, retain: retain, properties: properties)
    }
}

/// Which listener a client came in by, as the store keeps it.
public enum StoredListener: Hashable, Sendable {
    /// Its place in the configuration, in rows of the first format and those that were made of mosquitto's database.
    case place(UInt16)
    /// What the configuration calls it; empty for one that was no more when the row was written, which no listener is called.
    case name(String)

    /// Stands in a row where places were, when a name follows.
    package static let named = UInt16.max
}
