internal import BrokerModel
public import MQTTCodec
internal import Platform
internal import RowStore
public import Security
public import Transports

/// Logins whose users stand in a database that belongs to somebody else, as mosquitto-go-auth's back ends have them.
///
///     the user's hash ─► none: unknown          of the password? ─► refused, or let in        of no form: refused
///     superuser ─► no rule binds the client
///     topics that it may receive (1), publish to (2) and subscribe to (4)
///
/// All of it is asked away from the loops, once a login: nothing is asked on the way of a message. For any thread.
public final class DatabaseLoginSource: LoginSource {
    /// What a database is asked that has a language of its own. A query's parameters are `$1` and `$2`, with SQLite `?`
    /// too.
    public struct Queries: Sendable, Equatable {
        /// Gives a hash of the user's password. Parameter: the user's name.
        public var user: String
        /// Gives a number, more than 0 for whom no rule binds. Parameter: the user's name.
        public var superuser: String?
        /// Gives topic filters, in which `%u` and `%c` stand for the client. Parameters: the user's name, and 1 to
        /// receive, 2 to publish, 4 to subscribe. Without it the listener's rules hold.
        public var access: String?

        public init(user: String, superuser: String? = nil, access: String? = nil) {
            (self.user, self.superuser, self.access) = (user, superuser, access)
        }
    }

    public let name: String
    private let users: any UserDatabase
    private let timeoutMilliseconds: UInt64
    private let workers: WorkerPool
    private let impossible = StoredPassword.impossible()

    init(_ name: String, _ users: any UserDatabase, timeoutMilliseconds: UInt64 = 5000, workers: WorkerPool) {
        (self.name, self.users, self.timeoutMilliseconds, self.workers) = (name, users, timeoutMilliseconds, workers)
    }

    /// - Parameters:
    ///   - path: of a database of SQLite, which is only read.
    ///   - queries: what is asked.
    ///   - workers: ask.
    public convenience init(sqlite path: String, _ queries: Queries, workers: WorkerPool) {
        self.init("sqlite", QueriedUsers(SQLiteDatabase(path, workers: workers), queries), workers: workers)
    }

    /// Throws what is wrong with the files of TLS.
    ///
    /// - Parameters:
    ///   - settings: where the database is, and who asks.
    ///   - queries: what is asked.
    ///   - workers: wait for the database, and for nothing else.
    public convenience init(
        postgreSQL settings: PostgreSQLSettings, _ queries: Queries, workers: WorkerPool
    ) throws(TLSFailure) {
        self.init(
            "postgresql", QueriedUsers(try PostgreSQLDatabase(settings, workers: workers), queries),
            timeoutMilliseconds: settings.timeoutMilliseconds, workers: workers)
    }

    /// - Parameters:
    ///   - settings: where the server is.
    ///   - asksForSuperusers: whether anybody can be one.
    ///   - asksForTopics: whether its sets of topics bind users.
    ///   - workers: wait for the server, and for nothing else.
    public convenience init(
        redis settings: RedisSettings, asksForSuperusers: Bool, asksForTopics: Bool, workers: WorkerPool
    ) {
        self.init(
            "redis", RedisUsers(settings, asksForSuperusers: asksForSuperusers, asksForTopics: asksForTopics, workers: workers),
            timeoutMilliseconds: settings.timeoutMilliseconds, workers: workers)
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        workers.decide(question, within: timeoutMilliseconds, reply) { [self] userName, password, deadline throws(SourceFailure) in
            try answer(question, userName, password, deadline)
        }
    }

