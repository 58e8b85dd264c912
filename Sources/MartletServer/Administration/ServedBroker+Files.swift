import Administration
import BrokerModel
import Configuration
import Glibc
import HTTP
import MQTTCodec
import Platform
import Security
import ServerLoops
import Transports

/// The users and rules of files: seen, changed, and asked what they say.
extension ServedBroker {
    var files: AdministeredFiles {
        var files = AdministeredFiles()
        for (path, listeners) in named(by: \.passwordFile) {
            do throws(SecurityFileError) {
                files.users += try CredentialFile(path: path).users.map {
                    .init(name: $0.name, file: path, line: $0.line, scheme: $0.scheme)
                }
                files.userFiles.append(.init(path: path, listeners: listeners))
            } catch {
                files.userFiles.append(.init(path: path, listeners: listeners, trouble: "\(error)"))
            }
        }
        for (path, listeners) in named(by: \.accessControlFile) {
            do throws(SecurityFileError) {
                files.rules += try AccessFileEdit(path: path).entries.map { entry in
                    .init(
                        file: path, line: entry.line, text: entry.text, subject: AdministeredFiles.Subject(entry.rule.subject),
                        access: entry.rule.access, conditions: entry.rule.conditions, topic: entry.rule.topic)
                }
                files.ruleFiles.append(.init(path: path, listeners: listeners))
            } catch {
                files.ruleFiles.append(.init(path: path, listeners: listeners, trouble: "\(error)"))
            }
        }
        return files
    }

    /// The files that an option names, in the order of the listeners, each with those that name it.
    private func named(by option: KeyPath<SecurityConfiguration, String?>) -> [(path: String, listeners: [String])] {
        var files: [(path: String, listeners: [String])] = []
        for listener in current.value.listeners {
            guard let path = listener.security[keyPath: option] else { continue }
            let name = ListenerName.of(listener.endpoint)
            if let index = files.firstIndex(where: { $0.path == path }) {
                files[index].listeners.append(name)
            } else {
                files.append((path, [name]))
            }
        }
        return files
    }

    func change(_ path: String, _ change: FileChange, _ done: @escaping (FileChangeOutcome) -> Void) {
        switch change {
        case .setPassword(let user, let password, let isNew):
            // Before a hash is made for nothing, and again when it is there.
            if let objection = objection(to: user, path, isNew: isNew) { return done(objection) }
            let isOld = current.value.general.compatibility == .version2_0
            hasher.hash(password, isOld ? .sha512PBKDF2 : .argon2id) { [self] entry in
                guard let entry else { return done(.failed("The password could not be hashed now: there is no memory for it.")) }
                if let objection = objection(to: user, path, isNew: isNew) { return done(objection) }
                edit(users: path, of: user, done) { (file) throws(Refusal) in
                    do throws(CredentialFile.NameComplaint) {
                        try file.set(user, to: entry)
                    } catch {
                        throw Refusal(.illegal(Self.nameRule))
                    }
                }
            }
        case .removeUser(let user):
            edit(users: path, of: user, done) { (file) throws(Refusal) in
                if !file.remove(user) { throw Refusal(.missing) }
            }
        case .addRule(let subject, let access, let conditions, let topic):
            edit(rules: path, done) { file throws(AccessFileEdit.Complaint) in
                try file.add(
                    AccessFileEdit.Rule(
                        AccessFileEdit.Subject(subject), access: access, conditions: conditions, topic: topic))
            }
        case .changeRule(let line, let text, let access, let conditions, let topic):
            edit(rules: path, done) { file throws(AccessFileEdit.Complaint) in
                try file.change(line: line, from: text, access: access, conditions: conditions, topic: topic)
                return line
            }
        case .removeRule(let line, let text):
            edit(rules: path, done) { file throws(AccessFileEdit.Complaint) in
                try file.remove(line: line, text: text)
                return nil
            }
        }
    }

    private static let nameRule =
        "username has 1 to 65535 bytes, holds no colon and no line break, and does not begin with # or begin or end with a blank."

    /// Why a change is not made.
    private struct Refusal: Error {
        let outcome: FileChangeOutcome
        init(_ outcome: FileChangeOutcome) { self.outcome = outcome }
    }

    private func objection(to user: String, _ path: String, isNew: Bool) -> FileChangeOutcome? {
        guard let file = try? CredentialFile(path: path) else { return nil }
        if file.contains(user) == isNew { return isNew ? .exists : .missing }
        var trial = file
        return (try? trial.set(user, to: "x")) == nil ? .illegal(Self.nameRule) : nil
    }

    private func edit(
        users path: String, of user: String, _ done: @escaping (FileChangeOutcome) -> Void,
        _ change: (inout CredentialFile) throws(Refusal) -> Void
    ) {
        do throws(SecurityFileError) {
            var file = try CredentialFile(path: path)
            do throws(Refusal) {
                try change(&file)
            } catch {
                return done(error.outcome)
            }
            _ = try PasswordFile(file.bytes, file: path)
            put(file.bytes, at: path, line: nil) { [control] outcome in
                if case .done = outcome { control.request(.usersChanged([user])) }
                done(outcome)
            }
        } catch {
            done(.illegal("The file would not be read: \(error)"))
        }
    }

