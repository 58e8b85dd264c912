internal import Platform
internal import Security
internal import Transports

/// What it takes to ask a database of PostgreSQL, as its clients call it.
public struct PostgreSQLSettings: Sendable, Equatable {
    /// How far TLS is wanted, in PostgreSQL's words.
    public enum Encryption: String, Sendable, CaseIterable {
        case disable
        /// Encrypted, to whoever answers; to an owner of a certificate of the authorities' where those are given.
        case require
        case verifyAuthority = "verify-ca"
        case verifyFull = "verify-full"
    }

    /// A name, an address, or the directory of a Unix socket.
    public var host: String
    public var port: UInt16
    public var user: String
    public var password: String
    public var database: String
    public var encryption: Encryption
    public var authoritiesFile: String?
    public var certificateFile: String?
    public var keyFile: String?
    public var timeoutMilliseconds: UInt64 = 5000

    public init(
        host: String, port: UInt16, user: String, password: String, database: String, encryption: Encryption = .disable,
        authoritiesFile: String? = nil, certificateFile: String? = nil, keyFile: String? = nil
    ) {
        (self.host, self.port, self.user, self.password) = (host, port, user, password)
        (self.database, self.encryption, self.authoritiesFile) = (database, encryption, authoritiesFile)
        (self.certificateFile, self.keyFile) = (certificateFile, keyFile)
    }

    var address: ServerAddress { host.hasPrefix("/") ? .path("\(host)/.s.PGSQL.\(port)") : .host(host, port: port) }

    /// nil without TLS, which a Unix socket has not.
    func tlsContext() throws(TLSFailure) -> TLSClientContext? {
        guard encryption != .disable, !host.hasPrefix("/") else { return nil }
        var tls = TLSClientSettings(serverName: host)
        tls.verifiesServer = encryption != .require || authoritiesFile != nil
        tls.checksServerName = encryption == .verifyFull
        (tls.authoritiesFile, tls.certificateFile, tls.keyFile) = (authoritiesFile, certificateFile, keyFile)
        return try TLSClientContext(tls)
    }
}

/// A session with a database of PostgreSQL (protocol 3.0), which asks one query at a time.
///
///     SSLRequest ─► S ─► TLS ─┐
///     StartupMessage ─────────┴─► password, MD5 or SCRAM-SHA-256 ─► ReadyForQuery ─► Parse Bind Execute Sync ─► rows
///
/// Nothing is prepared ahead, so that a pooler of connections may stand between.
final class PostgreSQLConnection {
    private let connection: ServerConnection

    /// - Parameters:
    ///   - connection: to the database, on which nothing was said.
    ///   - settings: who asks.
    ///   - tls: nil for none.
    init(
        _ connection: ServerConnection, _ settings: PostgreSQLSettings, tls: TLSClientContext? = nil
    ) throws(SourceFailure) {
        self.connection = connection
        if let tls {
            try connection.send(Self.frame(nil, Self.number(80_877_103)))
            guard try connection.receive(1) == [UInt8(ascii: "S")] else {
                throw SourceFailure(
                    "has no TLS, which auth_opt_pg_sslmode asks for (verify-full where it is not written)", isLost: true)
            }
            try connection.startTLS(tls)
        }
        let parameters = [
            "user", settings.user, "database", settings.database, "client_encoding", "UTF8", "application_name", "martlet",
        ]
        try connection.send(Self.frame(nil, Self.number(196_608) + parameters.flatMap { Self.text($0) } + [0]))
        try prove(settings)
        while try receive().kind != UInt8(ascii: "Z") {}
    }

    /// The first column of the rows that a query gives; nil for NULL.
    ///
    /// - Parameters:
    ///   - query: with `$1` and so on for the parameters.
    ///   - parameters: as texts in UTF-8; the database finds out of what type they have to be.
    ///   - rowsMax: so many are given at most.
    func rows(
        _ query: String, _ parameters: [[UInt8]], rowsMax: Int, deadline: UInt64
    ) throws(SourceFailure) -> [[UInt8]?] {
        connection.begin(deadline: deadline)
        var bind = Self.text("") + Self.text("") + [0, 0] + Self.short(parameters.count)
        for parameter in parameters { bind += Self.number(parameter.count) + parameter }
        bind += [0, 0]
        try connection.send(
            Self.frame("P", Self.text("") + Self.text(query) + [0, 0]) + Self.frame("B", bind)
                + Self.frame("E", Self.text("") + Self.number(rowsMax)) + Self.frame("S", []))
        var rows: [[UInt8]?] = []
        while true {
            let message = try receive()
            switch message.kind {
            case UInt8(ascii: "D"):
                guard rows.count < rowsMax else { throw Self.strange }
                rows.append(try Self.firstColumn(message.body))
            case UInt8(ascii: "Z"): return rows
            default: continue
            }
        }
    }

    private static func firstColumn(_ body: [UInt8]) throws(SourceFailure) -> [UInt8]? {
        guard body.count >= 6, body[0] > 0 || body[1] > 0 else { throw strange }
        guard let count = Int32(exactly: integer(body[2..<6])) else { throw strange }
        if count == -1 { return nil }
        guard count >= 0, body.count >= 6 + Int(count) else { throw strange }
        return Array(body[6..<(6 + Int(count))])
    }

    // MARK: Who asks