    /// The database is not asked again.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        (earlier as? DatabaseLoginSource).map { $0.name == name && $0.users.identity == users.identity } ?? false
    }

    private func answer(
        _ question: LoginQuestion, _ userName: EncodedString, _ password: [UInt8], _ deadline: UInt64
    ) throws(SourceFailure) -> LoginAnswer {
        let user = userName.bytes
        guard let text = try users.passwordHash(of: user, deadline: deadline) else {
            // Takes as long as a user's who is known.
            if question.isLast, HashTurns.shared.take({ impossible.matches(password) }) == nil { return .busy }
            return .next(.unknownUser)
        }
        // The one user's row is wrong, and not the database.
        guard let stored = StoredPassword(text) else {
            if HashTurns.shared.take({ impossible.matches(password) }) == nil { return .busy }
            return .refused(.reported("its password's hash in the login source \(name) has a form that is not known here"))
        }
        guard let isRight = HashTurns.shared.take({ stored.matches(password) }) else { return .busy }
        guard isRight else { return .refused(.wrongPassword) }
        // What it took to check the password is not the database's time.
        let deadline = MonotonicClock.milliseconds() + timeoutMilliseconds
        if try users.isSuperuser(user, deadline: deadline) {
            return .allowed(userName: userName, LoginGrant(source: name, isSuperuser: true))
        }
        guard let topics = try users.topics(of: user, deadline: deadline) else {
            return .allowed(userName: userName, LoginGrant(source: name))
        }
        return .allowed(
            userName: userName, LoginGrant(source: name, rights: topics.rights(name: name, for: LoginClient(question))))
    }
}

/// The topic filters of a user: what it may receive, publish to and subscribe to.
struct UserTopics: Equatable {
    var receiving: [String] = []
    var sending: [String] = []
    var subscribing: [String] = []

    /// As the core asks them: what none of them grants is refused.
    ///
    /// - Parameter name: what the log calls where they come from.
    func rights(name: String, for client: LoginClient) -> RoleRights {
        // What is no filter fits no topic.
        func rules(_ topics: [String]) -> [RoleRule] {
            topics.compactMap { client.filter($0) }.map { RoleRule($0, allows: true) }
        }
        var (subscribed, unsubscribed) = (RoleRules.Filters(), RoleRules.Filters())
        subscribed.patterns = rules(subscribing)
        if let all = AccessFilter("#".utf8, isPattern: false) { unsubscribed.patterns = [RoleRule(all, allows: true)] }
        let role = RoleRules(
            name: EncodedString(name) ?? EncodedString(), allowsWildcards: true, sending: rules(sending),
            receiving: rules(receiving), subscribing: subscribed, unsubscribing: unsubscribed, judgesSharedByTopics: true)
        var defaults = RoleRights.Defaults()
        defaults.receives = false
        return RoleRights(roles: [role], defaults: defaults)
    }

    /// Throws where there are too many of a kind.
    func checked() throws(SourceFailure) -> UserTopics {
        guard max(receiving.count, sending.count, subscribing.count) <= Limits.topicsOfUserMax else {
            throw SourceFailure("gives more than \(Limits.topicsOfUserMax) topics of a user")
        }
        return self
    }
}

/// Lets as many hashes be computed at the same time as there are processors: one may need fifty megabytes, and more
/// threads wait for databases than that.
private final class HashTurns: Sendable {
    static let shared = HashTurns()
    private let monitor = Monitor()
    private let free = Locked(ProcessorCount.usable())

    func take(_ work: () -> Bool?) -> Bool? {
        monitor.withLock {
            while free.value < 1 { monitor.wait() }
            free.withLock { $0 -= 1 }
        }
        defer {
            monitor.withLock {
                free.withLock { $0 += 1 }
                monitor.signal()
            }
        }
        return work()
    }
}

/// Users as a database has them. For any thread.
protocol UserDatabase: AnyObject, Sendable {
    /// Which users they are: the same of two where they are the same.
    var identity: String { get }

    /// nil for a user that is not there.
    func passwordHash(of user: [UInt8], deadline: UInt64) throws(SourceFailure) -> String?

    func isSuperuser(_ user: [UInt8], deadline: UInt64) throws(SourceFailure) -> Bool

    /// nil where the database says nothing of topics, and the listener's rules hold.
    func topics(of user: [UInt8], deadline: UInt64) throws(SourceFailure) -> UserTopics?
}

