internal import Platform
internal import Transports

/// From a server's turn to its transport, and on to the next server.
///
/// ```
///   beginAttempt ──► servers ──► login ──► certificate ──► addresses ──► transport ──► layers
/// ```
/// Each of the first three may be asked of the program, on a task of its own.
extension ClientEngine {
    /// Tries the server whose turn it is.
    func beginAttempt() {
        phase = .preparing
        connecting.begin(now: loop.now)
        state.set(.connecting(attempt: connecting.number))
        loop.touch(self)
        authentication.forget()
        session.options.connectProperties.authenticationMethod = nil
        session.options.connectProperties.authenticationData = nil
        guard connecting.needsServers, let provider = settings.serverProvider else { return logIn() }
        ask("the servers are not known", provider) { engine, servers in engine.received(servers) }
    }

    /// How the client shows itself to the server that is tried.
    var login: ClientSettings.Login { connecting.server.login ?? settings.login }

    private func received(_ servers: [ServerAddress]) {
        connecting.replaceServers(with: servers)
        if servers.isEmpty { return attemptFailed(connecting.unreachable("none was given")) }
        for server in servers {
            if let flaw = server.flaw { return attemptFailed(flaw) }
            if settings.version != .v5, case .authenticator? = server.login {
                return attemptFailed(ClientSettings.Login.needsVersion5)
            }
        }
        logIn()
    }

    private func logIn() {
        switch login {
        case .none: loggedIn(nil)
        case .password(let user, let password): loggedIn(ClientSettings.Credentials(user: user, password: password))
        case .provider(let provider):
            ask("the login is not known", provider) { engine, credentials in engine.loggedIn(credentials) }
        case .authenticator(let authenticator): authentication.begin(authenticator, self)
        }
    }

    func loggedIn(_ credentials: ClientSettings.Credentials?) {
        session.options.userName = credentials.flatMap { EncodedString($0.user) }
        session.options.password = credentials?.password
        guard case .network(_, _, usesTLS: true, _) = connecting.server.kind,
            case .provider(let provider) = (connecting.server.tls ?? settings.tls).certificate
        else { return dial(nil) }
        ask("the client's certificate is not known", provider) { engine, identity in engine.dial(identity) }
    }

    /// Asks the program for something that an attempt needs; throwing lets the attempt fail.
    ///
    /// - Parameters:
    ///   - complaint: what to say then, in front of why.
    ///   - next: what follows, on the loop's thread.
    ///   - tooLate: what is done with the answer if the attempt is over.
    private func ask<Answer: Sendable>(
        _ complaint: String, _ provider: @escaping @Sendable () async throws -> Answer,
        tooLate: @escaping @Sendable (Answer) -> Void = { _ in }, next: @escaping @Sendable (ClientEngine, Answer) -> Void
    ) {
        let attempt = connecting.serial
        Task(executorPreference: loop.taskExecutor) { [self] in
            do {
                let answer = try await provider()
                post(.attempt { engine in engine.isPreparing(attempt) ? next(engine, answer) : tooLate(answer) })
            } catch {
                let reason = complaint.isEmpty ? "\(error)" : "\(complaint): \(error)"
                post(
                    .attempt { engine in
                        if engine.isPreparing(attempt) { engine.attemptFailed(engine.connecting.unreachable(reason)) }
                    })
            }
        }
    }

    private func isPreparing(_ attempt: Int) -> Bool {
        guard case .preparing = phase else { return false }
        return attempt == connecting.serial
    }

    private func dial(_ identity: TLSSettings.Identity?) {
        connecting.identity = identity
        switch connecting.server.kind {
        case .network(let host, let port, _, _):
            let attempt = connecting.serial
            let proxy = connecting.proxy(settings)
            loop.resolver.resolve(proxy?.host ?? host, port: proxy?.port ?? port) { [self] in
                post(.resolved(attempt: attempt, $0))
            }
        case .unix(let path):
            if let address = SocketAddress.unix(path: path) { race([address]) }
        case .custom(_, let connect):
            do {
                open(try connect())
            } catch {
                attemptFailed(connecting.unreachable("\(error)"))
            }
        case .socket(_, let connect):
            ask("", connect, tooLate: { FileDescriptor(rawValue: $0).close() }) { engine, descriptor in
                engine.adopt(descriptor)
            }
        case .invalid(let text, let reason): giveUp(.settings("server address \(text): \(reason)"))
        }
    }

