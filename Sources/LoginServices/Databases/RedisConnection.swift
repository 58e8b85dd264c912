internal import Platform
internal import Security

/// What it takes to ask a server of Redis.
public struct RedisSettings: Sendable, Equatable {
    public var host: String
    public var port: UInt16
    /// nil where the server asks for none.
    public var password: String?
    public var database: Int
    public var timeoutMilliseconds: UInt64 = 5000

    public init(host: String, port: UInt16, password: String? = nil, database: Int) {
        (self.host, self.port, self.password, self.database) = (host, port, password, database)
    }

    var address: ServerAddress { host.hasPrefix("/") ? .path(host) : .host(host, port: port) }
}

/// What a server of Redis answers (RESP2).
enum RedisValue: Equatable {
    /// A simple or a bulk string.
    case text([UInt8])
    case number(Int64)
    case list([RedisValue])
    /// No such key.
    case none
    /// What it does not do, in its words: `WRONGTYPE …`.
    case refused(String)
}

/// A session with a server of Redis, which answers one command at a time.
final class RedisConnection {
    private let connection: ServerConnection

    /// - Parameters:
    ///   - connection: to the server, on which nothing was said.
    ///   - settings: who asks.
    init(_ connection: ServerConnection, _ settings: RedisSettings) throws(SourceFailure) {
        self.connection = connection
        if let password = settings.password { try demand(["AUTH", password]) }
        if settings.database != 0 { try demand(["SELECT", String(settings.database)]) }
    }

    private func demand(_ words: [String]) throws(SourceFailure) {
        if case .refused(let reason) = try command(words.map { Array($0.utf8) }) {
            throw SourceFailure("does not let the broker in: \(StrangersText.shown(reason))", isLost: true)
        }
    }

    func begin(deadline: UInt64) { connection.begin(deadline: deadline) }

    /// - Parameter words: the command and what it is about, each of any bytes.
    func command(_ words: [[UInt8]]) throws(SourceFailure) -> RedisValue {
        try connection.send(Self.encoded(words))
        return try value(isInList: false)
    }

    /// Puts several commands at once, and so waits once; what is answered to each.
    func commands(_ commands: [[[UInt8]]]) throws(SourceFailure) -> [RedisValue] {
        try connection.send(commands.flatMap { Self.encoded($0) })
        var answers: [RedisValue] = []
        for _ in commands { answers.append(try value(isInList: false)) }
        return answers
    }

    private static func encoded(_ words: [[UInt8]]) -> [UInt8] {
        var bytes = Array("*\(words.count)\r\n".utf8)
        for word in words { bytes += Array("$\(word.count)\r\n".utf8) + word + [0x0D, 0x0A] }
        return bytes
    }

    private func value(isInList: Bool) throws(SourceFailure) -> RedisValue {
        let line = try connection.receiveLine()
        let rest = String(decoding: line.dropFirst(), as: UTF8.self)
        switch line.first {
        case UInt8(ascii: "+"): return .text(Array(line.dropFirst()))
        case UInt8(ascii: "-"): return .refused(rest)
        case UInt8(ascii: ":"):
            guard let number = Int64(rest) else { throw Self.strange }
            return .number(number)
        case UInt8(ascii: "$"):
            guard let count = Int(rest), count >= -1 else { throw Self.strange }
            if count == -1 { return .none }
            let bytes = try connection.receive(count)
            guard try connection.receive(2) == [0x0D, 0x0A] else { throw Self.strange }
            return .text(bytes)
        case UInt8(ascii: "*"):
            guard let count = Int(rest), count >= -1, !isInList else { throw Self.strange }
            if count == -1 { return .none }
            guard count <= Limits.topicsOfUserMax else {
                throw SourceFailure("gives more than \(Limits.topicsOfUserMax) topics of a user")
            }
            var values: [RedisValue] = []
            while values.count < count { values.append(try value(isInList: true)) }
            return .list(values)
        default: throw Self.strange
        }
    }

    private static let strange = SourceFailure("answers what Redis does not say", isLost: true)
}