/// Users whom a database finds by queries.
final class QueriedUsers: UserDatabase {
    let identity: String
    private let database: any SQLDatabase
    private let queries: DatabaseLoginSource.Queries

    init(_ database: any SQLDatabase, _ queries: DatabaseLoginSource.Queries) {
        (self.database, self.queries) = (database, queries)
        identity = "\(database.identity)\n\(queries)"
    }

    func passwordHash(of user: [UInt8], deadline: UInt64) throws(SourceFailure) -> String? {
        try database.texts(queries.user, user, nil, deadline: deadline).first
    }

    func isSuperuser(_ user: [UInt8], deadline: UInt64) throws(SourceFailure) -> Bool {
        guard let query = queries.superuser else { return false }
        return (try database.texts(query, user, nil, deadline: deadline).first.flatMap { Int($0) } ?? 0) > 0
    }

    func topics(of user: [UInt8], deadline: UInt64) throws(SourceFailure) -> UserTopics? {
        guard let query = queries.access else { return nil }
        return try UserTopics(
            receiving: database.texts(query, user, 1, deadline: deadline),
            sending: database.texts(query, user, 2, deadline: deadline),
            subscribing: database.texts(query, user, 4, deadline: deadline)
        ).checked()
    }
}

/// A database that is asked in SQL. For any thread.
protocol SQLDatabase: AnyObject, Sendable {
    /// Which one it is.
    var identity: String { get }

    /// The first column of the rows that a query gives, as texts; without those that are NULL.
    ///
    /// - Parameters:
    ///   - query: in the database's language.
    ///   - userName: its first parameter, UTF-8.
    ///   - access: its second one; nil for a query with one.
    ///   - deadline: milliseconds of the monotonic clock.
    func texts(
        _ query: String, _ userName: [UInt8], _ access: Int64?, deadline: UInt64
    ) throws(SourceFailure) -> [String]
}

/// A database of SQLite, which others write; one thread asks it at a time. It is opened when it is first asked, and
/// anew after an error.
final class SQLiteDatabase: SQLDatabase {
    let identity: String
    private let connection = Locked<SQLiteConnection?>(nil)
    private let workers: WorkerPool

    /// - Parameters:
    ///   - path: of the file.
    ///   - workers: whose threads wait for those who write it; when they end, nothing is waited for any more.
    init(_ path: String, workers: WorkerPool) { (identity, self.workers) = (path, workers) }

    func texts(
        _ query: String, _ userName: [UInt8], _ access: Int64?, deadline: UInt64
    ) throws(SourceFailure) -> [String] {
        try connection.withLock { connection throws(SourceFailure) in
            // Whoever was asked for before may have waited for somebody who writes.
            guard MonotonicClock.milliseconds() < deadline else { throw SourceFailure("does not answer in time") }
            while true {
                do throws(SQLiteError) {
                    let open: SQLiteConnection
                    if let connection { open = connection } else { open = try SQLiteConnection(identity, .read) }
                    connection = open
                    open.setPatience(milliseconds: Int32(clamping: Limits.serverWaitMilliseconds))
                    return try Self.texts(open, query, userName, access)
                } catch {
                    let isLocked = error.code & 0xFF == Self.busy
                    if isLocked, MonotonicClock.milliseconds() < deadline, !workers.isEnding { continue }
                    connection = nil
                    throw SourceFailure("cannot be read: \(error)")
                }
            }
        }
    }

    /// SQLITE_BUSY: somebody writes.
    private static let busy: Int32 = 5

    private static func texts(
        _ connection: SQLiteConnection, _ query: String, _ userName: [UInt8], _ access: Int64?
    ) throws(SQLiteError) -> [String] {
        let statement = try connection.prepare(query)
        statement.bind(text: userName, at: 1)
        if let access { statement.bind(access, at: 2) }
        var texts: [String] = []
        while texts.count <= Limits.topicsOfUserMax, try statement.step() {
            if let bytes = statement.content(0) { texts.append(String(decoding: bytes, as: UTF8.self)) }
        }
        return texts
    }
}
