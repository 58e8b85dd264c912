internal import BrokerModel
internal import Glibc
internal import MQTTCodec
internal import RowStore

/// What stands in the file that mosquitto keeps its state in, `mosquitto.db`.
///
///     00 B5 00 "mosquitto db" | 4 bytes, unused | version 4 | chunk | chunk | …
///     a chunk: kind 4 (2 before version 5) | length 4 | body
///
/// The file has no checksum and no end mark. What is impossible is an error; a flipped bit of a payload, and a file
/// that was cut between two chunks, look like any other file.
///
/// mosquitto 2.0.11 writes the chunk of a client without a user name behind that of a client with one wrong: with the
/// other's length of name, and hundreds of bytes of its memory behind. Such chunks are read without their user name.
/// Where two such clients follow one another the second has the other client's name in the file and nothing tells;
/// mosquitto believes it, and so does this.
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

/// Reads the database that mosquitto's persist-sqlite plug-in keeps its state in, `mosquitto.sqlite3`: schemas 1.0 and
/// 1.1.
///
///     base_msgs      messages, by store_id; times are seconds since 1970, 0 for none; properties are JSON
///     retains        the store_id of each topic's retained message
///     clients        sessions
///     subscriptions  by client and filter
///     client_msgs    a message on its way to a client (direction 1) or from it (0), in the order of rowid
///     wills          of clients that were connected, or whose will waits for its delay; since schema 1.1
///
/// All is read in one transaction, and nothing is changed. A log beside the file belongs to it. What is impossible is
/// an error that names table and row.
struct MosquittoPluginDatabase {
    private let connection: SQLiteConnection
    private(set) var database = MosquittoDatabase()
    /// Of each client: the delay of its will, and when that is over, in seconds.
    private var willTimes: [EncodedString: (delay: UInt32, dueAt: UInt64?)] = [:]

    /// Reads the database at `path`, all of it.
    init(_ path: String) throws(MosquittoPluginDatabaseError) {
        do throws(SQLiteError) {
            connection = try SQLiteConnection(path, .read)
        } catch {
            throw MosquittoPluginDatabaseError(error)
        }
        try run("BEGIN")
        let hasWills = try checkSchema()
        try readClients()
        try readSubscriptions()
        try readMessages()
        try readRetained()
        try readClientMessages()
        if hasWills { try readWills() }
        try run("COMMIT")
    }

    // MARK: Schema

    private static let tables = ["base_msgs", "client_msgs", "clients", "retains", "subscriptions", "version_info"]

    /// Throws if the tables are not those of a version that is known; returns whether wills are among them.
    private func checkSchema() throws(MosquittoPluginDatabaseError) -> Bool {
        var found: Set<String> = []
        try rows("sqlite_schema", "name", where: "type = 'table'") { row throws(MosquittoPluginDatabaseError) in
            found.insert(String(decoding: row.bytes(1) ?? [], as: UTF8.self))
        }
        if let missing = Self.tables.first(where: { !found.contains($0) }) {
            throw MosquittoPluginDatabaseError(
                "this is not a database of mosquitto's persist-sqlite plug-in: it has no table \(missing)")
        }
        var version: (major: Int, minor: Int)?
        try rows("version_info", "major, minor", where: "component = 'database_schema'") {
            row throws(MosquittoPluginDatabaseError) in
            version = (try row.integer(1, "major version", 0...Int.max), try row.integer(2, "minor version", 0...Int.max))
        }
        guard let version else { throw MosquittoPluginDatabaseError("its table version_info does not say which schema it has") }
        guard version.major == 1, version.minor <= 1 else {
            throw MosquittoPluginDatabaseError(
                "its schema has version \(version.major).\(version.minor), and this program reads versions 1.0 and 1.1")
        }
        return found.contains("wills")
    }

    // MARK: Tables

