public import BrokerModel
public import MQTTCodec
import Platform

/// The users who may log in by dynamic security, and their rights: asked by the loops when a client connects, changed
/// by the control thread.
///
/// A role that changes is one entry, however many have it. For any thread; nobody waits for longer than a few entries
/// take to change.
public final class SecurityDirectory: RoleSource {
    /// What a login needs of a client.
    struct Entry: Sendable {
        var clientIdentifier: EncodedString?
        var isDisabled = false
        var password: StoredPassword?
        var roles: [EncodedString] = []
        var groups: [EncodedString] = []
        var mountPoint: MountPoint?

        init(_ client: SecurityModel.Client) {
            (clientIdentifier, isDisabled, password) = (client.clientIdentifier, client.isDisabled, client.password)
            (roles, groups) = (client.roles.entries.map(\.name), client.groups.entries.map(\.name))
            mountPoint = client.mountPoint
        }
    }

    private struct State: Sendable {
        var users: [EncodedString: Entry] = [:]
        /// The roles of each group.
        var groups: [EncodedString: [EncodedString]] = [:]
        var roles: [EncodedString: RoleRules] = [:]
        /// Of the groups and the roles that have one.
        var groupMountPoints: [EncodedString: MountPoint] = [:]
        var roleMountPoints: [EncodedString: MountPoint] = [:]
        var anonymousGroup: EncodedString?
        var defaults = RoleRights.Defaults()
    }

    private let state: Locked<State>

    public init(_ model: SecurityModel) {
        var state = State()
        for name in model.clients.names { state.users[name] = model.clients[name].map { Entry($0) } }
        for name in model.groups.names {
            state.groups[name] = model.groups[name]?.roles.entries.map(\.name)
            state.groupMountPoints[name] = model.groups[name]?.mountPoint
        }
        for name in model.roles.names {
            state.roles[name] = model.roles[name]?.compiled(name: name)
            state.roleMountPoints[name] = model.roles[name]?.mountPoint
        }
        (state.anonymousGroup, state.defaults) = (model.anonymousGroup, model.defaults)
        self.state = Locked(state)
    }

    /// Takes over what has changed.
    public func apply(_ changes: SecurityChanges, of model: SecurityModel) {
        let roles = changes.roles.map { ($0, model.roles[$0]?.compiled(name: $0)) }
        let groups = changes.groups.map { ($0, model.groups[$0]?.roles.entries.map(\.name)) }
        state.withLock { state in
            for (name, rules) in roles {
                state.roles[name] = rules
                state.roleMountPoints[name] = model.roles[name]?.mountPoint
            }
            for (name, roles) in groups {
                state.groups[name] = roles
                state.groupMountPoints[name] = model.groups[name]?.mountPoint
            }
            (state.anonymousGroup, state.defaults) = (model.anonymousGroup, model.defaults)
        }
        let clients = changes.clients.map { ($0, model.clients[$0].map { Entry($0) }) }
        for start in stride(from: 0, to: clients.count, by: Limits.entriesPerLock) {
            state.withLock { state in
                for (name, entry) in clients[start..<min(start + Limits.entriesPerLock, clients.count)] {
                    state.users[name] = entry
                }
            }
        }
    }

    public func rights(of userName: EncodedString?) -> RoleRights? { rights(of: userName, in: AccessMemberships()) }

    public func rights(of userName: EncodedString?, in memberships: AccessMemberships) -> RoleRights? {
        state.withLock { state in
            var names: [EncodedString] = []
            let entry = userName.flatMap { state.users[$0] }
            if userName != nil, entry == nil, memberships.isEmpty { return nil }
            if let entry {
                // Who comes in by another login than a password is asked nothing else.
                guard !entry.isDisabled else {
                    var nothing = RoleRights.Defaults()
                    (nothing.receives, nothing.unsubscribes) = (false, false)
                    return RoleRights(roles: [], defaults: nothing)
                }
                names = entry.roles
                for group in entry.groups { names += state.groups[group] ?? [] }
            } else if userName == nil, let group = state.anonymousGroup {
                names = state.groups[group] ?? []
            }
            names += memberships.roles
            for group in memberships.groups { names += state.groups[group] ?? [] }
            return RoleRights(roles: names.compactMap { state.roles[$0] }, defaults: state.defaults)
        }
    }

    /// The user's own; else that of the first group that has one, in their order; else of the first role.
    public func mountPoint(of userName: EncodedString?, in memberships: AccessMemberships) -> MountPoint? {
        state.withLock { state in
            let entry = userName.flatMap { state.users[$0] }
            if let own = entry?.mountPoint { return own }
            if state.groupMountPoints.isEmpty, state.roleMountPoints.isEmpty { return nil }
            var groups = entry?.groups ?? []
            if userName == nil, let group = state.anonymousGroup { groups.append(group) }
            groups += memberships.groups
            for group in groups { if let found = state.groupMountPoints[group] { return found } }
            let roles = (entry?.roles ?? []) + memberships.roles + groups.flatMap { state.groups[$0] ?? [] }
            for role in roles { if let found = state.roleMountPoints[role] { return found } }
            return nil
        }
    }

