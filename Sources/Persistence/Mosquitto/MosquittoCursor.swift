import MQTTCodec

/// A place in a file of mosquitto's, and the end that nothing may be read beyond: of the file, or of the chunk.
///
/// Numbers that mosquitto writes as they lie in memory are little-endian here, as on every machine that Martlet runs on; the others are
/// big-endian.
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
