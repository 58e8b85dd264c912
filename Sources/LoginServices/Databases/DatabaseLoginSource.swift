internal import BrokerModel
public import MQTTCodec
internal import Platform
internal import RowStore
public import Security

/// Logins whose users stand in a database that belongs to somebody else, asked by that one's own queries, as
/// mosquitto-go-auth's back ends have them.
///
///     user query (name) ─► no row: unknown          a hash ─► the password's? refused, or let in
///     superuser query (name) ─► more than 0: no rule binds the client
///     access query (name, 1, 2 and 4) ─► topics that it may receive, publish to and subscribe to
///
/// All of it is asked on the worker pool, once a login: nothing is asked on the way of a message. For any thread.
public final class DatabaseLoginSource: LoginSource {
    /// What is asked. A query's parameters are `?`, or `$1` and `$2`.
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
    private let database: any UserDatabase
    private let queries: Queries
    private let workers: WorkerPool
    private let impossible = StoredPassword.impossible()

    package init(_ name: String, _ database: any UserDatabase, _ queries: Queries, workers: WorkerPool) {
        (self.name, self.database, self.queries, self.workers) = (name, database, queries, workers)
    }

    /// - Parameters:
    ///   - path: of a database of SQLite, which is only read.
    ///   - queries: what is asked.
    ///   - workers: ask.
    public convenience init(sqlite path: String, _ queries: Queries, workers: WorkerPool) {
        self.init("sqlite", SQLiteUserDatabase(path), queries, workers: workers)
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let userName = question.userName, let password = question.password, !password.isEmpty else {
            reply(.next(question.userName == nil ? .noUserName : .noPassword))
            return nil
        }
        let check = PasswordCheck(of: question.subject) { [self] in
            do throws(UserDatabaseError) {
                reply(try answer(question, userName, password))
            } catch {
                reply(.failed(error.description))
            }
        } refuse: {
            reply(.busy)
        }
        workers.submit(check)
        return check
    }

    /// The database is not asked again.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        (earlier as? DatabaseLoginSource).map { $0.name == name && $0.queries == queries && $0.database.path == database.path }
            ?? false
    }

    private func answer(
        _ question: LoginQuestion, _ userName: EncodedString, _ password: [UInt8]
    ) throws(UserDatabaseError) -> LoginAnswer {
        guard let text = try database.texts(queries.user, userName.bytes, nil).first else {
            // Takes as long as a user's who is known.
            if question.isLast, impossible.matches(password) == nil { return .busy }
            return .next(.unknownUser)
        }
        guard let stored = StoredPassword(text) else {
            throw UserDatabaseError("has a password's hash of a form that is not known here")
        }
        guard let isRight = stored.matches(password) else { return .busy }
        guard isRight else { return .refused(.wrongPassword) }
        if let query = queries.superuser, let count = try database.texts(query, userName.bytes, nil).first, (Int(count) ?? 0) > 0 {
            return .allowed(userName: userName, LoginGrant(source: name, isSuperuser: true))
        }
        guard let query = queries.access else { return .allowed(userName: userName, LoginGrant(source: name)) }
        let client = LoginClient(question)
        func rules(_ access: Int64) throws(UserDatabaseError) -> [RoleRule] {
            let topics = try database.texts(query, userName.bytes, access)
            guard topics.count <= Limits.topicsOfUserMax else {
                throw UserDatabaseError("gives more than \(Limits.topicsOfUserMax) topics of a user")
            }
            // What is no filter fits no topic.
            return topics.compactMap { client.filter($0) }.map { RoleRule($0, allows: true) }
        }
        var (subscribing, unsubscribing) = (RoleRules.Filters(), RoleRules.Filters())
        subscribing.patterns = try rules(4)
        if let all = AccessFilter("#".utf8, isPattern: false) { unsubscribing.patterns = [RoleRule(all, allows: true)] }
        let role = RoleRules(
            name: EncodedString(name) ?? EncodedString(), allowsWildcards: true, sending: try rules(2), receiving: try rules(1),
            subscribing: subscribing, unsubscribing: unsubscribing)
        var defaults = RoleRights.Defaults()
        defaults.receives = false
        return .allowed(
            userName: userName, LoginGrant(source: name, rights: RoleRights(roles: [role], defaults: defaults)))
    }
}

/// A database of users. For any thread, one of which asks at a time.
package protocol UserDatabase: AnyObject, Sendable {
    /// What the configuration calls it.
    var path: String { get }

    /// The first column of the rows that a query gives, as texts; without those that are NULL.
    ///
    /// - Parameters:
    ///   - query: in the database's language.
    ///   - userName: its first parameter, UTF-8.
    ///   - access: its second one; nil for a query with one.
    func texts(_ query: String, _ userName: [UInt8], _ access: Int64?) throws(UserDatabaseError) -> [String]
}

/// Why a database cannot say anything, in words that follow the name of the source: `cannot be read: …`.
package struct UserDatabaseError: Error, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// A database of SQLite, which others write. It is opened when it is first asked, and anew after an error.
final class SQLiteUserDatabase: UserDatabase {
    let path: String
    private let connection = Locked<SQLiteConnection?>(nil)

    init(_ path: String) { self.path = path }

    func texts(_ query: String, _ userName: [UInt8], _ access: Int64?) throws(UserDatabaseError) -> [String] {
        try connection.withLock { connection throws(UserDatabaseError) in
            do throws(SQLiteError) {
                let open: SQLiteConnection
                if let connection { open = connection } else { open = try SQLiteConnection(path, .read) }
                connection = open
                return try Self.texts(open, query, userName, access)
            } catch {
                connection = nil
                throw UserDatabaseError("cannot be read: \(error)")
            }
        }
    }

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