    private func prove(_ settings: PostgreSQLSettings) throws(SourceFailure) {
        var scram: ScramClientExchange?
        while true {
            let message = try receive()
            guard message.kind == UInt8(ascii: "R"), message.body.count >= 4 else { throw Self.strange }
            let rest = Array(message.body[4...])
            switch Self.integer(message.body[..<4]) {
            case 0:
                // Who asks for SCRAM has to end it: else it has not shown that it knows the password.
                guard scram?.isProved != false else { throw Self.strange }
                return
            case 3: try connection.send(Self.frame("p", Self.text(settings.password)))
            case 5:
                guard let inner = OutdatedDigest.md5(Array(settings.password.utf8) + Array(settings.user.utf8)),
                    let outer = OutdatedDigest.md5(Array(inner.utf8) + rest)
                else { throw SourceFailure("asks for MD5, which OpenSSL is set up to refuse") }
                try connection.send(Self.frame("p", Self.text("md5\(outer)")))
            case 10:
                let methods = rest.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
                guard scram == nil, methods.contains("SCRAM-SHA-256") else {
                    throw SourceFailure("asks for a way to log in that is not known here", isLost: true)
                }
                let password = Array(settings.password.utf8)
                // Its owner may have set the least of RFC 7677 lower (scram_iterations), down to 1, and it takes a
                // password as it is that SASLprep forbids.
                let exchange = ScramClientExchange(
                    user: [], password: SASLprep.prepare(password, for: .asking) ?? password, iterationsMin: 1)
                scram = exchange
                let first = exchange.first
                try connection.send(Self.frame("p", Self.text("SCRAM-SHA-256") + Self.number(first.count) + first))
            case 11:
                guard let answer = try? scram?.answer(to: rest) else { throw Self.strange }
                try connection.send(Self.frame("p", answer))
            case 12: guard scram?.finish(rest) == true else { throw Self.strange }
            default: throw SourceFailure("asks for a way to log in that is not known here", isLost: true)
            }
        }
    }

    // MARK: Messages

    /// The next message that says something; an error is thrown.
    private func receive() throws(SourceFailure) -> (kind: UInt8, body: [UInt8]) {
        while true {
            let head = try connection.receive(5)
            let count = Self.integer(head[1...])
            // A row may be too long; anything else of such a length is nothing that PostgreSQL says.
            guard count >= 4, count <= Limits.serverAnswerBytesMax || head[0] == UInt8(ascii: "D") else { throw Self.strange }
            let body = try connection.receive(count - 4)
            switch head[0] {
            // Parameters of the session, the key to cancel with, remarks.
            case UInt8(ascii: "S"), UInt8(ascii: "K"), UInt8(ascii: "N"), UInt8(ascii: "A"): continue
            case UInt8(ascii: "E"): throw Self.failure(body)
            default: return (head[0], body)
            }
        }
    }

    /// What the database says of it: fields of a letter and a text.
    private static func failure(_ body: [UInt8]) -> SourceFailure {
        var fields: [UInt8: String] = [:]
        for field in body.split(separator: 0) {
            guard let kind = field.first else { continue }
            fields[kind] = String(decoding: field.dropFirst(), as: UTF8.self)
        }
        let code = fields[UInt8(ascii: "C")] ?? ""
        let words = "answers \(StrangersText.shown(fields[UInt8(ascii: "M")] ?? "")) (\(StrangersText.shown(code)))"
        // The login, a database that is not there, one that ends or has no room, connections: not what was asked.
        return SourceFailure(words, isLost: ["28", "3D", "53", "57", "08"].contains { code.hasPrefix($0) })
    }

    private static let strange = SourceFailure("answers what PostgreSQL does not say", isLost: true)

    private static func frame(_ kind: Character?, _ body: [UInt8]) -> [UInt8] {
        ((kind?.asciiValue).map { [$0] } ?? []) + number(body.count + 4) + body
    }

    private static func text(_ text: String) -> [UInt8] { text.utf8.filter { $0 != 0 } + [0] }

    private static func number(_ value: Int) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) }
    }

    private static func short(_ value: Int) -> [UInt8] {
        [UInt8(truncatingIfNeeded: value >> 8), UInt8(truncatingIfNeeded: value)]
    }

    private static func integer(_ bytes: some Sequence<UInt8>) -> Int {
        Int(Int32(truncatingIfNeeded: bytes.reduce(0) { $0 << 8 | Int($1) }))
    }
}

/// A database of PostgreSQL's: asked by the queries of its owner, each with the types that the database finds.
final class PostgreSQLDatabase: SQLDatabase {
    let identity: String
    private let access: ServerAccess<PostgreSQLConnection>

    /// Throws what is wrong with the files of TLS.
    init(_ settings: PostgreSQLSettings, workers: WorkerPool) throws(TLSFailure) {
        identity = "\(settings.host) \(settings.port) \(settings.database) \(settings.user)"
        let tls = try settings.tlsContext()
        access = ServerAccess { deadline throws(SourceFailure) in
            try PostgreSQLConnection(
                ServerConnection(to: settings.address, deadline: deadline, workers: workers), settings, tls: tls)
        }
    }

    func texts(
        _ query: String, _ userName: [UInt8], _ access: Int64?, deadline: UInt64
    ) throws(SourceFailure) -> [String] {
        let parameters = [userName] + (access.map { [Array(String($0).utf8)] } ?? [])
        let rows = try self.access.ask(deadline: deadline) { (connection) throws(SourceFailure) in
            try connection.rows(query, parameters, rowsMax: Limits.topicsOfUserMax + 1, deadline: deadline)
        }
        guard rows.count <= Limits.topicsOfUserMax else {
            throw SourceFailure("gives more than \(Limits.topicsOfUserMax) topics of a user")
        }
        return rows.compactMap { $0.map { String(decoding: $0, as: UTF8.self) } }
    }
}