    private mutating func readClients() throws(MosquittoPluginDatabaseError) {
        var clients: [MosquittoClient] = []
        var times: [EncodedString: (delay: UInt32, dueAt: UInt64?)] = [:]
        let columns =
            "client_id, username, session_expiry_time, session_expiry_interval, listener_port, will_delay_time, will_delay_interval"
        try rows("clients", columns) { row throws(MosquittoPluginDatabaseError) in
            let identifier = try row.clientIdentifier(1)
            clients.append(
                MosquittoClient(
                    identifier: identifier, sessionExpiryInterval: try row.seconds(4, "session expiry interval"),
                    sessionEndsAt: try row.time(3, "session expiry time"), lastPacketIdentifier: 0,
                    userName: try row.userName(2), listenerPort: UInt16(try row.integer(5, "listener port", 0...65535))))
            times[identifier] = (try row.seconds(7, "will delay interval"), try row.time(6, "will delay time"))
        }
        database.clients = clients
        willTimes = times
    }

    private mutating func readSubscriptions() throws(MosquittoPluginDatabaseError) {
        var subscriptions: [MosquittoSubscription] = []
        try rows("subscriptions", "client_id, topic, subscription_options, subscription_identifier") {
            row throws(MosquittoPluginDatabaseError) in
            guard let filter = TopicFilter(row.bytes(2) ?? []) else { throw row.error("its topic is no topic filter") }
            let options = try row.integer(3, "subscription_options", 0...0x3F)
            guard let qos = QoS(rawValue: UInt8(options & 3)) else { throw row.error("its subscription_options are \(options)") }
            subscriptions.append(
                MosquittoSubscription(
                    client: try row.clientIdentifier(1), filter: filter, maximumQoS: qos, noLocal: options & 4 != 0,
                    retainAsPublished: options & 8 != 0,
                    identifier: UInt32(try row.integer(4, "subscription_identifier", 0...268_435_455))))
        }
        database.subscriptions = subscriptions
    }

    private mutating func readMessages() throws(MosquittoPluginDatabaseError) {
        var messages: [MosquittoMessage] = []
        let columns = "store_id, expiry_time, topic, payload, source_id, source_username, source_port, qos, retain, properties"
        try rows("base_msgs", columns) { row throws(MosquittoPluginDatabaseError) in
            messages.append(
                MosquittoMessage(
                    number: row.bits(1), source: row.bytes(5) ?? [], topic: try row.topic(3), payload: row.bytes(4) ?? [],
                    qos: try row.qos(8), retain: try row.flag(9, "retain"), properties: try properties(10, row),
                    expiresAt: try row.time(2, "expiry_time"), userName: row.bytes(6).flatMap { EncodedString($0) },
                    listenerPort: UInt16(try row.integer(7, "source_port", 0...65535))))
        }
        database.messages = messages
    }

    private mutating func readRetained() throws(MosquittoPluginDatabaseError) {
        var retained: [UInt64] = []
        try rows("retains", "store_id") { row throws(MosquittoPluginDatabaseError) in retained.append(row.bits(1)) }
        database.retained = retained
    }

    private mutating func readClientMessages() throws(MosquittoPluginDatabaseError) {
        var messages: [MosquittoClientMessage] = []
        let columns = "client_id, store_id, dup, direction, mid, qos, retain, state, subscription_identifier"
        try rows("client_msgs", columns) { row throws(MosquittoPluginDatabaseError) in
            guard let direction = MosquittoClientMessage.Direction(rawValue: UInt8(try row.integer(4, "direction", 0...1))),
                let state = MosquittoClientMessage.State(rawValue: UInt8(try row.integer(8, "state", 1...11)))
            else { throw row.error("its direction or state is not known") }
            let identifier = UInt32(try row.integer(9, "subscription_identifier", 0...268_435_455))
            messages.append(
                MosquittoClientMessage(
                    client: try row.clientIdentifier(1), message: row.bits(2),
                    packetIdentifier: UInt16(try row.integer(5, "mid", 0...65535)), qos: try row.qos(6),
                    retain: try row.flag(7, "retain"), isDuplicate: try row.integer(3, "dup", 0...255) > 0, direction: direction,
                    state: state, subscriptionIdentifiers: identifier == 0 ? [] : [identifier]))
        }
        database.clientMessages = messages
    }

