internal import EpollLoop
internal import Platform
internal import Transports

/// From a server's turn to its transport, and on to the next server.
extension ClientEngine {
    /// Tries the server whose turn it is.
    func beginAttempt() {
        phase = .preparing
        connecting.begin(now: loop.now)
        state.set(.connecting(attempt: connecting.number))
        loop.touch(self)
        switch settings.login {
        case .none: dial(nil)
        case .password(let user, let password): dial(Credentials(user: user, password: password))
        case .provider(let provider): ask(provider)
        case .authenticator(let authenticator): beginExchange(authenticator)
        }
    }

    private func ask(_ provider: @escaping @Sendable () async throws -> Credentials) {
        let (attempt, server) = (connecting.serial, "\(connecting.server)")
        Task(executorPreference: loop.taskExecutor) { [self] in
            do {
                post(.credentials(attempt: attempt, .success(try await provider())))
            } catch {
                let reason = "the login is not known: \(error)"
                post(.credentials(attempt: attempt, .failure(.unreachable(server: server, reason: reason))))
            }
        }
    }

    func received(_ attempt: Int, _ result: Result<Credentials, ClientError>) {
        guard case .preparing = phase, attempt == connecting.serial else { return }
        switch result {
        case .success(let credentials): dial(credentials)
        case .failure(let error): attemptFailed(error)
        }
    }

    func dial(_ credentials: Credentials?) {
        session.options.userName = credentials.flatMap { EncodedString($0.user) }
        session.options.password = credentials?.password
        switch connecting.server.kind {
        case .network(let host, let port, _, _):
            let attempt = connecting.serial
            loop.resolver.resolve(host, port: port) { [self] in post(.resolved(attempt: attempt, $0)) }
        case .unix(let path):
            if let address = SocketAddress.unix(path: path) { race([address]) }
        case .custom(_, let connect):
            do {
                open(try connect())
            } catch {
                attemptFailed(connecting.unreachable("\(error)"))
            }
        case .invalid(let text, let reason): giveUp(.settings("server address \(text): \(reason)"))
        }
    }

    func resolved(_ attempt: Int, _ result: Result<[SocketAddress], ResolutionError>) {
        guard case .preparing = phase, attempt == connecting.serial else { return }
        switch result {
        case .success(let addresses): race(addresses)
        case .failure(let error): attemptFailed(connecting.unreachable(error.reason))
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
        return connecting.explain(dialer.lastFailure)
    }

    /// The attempt has taken too long.
    func attemptTimedOut() {
        let time = "within \(settings.connectTimeout)"
        switch phase {
        case .preparing: attemptFailed(connecting.unreachable("its address or the login is not known \(time)"))
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
            giveUp(error)
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
        handleEventsBeforeEnd()
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
            if !wasOnline, !staysForEver { return standStill(error) }
            phase = .pausing(until: loop.now + milliseconds)
            state.set(.waiting(.milliseconds(milliseconds), error))
        case .stop:
            if !wasOnline { return standStill(error) }
            giveUp(error)
        }
    }

    /// Nobody could be reached, and nobody said that this is to be tried for ever.
    private func standStill(_ error: ClientError) {
        phase = .idle
        state.set(.offline)
        completeStart(.failure(error))
    }
}