    /// The rules of roles by their names, for a login that says which roles it has; those that are not there are left
    /// out. What a role becomes later holds for the next login.
    public func rules(ofRoles names: [EncodedString]) -> [RoleRules] {
        state.withLock { state in names.compactMap { state.roles[$0] } }
    }

    func entry(of userName: EncodedString) -> Entry? { state.withLock { $0.users[userName] } }

    /// Calls `accept` if a login is still good whose password was checked: the user is there, has the same password and
    /// may come in. Whoever changes that meanwhile waits, so that it ends the connections of the login too.
    ///
    /// - Returns: whether it is.
    func confirm(
        _ userName: EncodedString, _ password: StoredPassword, _ clientIdentifier: EncodedString, _ accept: () -> Void
    ) -> Bool {
        state.withLock { state in
            guard let entry = state.users[userName], !entry.isDisabled, entry.password == password,
                entry.clientIdentifier.map({ $0 == clientIdentifier }) ?? true
            else { return false }
            accept()
            return true
        }
    }
}

/// The users of a password file and of dynamic security, for whom a certificate may speak.
public struct KnownUsers: UserDirectory {
    private let passwords: PasswordFile?
    private let directory: SecurityDirectory?

    /// - Parameters:
    ///   - passwords: nil without a file.
    ///   - directory: asked first; nil without dynamic security.
    public init(passwords: PasswordFile?, directory: SecurityDirectory?) {
        (self.passwords, self.directory) = (passwords, directory)
    }

    public func isKnown(_ userName: EncodedString) -> Bool {
        if let entry = directory?.entry(of: userName) { return !entry.isDisabled }
        return passwords?.knows(userName) ?? false
    }
}

/// Checks user names and passwords by dynamic security, and leaves users that it does not know to whoever is asked
/// next.
///
///     no name or no password, or an unknown user ─► the next, or refused
///     disabled, another Client Identifier, a wrong password ─► refused
public final class DirectoryAuthenticator: Authenticator, LoginSource {
    public let name = "dynamic_security"
    private let directory: SecurityDirectory
    private let next: (any Authenticator)?
    private let workers: WorkerPool
    /// What an unknown user's password is checked against, so that it takes as long as a known one's.
    private let impossible = StoredPassword.impossible()

    public init(directory: SecurityDirectory, next: (any Authenticator)?, workers: WorkerPool) {
        (self.directory, self.next, self.workers) = (directory, next, workers)
    }

    public func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        guard case .password(let userName, let password) = request.step, let userName, let password else {
            if let next { return next.authenticate(request, as: subject, reply: reply) }
            var hasName = false
            if case .password(_?, _) = request.step { hasName = true }
            reply(.refused(.notAuthorized, because: hasName ? .noPassword : .noUserName))
            return nil
        }
        let entry = directory.entry(of: userName)
        if entry == nil, let next { return next.authenticate(request, as: subject, reply: reply) }
        return check(entry, userName, password, request.clientIdentifier, subject) { answer in
            switch answer {
            case .allowed(let userName, _): reply(.accepted(userName: userName, data: nil))
            case .refused(let failure), .next(let failure): reply(.refused(.notAuthorized, because: failure))
            case .busy, .failed: reply(.refused(.serverBusy, because: .tooManyLogins))
            }
        }
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let userName = question.userName, let password = question.password else {
            reply(.next(question.userName == nil ? .noUserName : .noPassword))
            return nil
        }
        let entry = directory.entry(of: userName)
        guard entry != nil || question.isLast else {
            reply(.next(.unknownUser))
            return nil
        }
        return check(entry, userName, password, question.clientIdentifier, question.subject, reply)
    }

    /// Has the password checked of a user, or of one who is not known, which takes as long.
    private func check(
        _ entry: SecurityDirectory.Entry?, _ userName: EncodedString, _ password: [UInt8], _ clientIdentifier: EncodedString,
        _ subject: LoginSubject, _ reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> PasswordCheck {
        let known = entry?.password
        let check = PasswordCheck(of: subject) { [directory, impossible, name] in
            switch (known ?? impossible).matches(password) {
            case true?:
                let isGood = known.map { known in
                    directory.confirm(userName, known, clientIdentifier) {
                        reply(.allowed(userName: userName, LoginGrant(source: name)))
                    }
                }
                if isGood != true { reply(.refused(.unspecified)) }
            case false?: reply(entry == nil ? .next(.unknownUser) : .refused(.wrongPassword))
            case nil: reply(.busy)
            }
        } refuse: {
            reply(.busy)
        }
        workers.submit(check)
        return check
    }

    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        (earlier as? DirectoryAuthenticator).map { keeps(userName, of: $0 as any Authenticator) } ?? false
    }

    /// Whether a user's connection stays. A change of dynamic security that ends connections ends them itself.
    public func keeps(_ userName: EncodedString, of earlier: any Authenticator) -> Bool {
        guard let earlier = earlier as? DirectoryAuthenticator, earlier.directory === directory else { return false }
        if let entry = directory.entry(of: userName) { return !entry.isDisabled }
        guard let next, let before = earlier.next else { return false }
        return next.keeps(userName, of: before)
    }
}

extension Limits {
    /// Entries that are changed while nobody can ask for rights: a connection waits no longer than that takes.
    static let entriesPerLock = 500
}
