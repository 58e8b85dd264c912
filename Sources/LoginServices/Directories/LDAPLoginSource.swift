public import BrokerModel
public import MQTTCodec
internal import Platform
public import Security
internal import Transports

/// What it takes to ask a directory about logins.
public struct LDAPSettings: Sendable, Equatable {
    /// `ldap://HOST:PORT`, `ldaps://…`, or `ldapi://` and the path of a Unix socket, percent-encoded.
    public var url: String
    /// Whether TLS begins on the connection that an `ldap://` has made.
    public var startsTLS = false
    public var authoritiesFile: String?
    public var certificateFile: String?
    public var keyFile: String?
    /// As whom the broker asks; nil for nobody, or where users ask themselves.
    public var broker: (entry: String, password: String)?
    /// Below which entry users are; or, with `%u` in it, the name of a user's entry.
    public var userEntry: String
    public var userFilter = "(uid=%u)"
    /// The attribute that the directory compares with the password; nil for a login as the user.
    public var comparedAttribute: String?
    public var superuserFilter: String?
    public var groupEntry: String?
    public var groupFilter = "(member=%d)"
    /// The attribute of a group with the name of a role of dynamic security.
    public var roleAttribute: String?
    /// The attribute of a group with topic filters.
    public var topicAttribute: String?
    /// The attribute of a group with what its topics are for: the sum of 1 to receive, 2 to publish, 4 to subscribe.
    public var accessAttribute: String?
    public var timeoutMilliseconds: UInt64 = 5000

    public init(url: String, userEntry: String) { (self.url, self.userEntry) = (url, userEntry) }

    public static func == (left: LDAPSettings, right: LDAPSettings) -> Bool {
        left.fields == right.fields && left.startsTLS == right.startsTLS && left.broker?.entry == right.broker?.entry
            && left.broker?.password == right.broker?.password && left.timeoutMilliseconds == right.timeoutMilliseconds
    }

    private var fields: [String?] {
        [
            url, authoritiesFile, certificateFile, keyFile, userEntry, userFilter, comparedAttribute, superuserFilter, groupEntry,
            groupFilter, roleAttribute, topicAttribute, accessAttribute,
        ]
    }

    var address: ServerAddress { location?.address ?? .host("", port: 0) }

    /// Where the URL leads to; nil if it is none.
    fileprivate var location: (address: ServerAddress, usesTLS: Bool)? {
        for (scheme, port, usesTLS) in [("ldap://", UInt16(389), false), ("ldaps://", UInt16(636), true)]
        where url.lowercased().hasPrefix(scheme) {
            var authority = url.dropFirst(scheme.utf8.count)
            if authority.hasSuffix("/") { authority = authority.dropLast() }
            var name = authority
            var digits: Substring?
            if authority.first == "[", let close = authority.firstIndex(of: "]") {
                name = authority[authority.index(after: authority.startIndex)..<close]
                let behind = authority[authority.index(after: close)...]
                guard behind.isEmpty || behind.first == ":" else { return nil }
                if !behind.isEmpty { digits = behind.dropFirst() }
            } else if let colon = authority.firstIndex(of: ":") {
                (name, digits) = (authority[..<colon], authority[authority.index(after: colon)...])
            }
            guard !name.isEmpty, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !name.contains("/"), !name.contains("?") else {
                return nil
            }
            let number = digits.map { UInt16($0) ?? 0 } ?? port
            guard number > 0 else { return nil }
            return (.host(String(name), port: number), usesTLS)
        }
        guard url.lowercased().hasPrefix("ldapi://") else { return nil }
        let path = String(url.dropFirst("ldapi://".utf8.count)).replacing(every: "%2F", by: "/").replacing(every: "%2f", by: "/")
        return path.hasPrefix("/") ? (.path(path), false) : nil
    }

    fileprivate func tlsContext() throws(TLSFailure) -> TLSClientContext? {
        guard let location, case .host(let host, _) = location.address, location.usesTLS || startsTLS else { return nil }
        var tls = TLSClientSettings(serverName: host)
        (tls.authoritiesFile, tls.certificateFile, tls.keyFile) = (authoritiesFile, certificateFile, keyFile)
        return try TLSClientContext(tls)
    }
}

/// Why a directory cannot be asked as it is configured.
public struct LDAPSettingsError: Error, Sendable {
    /// The option that is at fault, without what all of them begin with: `user_filter`.
    public let option: String
    public let value: String
    /// What is wrong, to follow the value.
    public let reason: String
}

/// Logins that a directory decides (LDAP 3): by a login as the user, or by a comparison.
///
///     find the user's entry ─► none, several: unknown        or its name is known by a pattern
///     how it is spelled     ─► otherwise: unknown            with a pattern after the login
///     log in as that entry  ─► invalid credentials: refused
///     superuser filter      ─► fits: no rule binds the client
///     groups that have the user ─► roles, and topics
///
/// Referrals are not followed. For any thread.
public final class LDAPLoginSource: LoginSource {
    /// From names of roles of dynamic security to their rules.
    public typealias RoleLookup = @Sendable ([EncodedString]) -> [RoleRules]