/// Users in Redis, by mosquitto-go-auth's keys:
///
///     USER                 the password's hash
///     USER:su              true for whom no rule binds
///     USER:racls, :wacls, :rwacls, :sacls      sets of topics to receive, publish to, both, and subscribe to
///     common:racls …       those of everybody
final class RedisUsers: UserDatabase {
    let identity: String
    private let access: ServerAccess<RedisConnection>
    private let asksForSuperusers: Bool
    private let asksForTopics: Bool

    init(_ settings: RedisSettings, asksForSuperusers: Bool, asksForTopics: Bool, workers: WorkerPool) {
        identity = "\(settings.host) \(settings.port) \(settings.database) \(asksForSuperusers) \(asksForTopics)"
        (self.asksForSuperusers, self.asksForTopics) = (asksForSuperusers, asksForTopics)
        access = ServerAccess { deadline throws(SourceFailure) in
            try RedisConnection(
                ServerConnection(to: settings.address, deadline: deadline, workers: workers), settings)
        }
    }

    func passwordHash(of user: [UInt8], deadline: UInt64) throws(SourceFailure) -> String? {
        let name = String(decoding: user, as: UTF8.self)
        // What belongs to another user is nobody's password.
        if Self.endings.contains(where: { name.hasSuffix(":\($0)") }) { return nil }
        return try ask(deadline) { (connection) throws(SourceFailure) in try Self.text(connection, user) }
    }

    func isSuperuser(_ user: [UInt8], deadline: UInt64) throws(SourceFailure) -> Bool {
        guard asksForSuperusers else { return false }
        return try ask(deadline) { (connection) throws(SourceFailure) in
            try Self.text(connection, user + Array(":su".utf8)) == "true"
        }
    }

    func topics(of user: [UInt8], deadline: UInt64) throws(SourceFailure) -> UserTopics? {
        guard asksForTopics else { return nil }
        return try ask(deadline) { (connection) throws(SourceFailure) in
            let keys = Self.endings.dropFirst().flatMap { ending in [user, Array("common".utf8)].map { (ending, $0) } }
            let answers = try connection.commands(
                keys.map { ending, owner in [Array("SMEMBERS".utf8), owner + Array(":\(ending)".utf8)] })
            var sets: [String: [String]] = [:]
            for ((ending, _), answer) in zip(keys, answers) { sets[ending, default: []] += try Self.members(answer) }
            let both = sets["rwacls"] ?? []
            return try UserTopics(
                receiving: (sets["racls"] ?? []) + both, sending: (sets["wacls"] ?? []) + both,
                subscribing: sets["sacls"] ?? []
            ).checked()
        }
    }

    private static let endings = ["su", "racls", "wacls", "rwacls", "sacls"]

    private func ask<Answer>(
        _ deadline: UInt64, _ body: (RedisConnection) throws(SourceFailure) -> Answer
    ) throws(SourceFailure) -> Answer {
        try access.ask(deadline: deadline) { (connection) throws(SourceFailure) in
            connection.begin(deadline: deadline)
            return try body(connection)
        }
    }

    private static func text(_ connection: RedisConnection, _ key: [UInt8]) throws(SourceFailure) -> String? {
        switch try connection.command([Array("GET".utf8), key]) {
        case .text(let bytes): return String(decoding: bytes, as: UTF8.self)
        case .none: return nil
        // A key of another kind is no user.
        case .refused(let reason) where reason.hasPrefix("WRONGTYPE"): return nil
        case .refused(let reason): throw SourceFailure("answers \(StrangersText.shown(reason))")
        case .number, .list: throw SourceFailure("answers another type than a text")
        }
    }

    private static func members(_ answer: RedisValue) throws(SourceFailure) -> [String] {
        switch answer {
        case .list(let values):
            return try values.map { (value) throws(SourceFailure) in
                guard case .text(let bytes) = value else { throw SourceFailure("answers another type than a text") }
                return String(decoding: bytes, as: UTF8.self)
            }
        case .none: return []
        case .refused(let reason): throw SourceFailure("answers \(StrangersText.shown(reason))")
        case .text, .number: throw SourceFailure("answers another type than a set")
        }
    }
}