    private func edit(
        rules path: String, _ done: @escaping (FileChangeOutcome) -> Void,
        _ change: (inout AccessFileEdit) throws(AccessFileEdit.Complaint) -> Int?
    ) {
        do throws(SecurityFileError) {
            var file = try AccessFileEdit(path: path)
            let line: Int?
            do throws(AccessFileEdit.Complaint) {
                line = try change(&file)
            } catch {
                return done(Self.outcome(of: error))
            }
            _ = try AccessControlFile(file.bytes, file: path)
            put(file.bytes, at: path, line: line, done)
        } catch {
            done(.illegal("The file would not be read: \(error)"))
        }
    }

    private static func outcome(of complaint: AccessFileEdit.Complaint) -> FileChangeOutcome {
        switch complaint {
        case .moved: .moved
        case .unknownAccess: .illegal("access is one of \(AccessFileEdit.accesses.joined(separator: ", ")).")
        case .condition(let words): .illegal(words)
        case .unwritable:
            .illegal("A topic or user name in a file is not empty, holds no line break, and neither begins nor ends with a blank.")
        }
    }

    /// Writes a file and puts it in force.
    private func put(_ bytes: [UInt8], at path: String, line: Int?, _ done: @escaping (FileChangeOutcome) -> Void) {
        do throws(FileReplacement.Failure) {
            do throws(FileReplacement.Failure) {
                try FileReplacement.write(bytes, to: path)
            } catch {
                // In a directory that is not the broker's the file may still be.
                guard [EACCES, EPERM, EROFS, EBUSY, EXDEV].contains(error.number), access(path, W_OK) == 0 else { throw error }
                try FileReplacement.overwrite(path, with: bytes)
            }
        } catch {
            return done(.failed("\(path) \(error). Nothing is changed: the broker's user has to be allowed to write it."))
        }
        control.request(
            .rereadSecurityFiles { isInForce in
                done(
                    isInForce
                        ? .done(line: line)
                        : .failed("\(path) is written, and not in force: the log says why the files cannot be read."))
            })
    }

    // MARK: May X do Y?

    func answer(to question: AccessQuestion) -> AccessAnswer {
        let security = login.tables.listeners[question.listener]
        let configuration = current.value.listeners[question.listener]
        var found = FoundClient(
            userName: question.userName, clientIdentifier: question.clientIdentifier,
            ConnectionInfo(address: question.address ?? "", listener: question.listener))
        found.add(question.memberships, question.attributes)
        if let certificate = question.certificate { found.show(certificate, to: door(of: question.listener)) }
        var answer = answer(to: question, by: found, grant: nil)
        answer.isKnownUser = isKnown(found.client.userName, configuration.security, security)
        answer.leavesLoginRulesOut = configuration.security.logins.bringsRules || configuration.security.tokens.isEnabled
        return answer
    }

    /// By what is in force.
    ///
    /// - Parameter grant: what a login has brought along; nil where none was tried.
    private func answer(to question: AccessQuestion, by found: FoundClient, grant: LoginGrant?) -> AccessAnswer {
        let security = login.tables.listeners[question.listener]
        var client = found.client
        let grant = LoginGrant(
            source: grant?.source ?? "", rights: grant?.rights, decidesAll: grant?.decidesAll ?? false,
            isSuperuser: grant?.isSuperuser ?? false, attributes: (grant?.attributes ?? []) + client.attributes,
            topics: grant?.topics, memberships: client.memberships)
        client.attributes = grant.attributes
        let rules = security.accessControl
        do throws(MountPoint.Refusal) {
            let own = rules?.mountPoint(of: client.userName, in: client.memberships)
            client.mountPoint = String(
                decoding: try (own ?? MountPoint(current.value.listeners[question.listener].mountPoint ?? "")).prefix(
                    userName: client.userName, clientIdentifier: found.clientIdentifier, attributes: client.attributes),
                as: UTF8.self)
        } catch {
            if client.objection == nil { client.objection = error.words }
        }
        let topic = client.mountPoint + question.topic.description
        let policy = AccessControl.policy(
            rules, userName: client.userName, clientIdentifier: found.clientIdentifier, grant: grant,
            origin: question.address.map { .address($0) } ?? .unknown)
        var explanation: AccessExplanation?
        if question.action == .subscribe {
            explanation = policy?.explanation(
                ofSubscribing: client.mountPoint.isEmpty ? question.topic : TopicFilter(topic) ?? question.topic,
                qos: question.qos)
        } else if let name = TopicName(topic) {
            explanation = policy?.explanation(of: question.action, topic: name, messages: question.messages)
        }
        var answer = AccessAnswer(
            explanation: explanation,
            ban: bans.ban(ofClient: found.clientIdentifier, user: client.userName, address: question.address ?? ""),
            isKnownUser: nil, admitsAnonymous: security.allowsAnonymous || !security.acceptsClientUserNames)
        (answer.client, answer.isSuperuser) = (client, grant.isSuperuser)
        if grant.topics != nil { answer.authority = grant.source }
        return answer
    }