    public let name = "ldap"
    private let settings: LDAPSettings
    private let userEntry: LDAPTemplate
    private let userFilter: LDAPFilter
    private let superuserFilter: LDAPFilter?
    private let groupFilter: LDAPFilter
    private let naming: LDAPNaming
    private let roles: RoleLookup?
    private let access: ServerAccess<LDAPConnection>
    private let workers: WorkerPool

    /// Throws what is wrong with a setting.
    ///
    /// - Parameters:
    ///   - settings: where the directory is, and what it is asked.
    ///   - roles: of dynamic security; nil without it.
    ///   - workers: wait for the directory, and for nothing else.
    public init(_ settings: LDAPSettings, roles: RoleLookup?, workers: WorkerPool) throws(LDAPSettingsError) {
        func filter(_ option: String, _ text: String) throws(LDAPSettingsError) -> LDAPFilter {
            do throws(LDAPTextError) {
                return try LDAPFilter(text)
            } catch {
                throw LDAPSettingsError(option: option, value: text, reason: "is no filter of LDAP: \(error.words)")
            }
        }
        func checkAttribute(_ option: String, _ name: String?) throws(LDAPSettingsError) {
            guard let name, !LDAPAttribute.isName(name) else { return }
            throw LDAPSettingsError(option: option, value: name, reason: "is no name of an attribute")
        }
        guard settings.location != nil else {
            throw LDAPSettingsError(
                option: "url", value: settings.url,
                reason:
                    "is no address of a directory; expected ldap://HOST or ldaps://HOST, perhaps with :PORT, or ldapi:// and a path"
            )
        }
        (self.settings, self.roles, self.workers) = (settings, roles, workers)
        userEntry = LDAPTemplate(Array(settings.userEntry.utf8))
        userFilter = try filter("user_filter", settings.userFilter)
        naming = userEntry.namesUser ? LDAPNaming(ofEntry: Array(settings.userEntry.utf8)) : LDAPNaming(userFilter)
        groupFilter = try filter("group_filter", settings.groupFilter)
        if let text = settings.superuserFilter {
            superuserFilter = try filter("superuser_filter", text)
        } else {
            superuserFilter = nil
        }
        try checkAttribute("role_attribute", settings.roleAttribute)
        try checkAttribute("topic_attribute", settings.topicAttribute)
        try checkAttribute("access_attribute", settings.accessAttribute)
        try checkAttribute("compare_attribute", settings.comparedAttribute)
        do throws(TLSFailure) {
            let tls = try settings.tlsContext()
            access = ServerAccess { deadline throws(SourceFailure) in
                try LDAPConnection(
                    ServerConnection(to: settings.address, deadline: deadline, workers: workers), tls: tls,
                    startsTLS: settings.startsTLS)
            }
        } catch {
            throw LDAPSettingsError(option: error.option, value: error.value, reason: error.reason)
        }
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        workers.decide(question, within: settings.timeoutMilliseconds, reply) {
            [self] userName, password, deadline throws(SourceFailure) in
            // A login without a name is one of nobody.
            if userName.isEmpty { return .next(.noUserName) }
            return try access.ask(deadline: deadline) { (connection) throws(SourceFailure) in
                connection.begin(deadline: deadline)
                return try answer(question, userName, password, connection)
            }
        }
    }

