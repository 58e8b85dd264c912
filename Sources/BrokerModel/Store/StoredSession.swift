public import Bytes
public import MQTTCodec

/// A session as the store keeps it, without its subscriptions and messages.
public struct StoredSession: Equatable, Sendable {
    public var clientIdentifier: EncodedString
    public var version: ProtocolVersion
    /// Seconds that it outlives its connection; `UInt32.max` for ever.
    public var expiryIntervalSeconds: UInt32
    /// When the session of a client that is away ends, in milliseconds since 1970; nil for never, or while the client
    /// is connected.
    public var endsAt: UInt64?
    /// Whether the client was connected: when the broker starts again, it has gone then.
    public var isConnected: Bool
    /// The session's owner: the user name, and what stands before the client's topics inside the broker; of that nil in
    /// rows that do not tell, where the listener's counts.
    public var userName: EncodedString?
    public var mountPoint: [UInt8]?
    /// Whether it is the first user's who asks for it, because nobody knows whose it is: mosquitto before 2.0 did not
    /// write that down. Rows that name their listener tell it; of others it holds for those without a user name.
    public var isUnclaimed = false
    /// The listener that the client came through.
    public var listener: StoredListener
    /// The will, published when the client is gone without a word.
    public var will: Will?
    /// When the will of a client that is away is due, in milliseconds since 1970; nil for none or while it is
    /// connected.
    public var willDueAt: UInt64?
    /// What a cluster calls the will whose sessions move; nil elsewhere.
    public var willName: WillName?
    /// Whether it is on its way from another node of a cluster, and not whole: of no use after a crash.
    public var isArriving = false
    /// Up to where it was given a cluster's log, if that is not where its shard was; nil if it is.
    public var logFloor: LogPositions?
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
    public init?(decoding body: UnsafeRawBufferPointer) { self.init(fields: body) }

    public func encoded() -> [UInt8] { encodedFields }
}

extension StoredSession: FieldCoded {
    public static let blank = StoredSession(clientIdentifier: "")

    public mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &clientIdentifier, as: { $0.bytes }, { EncodedString($0) })
        coder.field(2, &version, as: { $0.rawValue }, ProtocolVersion.init(rawValue:))
        coder.field(3, &expiryIntervalSeconds, mostly: .max)
        coder.field(4, &endsAt)
        coder.field(5, &isConnected, mostly: false)
        coder.field(6, &userName, as: { $0.bytes }, { EncodedString($0) })
        listener.code(name: 7, place: 8, &coder)
        coder.field(9, &mountPoint)
        if case .name = listener { mountPoint = mountPoint ?? [] }
        coder.field(10, &isUnclaimed, mostly: false)
        // Of mosquitto's sessions nothing else tells.
        if case .place = listener { isUnclaimed = userName == nil }
        coder.field(11, &will, as: { $0.encodedFields }, { content in content.withUnsafeBytes { Will(fields: $0) } })
        coder.field(12, &willDueAt)
        coder.field(13, &willName, as: { NumberPair($0.epoch, $0.number) }, { WillName(epoch: $0.first, number: $0.second) })
        coder.field(14, &isArriving, mostly: false)
        coder.field(15, &logFloor, as: { StoredLogPositions($0).encoded() }) { content in
            content.withUnsafeBytes { StoredLogPositions(decoding: $0)?.places }
        }
        coder.field(16, &lacksLog, mostly: false)
        coder.field(17, &epoch, mostly: 0)
        coder.field(18, &stepFloor, as: { NumberPair($0.epoch, $0.number) }, { FlowStep.Place(epoch: $0.first, number: $0.second) })
    }
}

extension Will: FieldCoded {
    public static let blank = Will(topic: "will")

    public mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &topic, as: { Array($0.bytes) }, { TopicName($0) })
        coder.field(2, &payload, mostly: [])
        coder.field(3, &qos, as: { $0.rawValue }, QoS.init(rawValue:))
        coder.field(4, &retain, mostly: false)
        coder.field(5, &properties, as: { $0.encodedContent() }, { Properties(willContent: $0) })
    }
}

/// Two numbers in one field.
struct NumberPair: FieldValue {
    let first: UInt64
    let second: UInt64

    init(_ first: UInt64, _ second: UInt64) { (self.first, self.second) = (first, second) }

    init?(field bytes: UnsafeRawBufferPointer) {
        var reader = RecordReader(bytes)
        guard let first = reader.read(UInt64.self), let second = reader.read(UInt64.self), reader.isAtEnd else { return nil }
        self.init(first, second)
    }

    func append(to bytes: inout [UInt8]) {
        for number in [first, second] { withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) } }
    }
}

/// Which listener a client came in by, as the store keeps it.
public enum StoredListener: Hashable, Sendable {
    /// Its place in the configuration, in rows that were made of mosquitto's database.
    case place(UInt16)
    /// What the configuration calls it; empty for one that was no more when the row was written, which no listener is
    /// called.
    case name(String)

    /// Gives a coder the field that there is of the two.
    package mutating func code(name nameTag: UInt8, place placeTag: UInt8, _ coder: inout some FieldCoder) {
        var (name, place) = (nil as String?, 0 as UInt16)
        switch self {
        case .name(let text): name = text
        case .place(let number): place = number
        }
        coder.field(nameTag, &name)
        if let name {
            self = .name(name)
        } else {
            coder.field(placeTag, &place, mostly: 0)
            self = .place(place)
        }
    }
}
