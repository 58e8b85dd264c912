/// What stands in the file that mosquitto keeps its state in, `mosquitto.db`.
///
///     00 B5 00 "mosquitto db" | 4 bytes, unused | version 4 | chunk | chunk | …
///     a chunk: kind 4 (2 before version 5) | length 4 | body
///
/// The file has no checksum and no end mark. What is impossible is an error; a flipped bit of a payload, and a file that was cut between two
/// chunks, look like any other file.
///
/// mosquitto 2.0.11 writes the chunk of a client without a user name behind that of a client with one wrong: with the other's length of name,
/// and hundreds of bytes of its memory behind. Such chunks are read without their user name. Where two such clients follow one another the
/// second has the other client's name in the file and nothing tells; mosquitto believes it, and so does this.
public struct MosquittoDatabase: Equatable, Sendable {
    /// The versions of the format that are read: 3 is mosquitto 1.2's, 4 is 1.5.6's, 5 is 1.6's and 6 is 2.0's.
    public static let versions: ClosedRange<UInt32> = 3...6

    /// Of the format; 0 for a database of the persist-sqlite plug-in, which has other ones.
    public private(set) var version: UInt32
    /// Whether mosquitto wrote the file when it ended; if not, it knows nothing of what came later.
    public internal(set) var wasWrittenAtEnd = false
    public internal(set) var clients: [MosquittoClient] = []
    public internal(set) var messages: [MosquittoMessage] = []
    /// In the order of each client's queue.
    public internal(set) var clientMessages: [MosquittoClientMessage] = []
    /// The numbers of retained messages.
    public internal(set) var retained: [UInt64] = []
    public internal(set) var subscriptions: [MosquittoSubscription] = []
    /// Only the persist-sqlite plug-in keeps them.
    public internal(set) var wills: [MosquittoWill] = []

    /// An empty one, for what the plug-in's database holds.
    init() { version = 0 }

    /// Reads a whole file.
    public init(_ bytes: [UInt8]) throws(MosquittoDatabaseError) {
        var cursor = MosquittoCursor(bytes)
        guard bytes.starts(with: Self.magic) else { throw cursor.error(.notADatabase) }
        try cursor.skip(Self.magic.count + 4)
        version = try cursor.readBig(UInt32.self)
        let layout: any MosquittoLayout
        switch version {
        case 3, 4: layout = MosquittoPackedLayout(version: version)
        case 5, 6: layout = MosquittoFixedLayout(version: version)
        default: throw cursor.error(.version(version))
        }
        guard try readChunk(&cursor, layout) == .configuration else {
            throw MosquittoDatabaseError(.illegal("the configuration does not come first"), at: Self.headerSize, in: nil)
        }
        while !cursor.isAtEnd { try readChunk(&cursor, layout) }
    }

    @discardableResult
    private mutating func readChunk(
        _ cursor: inout MosquittoCursor, _ layout: any MosquittoLayout
    ) throws(MosquittoDatabaseError) -> MosquittoChunk {
        let start = cursor.position
        let number = try layout.readKind(&cursor)
        guard let chunk = MosquittoChunk(rawValue: number) else {
            throw MosquittoDatabaseError(.unknownChunk(number), at: start, in: nil)
        }
        let length = try cursor.readBig(UInt32.self)
        var body = try cursor.takeChunk(chunk, length: length)
        switch chunk {
        case .configuration: wasWrittenAtEnd = try layout.readConfiguration(&body)
        case .message: messages.append(try layout.readMessage(&body))
        case .clientMessage: clientMessages.append(try layout.readClientMessage(&body))
        case .retained: retained.append(try body.readLittle(UInt64.self))
        case .subscription: subscriptions.append(try layout.readSubscription(&body))
        case .client: clients.append(try layout.readClient(&body))
        }
        try body.finish()
        return chunk
    }

    private static let magic = [0x00, 0xB5, 0x00] + Array("mosquitto db".utf8)
    private static let headerSize = magic.count + 8
}