    private mutating func readWills() throws(MosquittoPluginDatabaseError) {
        var wills: [MosquittoWill] = []
        try rows("wills", "client_id, topic, payload, qos, retain, properties") { row throws(MosquittoPluginDatabaseError) in
            let client = try row.clientIdentifier(1)
            var properties = try properties(6, row)
            let times = willTimes[client]
            if let delay = times?.delay, delay > 0 { properties.willDelayInterval = delay }
            wills.append(
                MosquittoWill(
                    client: client,
                    will: Will(
                        topic: try row.topic(2), payload: row.bytes(3) ?? [], qos: try row.qos(4),
                        retain: try row.flag(5, "retain"), properties: properties),
                    dueAt: times?.dueAt))
        }
        database.wills = wills
    }

    // MARK: Properties

    /// Properties as the plug-in writes them: an array of objects with `identifier`, `value` and, for User Properties,
    /// `name`.
    private func properties(_ column: Int32, _ row: Row) throws(MosquittoPluginDatabaseError) -> Properties {
        var properties = Properties()
        guard let json = row.bytes(column), !json.isEmpty else { return properties }
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: json.count, alignment: 1)
        defer { copy.deallocate() }
        copy.copyBytes(from: json)
        do throws(SQLiteError) {
            let statement = try connection.prepare(
                "SELECT value ->> 'identifier', value ->> 'name', value ->> 'value' FROM json_each(CAST(?1 AS TEXT))")
            statement.bind(UnsafeRawBufferPointer(copy), at: 1)
            var isRight = true
            while try statement.step() {
                let name = String(decoding: statement.content(0) ?? [], as: UTF8.self)
                let value = statement.content(2) ?? []
                if !Self.set(name, statement.content(1), value, statement.integer(2), in: &properties) { isRight = false }
            }
            statement.reset()
            guard isRight else { throw SQLiteError(code: 0, message: "a property is none of a message") }
        } catch {
            throw row.error("its properties are not what the plug-in writes: \(error.message)")
        }
        return properties
    }

    /// False if there is no such property, or not with this value.
    private static func set(
        _ identifier: String, _ name: [UInt8]?, _ value: [UInt8], _ number: Int64, in properties: inout Properties
    ) -> Bool {
        switch identifier {
        case "payload-format-indicator":
            guard (0...1).contains(number) else { return false }
            properties.payloadFormatIndicator = UInt8(number)
        case "content-type":
            guard let text = EncodedString(value) else { return false }
            properties.contentType = text
        case "response-topic":
            guard let topic = TopicName(value) else { return false }
            properties.responseTopic = EncodedString(topic.bytes)
        case "correlation-data":
            guard let data = bytes(ofHexadecimal: value) else { return false }
            properties.correlationData = data
        case "user-property":
            guard let name = EncodedString(name ?? []), let value = EncodedString(value) else { return false }
            properties.userProperties.append(UserProperty(name: name, value: value))
        // They stand in columns of their own, or belong to a connection.
        case "message-expiry-interval", "will-delay-interval", "subscription-identifier", "topic-alias": break
        default: return false
        }
        return true
    }

    private static func bytes(ofHexadecimal digits: [UInt8]) -> [UInt8]? {
        guard digits.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        for position in stride(from: 0, to: digits.count, by: 2) {
            guard let byte = UInt8(String(decoding: digits[position...position + 1], as: UTF8.self), radix: 16) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    // MARK: Rows

    private func run(_ sql: String) throws(MosquittoPluginDatabaseError) {
        do throws(SQLiteError) {
            try connection.execute(sql)
        } catch {
            throw MosquittoPluginDatabaseError(error)
        }
    }

    /// Gives each row of a table to `body`, in the order in which they were written.
    private func rows(
        _ table: String, _ columns: String, where condition: String = "1",
        _ body: (Row) throws(MosquittoPluginDatabaseError) -> Void
    ) throws(MosquittoPluginDatabaseError) {
        var failure: MosquittoPluginDatabaseError?
        do throws(SQLiteError) {
            let statement = try connection.prepare("SELECT rowid, \(columns) FROM \(table) WHERE \(condition) ORDER BY rowid")
            while failure == nil, try statement.step() {
                do throws(MosquittoPluginDatabaseError) {
                    try body(Row(table: table, statement: statement))
                } catch {
                    failure = error
                }
            }
            statement.reset()
        } catch {
            throw MosquittoPluginDatabaseError("in the table \(table): \(error)")
        }
        if let failure { throw failure }
    }

    /// A row that is being read; columns are counted from 1.
    private struct Row {
        let table: String
        let statement: PreparedStatement

        func error(_ words: String) -> MosquittoPluginDatabaseError {
            MosquittoPluginDatabaseError("in row \(statement.integer(0)) of the table \(table): \(words)")
        }

        func bytes(_ column: Int32) -> [UInt8]? { statement.content(column) }

        func bits(_ column: Int32) -> UInt64 { statement.bits(column) }

        func integer(_ column: Int32, _ name: String, _ range: ClosedRange<Int>) throws(MosquittoPluginDatabaseError) -> Int {
            let value = Int(statement.integer(column))
            guard range.contains(value) else { throw error("its \(name) is \(value)") }
            return value
        }

        func flag(_ column: Int32, _ name: String) throws(MosquittoPluginDatabaseError) -> Bool {
            try integer(column, name, 0...1) == 1
        }

        /// The plug-in writes 32 bits with a sign: -1 is for ever.
        func seconds(_ column: Int32, _ name: String) throws(MosquittoPluginDatabaseError) -> UInt32 {
            UInt32(truncatingIfNeeded: try integer(column, name, Int(Int32.min)...Int(UInt32.max)))
        }

        /// Seconds since 1970; nil for 0.
        func time(_ column: Int32, _ name: String) throws(MosquittoPluginDatabaseError) -> UInt64? {
            let time = try integer(column, name, 0...Int.max)
            return time == 0 ? nil : UInt64(time)
        }

        func qos(_ column: Int32) throws(MosquittoPluginDatabaseError) -> QoS {
            guard let qos = QoS(rawValue: UInt8(try integer(column, "qos", 0...2))) else { throw error("its qos is not known") }
            return qos
        }

        func topic(_ column: Int32) throws(MosquittoPluginDatabaseError) -> TopicName {
            guard let topic = TopicName(bytes(column) ?? []) else { throw error("its topic is no topic") }
            return topic
        }

        func clientIdentifier(_ column: Int32) throws(MosquittoPluginDatabaseError) -> EncodedString {
            guard let bytes = bytes(column), !bytes.isEmpty, let identifier = EncodedString(bytes) else {
                throw error("its client_id is no client identifier")
            }
            return identifier
        }

        func userName(_ column: Int32) throws(MosquittoPluginDatabaseError) -> EncodedString? {
            guard let bytes = bytes(column), !bytes.isEmpty else { return nil }
            guard let name = EncodedString(bytes) else { throw error("its username is no user name") }
            return name
        }
    }
}

extension MosquittoDatabase {
    /// Reads what mosquitto's persist-sqlite plug-in has kept; the file stays as it is.
    ///
    /// - Parameter path: of `mosquitto.sqlite3`; its log, if there is one, stands beside it.
    public init(ofPlugin path: String) throws(MosquittoPluginDatabaseError) {
        // What a reader makes beside a file that it does not change is gone when it ends.
        let absent = ["-wal", "-shm"].map { path + $0 }.filter { DiskFile.size($0) == nil }
        defer { for file in absent { unlink(file) } }
        let hasLog = DiskFile.size(path + "-wal") ?? 0 > 0
        self = try MosquittoPluginDatabase(path).database
        // An orderly end moves the log into the database.
        wasWrittenAtEnd = !hasLog
    }

    /// Whether a file's first bytes are those of a database of the plug-in, and not of mosquitto's own format.
    public static func isOfPlugin(_ bytes: some Collection<UInt8>) -> Bool { bytes.starts(with: Array("SQLite format 3\0".utf8)) }
}

/// Why a file is not taken for a database of mosquitto's persist-sqlite plug-in.
public struct MosquittoPluginDatabaseError: Error, Equatable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }

    init(_ error: SQLiteError) { description = "SQLite cannot read it: \(error)" }
}

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
