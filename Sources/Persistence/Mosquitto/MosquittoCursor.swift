import MQTTCodec

/// A place in a file of mosquitto's, and the end that nothing may be read beyond: of the file, or of the chunk.
///
/// Numbers that mosquitto writes as they lie in memory are little-endian here, as on every machine that Martlet runs
/// on; the others are big-endian.
struct MosquittoCursor {
    private let bytes: [UInt8]
    private(set) var position: Int
    private let end: Int
    let chunk: MosquittoChunk?

    init(_ bytes: [UInt8]) {
        self.init(bytes, position: 0, end: bytes.count, chunk: nil)
    }

    private init(_ bytes: [UInt8], position: Int, end: Int, chunk: MosquittoChunk?) {
        self.bytes = bytes
        self.position = position
        self.end = end
        self.chunk = chunk
    }

    var isAtEnd: Bool { position == end }
    /// How many bytes are left.
    var count: Int { end - position }

    /// Steps over a chunk's body and returns a cursor over that.
    mutating func takeChunk(_ chunk: MosquittoChunk, length: UInt32) throws(MosquittoDatabaseError) -> MosquittoCursor {
        guard Int(length) <= count else { throw MosquittoDatabaseError(.truncated, at: position, in: chunk) }
        defer { position += Int(length) }
        return MosquittoCursor(bytes, position: position, end: position + Int(length), chunk: chunk)
    }

    mutating func take(_ length: Int) throws(MosquittoDatabaseError) -> [UInt8] {
        Array(try step(length))
    }

    mutating func skip(_ length: Int) throws(MosquittoDatabaseError) {
        _ = try step(length)
    }

    private mutating func step(_ length: Int) throws(MosquittoDatabaseError) -> ArraySlice<UInt8> {
        guard length <= count else { throw error(.truncated) }
        defer { position += length }
        return bytes[position..<position + length]
    }

    mutating func readBig<Value: FixedWidthInteger & UnsignedInteger>(_ type: Value.Type) throws(MosquittoDatabaseError) -> Value {
        try step(MemoryLayout<Value>.size).reduce(0) { $0 << 8 | Value($1) }
    }

    mutating func readLittle<Value: FixedWidthInteger & UnsignedInteger>(_ type: Value.Type) throws(MosquittoDatabaseError) -> Value
    {
        try step(MemoryLayout<Value>.size).reversed().reduce(0) { $0 << 8 | Value($1) }
    }

    mutating func readByte() throws(MosquittoDatabaseError) -> UInt8 { try readBig(UInt8.self) }

    mutating func readQoS() throws(MosquittoDatabaseError) -> QoS {
        guard let qos = QoS(rawValue: try readByte()) else { throw illegal("there is no such QoS", behind: 1) }
        return qos
    }

    mutating func readBool() throws(MosquittoDatabaseError) -> Bool {
        let byte = try readByte()
        guard byte <= 1 else { throw illegal("neither yes nor no", behind: 1) }
        return byte == 1
    }

    /// Reads as many bytes as a Client Identifier.
    mutating func readIdentifier(_ length: Int) throws(MosquittoDatabaseError) -> EncodedString {
        guard length > 0, let identifier = EncodedString(try take(length)) else {
            throw illegal("this is no client identifier", behind: length)
        }
        return identifier
    }

    mutating func readUserName(_ length: Int) throws(MosquittoDatabaseError) -> EncodedString? {
        guard length > 0 else { return nil }
        guard let name = EncodedString(try take(length)) else { throw illegal("this is no user name", behind: length) }
        return name
    }

    mutating func readTopic(_ length: Int) throws(MosquittoDatabaseError) -> TopicName {
        guard let topic = TopicName(try take(length)) else { throw illegal("this is no topic", behind: length) }
        return topic
    }

    mutating func readFilter(_ length: Int) throws(MosquittoDatabaseError) -> TopicFilter {
        guard let filter = TopicFilter(try take(length)) else { throw illegal("this is no topic filter", behind: length) }
        return filter
    }

    /// Reads a length in 16 bits.
    mutating func readLength() throws(MosquittoDatabaseError) -> Int { Int(try readBig(UInt16.self)) }

    /// Throws if the chunk has more to say.
    func finish() throws(MosquittoDatabaseError) {
        if !isAtEnd { throw error(.excess(count)) }
    }

    func error(_ reason: MosquittoDatabaseError.Reason) -> MosquittoDatabaseError {
        MosquittoDatabaseError(reason, at: position, in: chunk)
    }