    private func adopt(_ descriptor: Int32) {
        do throws(SystemError) {
            open(try SocketChannel.adopting(descriptor))
        } catch {
            attemptFailed(connecting.unreachable("what it gave is no connected stream socket: \(error.reason)"))
        }
    }

    func resolved(_ attempt: Int, _ result: Result<[SocketAddress], ResolutionError>) {
        guard isPreparing(attempt) else { return }
        switch result {
        case .success(let addresses): race(addresses)
        case .failure(let error):
            let proxy = connecting.proxy(settings)
            attemptFailed(connecting.unreachable("\(proxy.map { "the proxy \($0): " } ?? "")\(error.reason)"))
        }
    }

    private func race(_ addresses: [SocketAddress]) {
        let dialer = Dialer(addresses, from: localAddresses, loop: loop.events) { [unowned self] channel in
            if let channel { putLayers(on: channel) } else { attemptFailed(connecting.unreachable(dialFailure)) }
        }
        phase = .dialing(dialer)
        dialer.advance(now: loop.now)
    }

    /// Why the server's addresses do not answer, as far as that is known.
    private var dialFailure: String {
        guard case .dialing(let dialer) = phase else { return connecting.explain(nil) }
        return connecting.explain(dialer.lastFailure, through: connecting.proxy(settings))
    }

    /// The attempt has taken too long.
    func attemptTimedOut() {
        let time = "within \(settings.connectTimeout)"
        switch phase {
        case .preparing: attemptFailed(connecting.unreachable("its address, the login or the certificate is not known \(time)"))
        case .opening(let connection) where connection.awaitsProxy:
            attemptFailed(connecting.unreachable("the proxy does not answer \(time)"))
        case .dialing(let dialer) where dialer.lastFailure != nil:
            attemptFailed(connecting.unreachable("no answer \(time); before that \(dialFailure)"))
        default: attemptFailed(connecting.unreachable("no answer \(time)"))
        }
    }

    private func putLayers(on channel: SocketChannel) {
        do throws(ClientError) {
            let layers = try connecting.layers(settings)
            do throws(SystemError) {
                open(try layers.put(on: channel, workspace: loop.workspace))
            } catch {
                attemptFailed(connecting.unreachable("\(error)"))
            }
        } catch {
            channel.close()
            // What has worked, or is given anew, may be right at the next attempt.
            let mayChange = connecting.successCount > 0 || connecting.identity != nil || settings.serverProvider != nil
            if mayChange { attemptFailed(error) } else { giveUp(error) }
        }
    }

    private func open(_ channel: any ByteChannel) {
        do throws(SystemError) {
            let connection = try ServerConnection(channel, loop: loop, engine: self)
            phase = .opening(connection)
            session.transportOpened(now: loop.now)
            loop.touch(self)
        } catch {
            channel.close()
            attemptFailed(connecting.unreachable("\(error)"))
        }
    }

    /// The connection has ended, and not by our wish.
    func ended(_ connection: ServerConnection, _ end: ServerConnection.End) {
        // What the connection has brought is looked at first.
        subscriptions.flush(self)
        switch phase {
        case .opening(let current) where current === connection:
            attemptFailed(connecting.explain(end))
        case .online(let current) where current === connection:
            lose(connection)
            attemptFailed(connecting.explain(end))
        case .closing(let current, _) where current === connection: closed(connection)
        default: connection.close()
        }
    }

    /// The attempt came to nothing, or the connection was lost.
    func attemptFailed(_ error: ClientError) {
        let wasOnline = connecting.wasOnline
        switch phase {
        case .dialing(let dialer): dialer.cancel()
        case .opening(let connection), .closing(let connection, _): lose(connection)
        case .idle, .preparing, .online, .pausing, .refused, .ended: break
        }
        loop.touch(self)
        switch connecting.failed(now: loop.now, chance: loop.random()) {
        case .nextServer: beginAttempt()
        case .pause(let milliseconds):
            if !wasOnline, !wish.staysForEver { return standStill(error) }
            phase = .pausing(until: loop.now + milliseconds)
            state.set(.waiting(.milliseconds(milliseconds), error))
        case .stop:
            if !wasOnline, !wish.staysForEver { return standStill(error) }
            giveUp(error)
        }
    }

    /// Nobody could be reached, and nobody said that this is to be tried for ever.
    private func standStill(_ error: ClientError) {
        phase = .idle
        state.set(.offline)
        wish.completeStart(.failure(error))
    }
}