    func explain(_ trial: LoginTrial, _ done: @escaping (LoginTrialReport?) -> Void) -> () -> Void {
        let security = login.tables.listeners[trial.listener]
        var found = FoundClient(
            userName: trial.userName, clientIdentifier: trial.clientIdentifier,
            ConnectionInfo(address: trial.address, listener: trial.listener))
        let door = door(of: trial.listener)
        if let certificate = trial.certificate {
            found.show(certificate, to: door)
        } else if door.policy.userNameSource != .login, door.requiresCertificate {
            found.client.objection = "the listener takes user names from certificates, and none is shown"
        }
        let client = found.client
        let asksSources = security.sources != nil && (client.userName != nil || !security.allowsAnonymous)
        if client.objection != nil || !asksSources || !security.acceptsClientUserNames {
            let isCertain = client.userName != nil && !security.acceptsClientUserNames
            let isAllowed = client.objection == nil && (isCertain || security.allowsAnonymous)
            var report = LoginTrialReport(isAllowed ? .allowed : .refused)
            report.userName = client.userName?.withoutToken
            report.words = client.objection ?? (isAllowed ? "" : LoginFailure.noUsersKnown.words)
            if isCertain, isAllowed, trial.certificate != nil { report.source = "certificate" }
            report.add(client)
            if isAllowed { report.access = trial.question.map { answer(to: $0, by: found, grant: nil) } }
            done(report)
            return {}
        }
        guard let sources = security.sources else { return {} }
        return explainer.explain(sources, trial, as: found) { [self] report, grant in
            var report = report
            report?.add(client)
            if report?.result == .allowed, let question = trial.question {
                var found = found
                found.client.userName = report?.userName
                report?.access = answer(to: question, by: found, grant: grant)
            }
            done(report)
        }
    }

    /// What a listener asks of certificates.
    private func door(of listener: Int) -> FoundClient.Door {
        FoundClient.Door(
            policy: ListenerPolicy(current.value.listeners[listener]), knownUsers: login.tables.listeners[listener].knownUsers,
            naming: sockets.layers[listener].certificateNaming,
            requiresCertificate: current.value.listeners[listener].tls.requiresCertificate)
    }

    /// Whether a listener knows a user; nil where it does not look at names, or takes them from certificates.
    private func isKnown(_ user: EncodedString?, _ configuration: SecurityConfiguration, _ security: ListenerSecurity) -> Bool? {
        guard let user, security.acceptsClientUserNames, security.authenticator != nil else { return nil }
        if let path = configuration.passwordFile, let file = try? CredentialFile(path: path), file.contains(user.description) {
            return true
        }
        if let document = documents.document(of: configuration), document.directory.rights(of: user) != nil {
            return true
        }
        // Whom a service knows it says only of a login.
        return !security.methods.isEmpty || configuration.logins.bringsRules || configuration.tokens.isEnabled ? nil : false
    }

    // MARK: Watching

    func openWebSocket(_ request: HTTPRequest, from origin: RequestOrigin, output: HTTPStream) -> HTTPResponse {
        let settings = WebSocketSettings(frameBytesMax: UInt64(Limits.pageBytesMax))
        do throws(HTTPRefusal) {
            let fields = try WebSocketTunnel.answer(to: request, settings)
            do throws(SystemError) {
                let (near, far) = try SocketChannel.pair()
                let tunnel = PageTunnel(on: control.events, output: output, socket: near, settings: settings)
                try tunnel.begin()
                loops.sendToFirst(.page(far, ConnectionInfo(address: origin.address, port: 0, listener: origin.listener)))
                return HTTPResponse(
                    .switchingProtocols, fields: fields, body: .upgraded(output) { tunnel.received($0) })
            } catch {
                log.write(.error, "Error: a page cannot watch: \(error).")
                return .text("There is no descriptor left for a WebSocket.\n", status: .serviceUnavailable)
            }
        } catch {
            return error.response
        }
    }
}

extension AdministeredFiles.Subject {
    fileprivate init(_ subject: AccessFileEdit.Subject) {
        switch subject {
        case .anonymous: self = .anonymous
        case .user(let name): self = .user(name)
        case .everybody: self = .everybody
        }
    }
}

extension AccessFileEdit.Subject {
    fileprivate init(_ subject: AdministeredFiles.Subject) {
        switch subject {
        case .anonymous: self = .anonymous
        case .user(let name): self = .user(name)
        case .everybody: self = .everybody
        }
    }
}