    /// The error of a value that has just been read.
    func illegal(_ words: String, behind length: Int) -> MosquittoDatabaseError {
        MosquittoDatabaseError(.illegal(words), at: position - length, in: chunk)
    }
}

/// How the bodies of chunks are laid out, which changed in version 5. Each reads a body from its first byte.
protocol MosquittoLayout {
    /// The kind of the chunk that begins here, as the file says it.
    func readKind(_ cursor: inout MosquittoCursor) throws(MosquittoDatabaseError) -> UInt32
    /// Whether the file was written when the broker ended.
    func readConfiguration(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> Bool
    func readClient(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClient
    func readMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoMessage
    func readClientMessage(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoClientMessage
    func readSubscription(_ body: inout MosquittoCursor) throws(MosquittoDatabaseError) -> MosquittoSubscription
}

extension MosquittoCursor {
    /// Reads how many bytes the numbers of messages have: eight, whatever the machine.
    mutating func readNumberSize() throws(MosquittoDatabaseError) {
        guard try readByte() == 8 else { throw illegal("the numbers of messages do not have 8 bytes", behind: 1) }
    }

    mutating func readPayload(_ length: UInt32) throws(MosquittoDatabaseError) -> [UInt8] {
        guard length <= 268_435_455 else { throw error(.illegal("no payload is that long")) }
        return try take(Int(length))
    }

    mutating func readDirection() throws(MosquittoDatabaseError) -> MosquittoClientMessage.Direction {
        guard let direction = MosquittoClientMessage.Direction(rawValue: try readByte()) else {
            throw illegal("there is no such direction", behind: 1)
        }
        return direction
    }

    mutating func readState() throws(MosquittoDatabaseError) -> MosquittoClientMessage.State {
        guard let state = MosquittoClientMessage.State(rawValue: try readByte()) else {
            throw illegal("there is no such state", behind: 1)
        }
        return state
    }

    /// Reads the properties that end a chunk behind their length, or that there are none.
    mutating func readProperties() throws(MosquittoDatabaseError) -> Properties {
        if isAtEnd { return Properties() }
        let start = position
        var length = 0
        var shift = 0
        var byte: UInt8
        repeat {
            byte = try readByte()
            length |= Int(byte & 0x7F) << shift
            shift += 7
        } while byte >= 0x80 && shift < 28
        guard length == count, let properties = Properties(publishContent: try take(length)) else {
            throw illegal("these are no properties of a message", behind: position - start)
        }
        return properties
    }
}

/// Why a file is not taken for mosquitto's database, and where in it.
public struct MosquittoDatabaseError: Error, Equatable, CustomStringConvertible {
    public enum Reason: Equatable, Sendable {
        /// It does not begin as mosquitto's files do.
        case notADatabase
        /// The file has a format that is not known here.
        case version(UInt32)
        /// It ends, or a length says that it ends, before all is there that has to be.
        case truncated
        /// It has a kind of chunk that is not known here.
        case unknownChunk(UInt32)
        /// A chunk holds more bytes than it has a use for.
        case excess(Int)
        /// A value that no broker would have written; the words end the sentence.
        case illegal(String)
    }

    /// Counted from the beginning of the file.
    public let offset: Int
    /// The kind of chunk that it stands in; nil outside of chunks.
    public let chunk: MosquittoChunk?
    public let reason: Reason

    init(_ reason: Reason, at offset: Int, in chunk: MosquittoChunk?) {
        self.offset = offset
        self.chunk = chunk
        self.reason = reason
    }

    public var description: String {
        let place = "byte \(offset)" + (chunk.map { ", in the record of \($0.words)" } ?? "")
        return switch reason {
        case .notADatabase: "this is not a database of mosquitto: it does not begin like one"
        case .version(let version):
            "its format has version \(version), and this program reads versions "
                + "\(MosquittoDatabase.versions.lowerBound) to \(MosquittoDatabase.versions.upperBound)"
        case .truncated: "\(place): it ends too early"
        case .unknownChunk(let number): "\(place): records of kind \(number) are not known"
        case .excess(let count): "\(place): there are \(count) bytes too many"
        case .illegal(let words): "\(place): \(words)"
        }
    }
}

/// The kinds of chunk that a file of mosquitto's is made of.
public enum MosquittoChunk: UInt32, Sendable {
    case configuration = 1
    case message
    case clientMessage
    case retained
    case subscription
    case client

    /// What the operator reads.
    var words: String {
        switch self {
        case .configuration: "the configuration"
        case .message: "a message"
        case .clientMessage: "a message of a client"
        case .retained: "a retained message"
        case .subscription: "a subscription"
        case .client: "a client"
        }
    }
}

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