    /// The directory is not asked again.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        (earlier as? LDAPLoginSource)?.settings == settings
    }

    private func answer(
        _ question: LoginQuestion, _ userName: EncodedString, _ password: [UInt8], _ connection: LDAPConnection
    ) throws(SourceFailure) -> LoginAnswer {
        var login = LDAPLogin(user: userName.bytes)
        if userEntry.namesUser {
            login.entry = userEntry.entryName(for: login)
        } else {
            try becomeBroker(connection)
            let found = try entries(
                connection, settings.userEntry, userFilter, login, attributes: naming.attributes, countMax: 2,
                "the search for the user")
            guard found.count < 2 else { return .next(.reported("several entries of the directory have its name")) }
            guard let entry = found.first else { return .next(.unknownUser) }
            if let refusal = naming.refusal(of: login, entry) { return .next(refusal) }
            login.entry = entry.name
        }
        if let refusal = try proof(of: login, password, connection) { return refusal }
        if settings.broker != nil { try becomeBroker(connection) }
        if userEntry.namesUser, let refusal = naming.refusal(of: login, try ownEntry(of: login, connection)) {
            return .next(refusal)
        }
        if let superuserFilter {
            let isPattern = userEntry.namesUser
            let found = try entries(
                connection, isPattern ? login.entry : settings.userEntry, isOne: isPattern, superuserFilter, login, attributes: [],
                countMax: 2, "the search for superusers")
            if found.count == 1 { return .allowed(userName: userName, LoginGrant(source: name, isSuperuser: true)) }
        }
        return .allowed(userName: userName, LoginGrant(source: name, rights: try rights(question, login, connection)))
    }

    /// Whether the password is the user's: nil if it is, else what is answered.
    private func proof(
        of login: LDAPLogin, _ password: [UInt8], _ connection: LDAPConnection
    ) throws(SourceFailure) -> LoginAnswer? {
        // Of an entry that a pattern names, nobody knows whether it is there.
        let unproved: LoginAnswer =
            userEntry.namesUser
            ? .next(.reported("the directory does not accept the user name and password")) : .refused(.wrongPassword)
        if let attribute = settings.comparedAttribute {
            if userEntry.namesUser { try becomeBroker(connection) }
            let result = try connection.compare(login.entry, attribute, password)
            switch result.code {
            case LDAPResult.compareTrue: return nil
            case 5, LDAPResult.noSuchAttribute: return unproved
            case LDAPResult.noSuchObject: return .next(.unknownUser)
            default: throw result.failure("the comparison of the password")
            }
        }
        let result = try connection.bind(login.entry, password: password)
        switch result.code {
        case LDAPResult.success: return nil
        case LDAPResult.invalidCredentials, LDAPResult.inappropriateAuthentication: return unproved
        case LDAPResult.noSuchObject, 34: return .next(.unknownUser)
        // The directory's own rules: an account that is locked, a password that has to be changed.
        case 19, 50, 53:
            return .refused(.reported("the directory refuses the login: \(result.failure("it"))"))
        default: throw result.failure("the user's login")
        }
    }

    /// The entry that a pattern has named; nil where whoever asks may not see it.
    private func ownEntry(of login: LDAPLogin, _ connection: LDAPConnection) throws(SourceFailure) -> LDAPEntry? {
        guard !naming.attributes.isEmpty else { return nil }
        let found = try connection.search(
            login.entry, isOne: true, LDAPFilter.present("objectClass").encoded(for: login), attributes: naming.attributes,
            countMax: 1)
        let failure = found.result.failure("the search for the user")
        if failure.isLost { throw failure }
        return found.entries.first
    }

    /// Asks as the broker; as nobody, where it has no login.
    private func becomeBroker(_ connection: LDAPConnection) throws(SourceFailure) {
        if let broker = settings.broker {
            try connection.become(broker.entry, password: Array(broker.password.utf8))
        } else {
            try connection.becomeAnonymous()
        }
    }

    /// nil where the directory says nothing of rights.
    private func rights(
        _ question: LoginQuestion, _ login: LDAPLogin, _ connection: LDAPConnection
    ) throws(SourceFailure) -> RoleRights? {
        let attributes = [settings.roleAttribute, settings.topicAttribute, settings.accessAttribute].compactMap { $0 }
        guard let base = settings.groupEntry, settings.roleAttribute != nil || settings.topicAttribute != nil else { return nil }
        let groups = try entries(
            connection, base, groupFilter, login, attributes: attributes, countMax: Limits.groupsMax, "the search for groups")
        var topics = UserTopics()
        for group in groups {
            guard let attribute = settings.topicAttribute else { break }
            let sum = settings.accessAttribute.flatMap { group.values($0).first }
            // A group without the attribute allows all three.
            let allowed = sum.map { Int($0) ?? 0 } ?? 7
            let filters = group.values(attribute)
            if allowed & 1 != 0 { topics.receiving += filters }
            if allowed & 2 != 0 { topics.sending += filters }
            if allowed & 4 != 0 { topics.subscribing += filters }
        }
        let ofTopics = try topics.checked().rights(name: name, for: LoginClient(question))
        guard let attribute = settings.roleAttribute, let roles else { return ofTopics }
        let named = roles(groups.flatMap { $0.values(attribute) }.compactMap { EncodedString($0) })
        return RoleRights(roles: (settings.topicAttribute == nil ? [] : ofTopics.roles) + named, defaults: ofTopics.defaults)
    }

    /// The entries that a filter fits; none where the place of the search is not there.
    private func entries(
        _ connection: LDAPConnection, _ base: String, isOne: Bool = false, _ filter: LDAPFilter, _ login: LDAPLogin,
        attributes: [String], countMax: Int, _ operation: String
    ) throws(SourceFailure) -> [LDAPEntry] {
        let found = try connection.search(
            base, isOne: isOne, filter.encoded(for: login), attributes: attributes, countMax: countMax)
        switch found.result.code {
        case LDAPResult.success: return found.entries
        // More than were asked for are as many as are asked for.
        case LDAPResult.sizeLimitExceeded where found.entries.count == countMax && countMax == 2: return found.entries
        case LDAPResult.noSuchObject: return []
        default: throw found.result.failure(operation)
        }
    }
}

extension Limits {
    /// Groups of a directory that a user is in; more are a failure of the directory. Bytes: `serverAnswerBytesMax` in
    /// all.
    static let groupsMax = 1000
}
