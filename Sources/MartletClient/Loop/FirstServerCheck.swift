internal import Bytes
internal import Platform
internal import Synchronization
internal import Transports

/// A look at whether a server takes connections: a connection up to where CONNECT would be sent, through a proxy, TLS
/// and WebSocket if there are some. Belongs to the loop's thread, and to one engine; messages on its connection know
/// nothing of it.
final class FirstServerCheck: EventHandler, @unchecked Sendable {
    // Unchecked: all of it belongs to the loop's thread.
    /// When it has taken too long.
    let deadline: UInt64
    private let loop: ClientLoop
    private let layers: ClientLayers
    private let finished: (Bool) -> Void
    private var dialer: Dialer?
    private var channel: (any ByteChannel)?
    private var registration: Registration?
    private var isOver = false

    /// - Parameter finished: called at most once, with whether the server takes connections.
    init(_ loop: ClientLoop, _ layers: ClientLayers, deadline: UInt64, finished: @escaping (Bool) -> Void) {
        (self.loop, self.layers, self.deadline, self.finished) = (loop, layers, deadline, finished)
    }

    /// When something is to be done at the latest.
    var nextDeadline: UInt64 { min(deadline, dialer?.nextDeadline ?? .max) }

    func dial(_ addresses: [SocketAddress], from locals: [SocketAddress]) {
        guard !isOver else { return }
        let dialer = Dialer(addresses, from: locals, loop: loop.events) { [unowned self] in open($0) }
        self.dialer = dialer
        dialer.advance(now: loop.now)
    }

    func advance(now: UInt64) {
        if deadline <= now { return finish(false) }
        if let dialer, let next = dialer.nextDeadline, next <= now { dialer.advance(now: now) }
    }

    private func open(_ socket: SocketChannel?) {
        guard let socket, !layers.isEmpty else {
            socket?.close()
            return finish(socket != nil)
        }
        do throws(SystemError) {
            let channel = try layers.put(on: socket, workspace: loop.workspace)
            self.channel = channel
            registration = try loop.events.register(channel.fileDescriptor, for: [.readable, .writable], handler: self)
        } catch {
            socket.close()
            finish(false)
        }
    }

    func ready(_ events: ReadyEvents) {
        guard let filtered = channel as? FilteredChannel, let registration else { return }
        if events.contains(.writable) {
            // Begins the layers, of which there is nothing to be said.
            if case .failed = filtered.write(UnsafeBufferPointer(start: nil, count: 0)) { return finish(false) }
        }
        if !events.isDisjoint(with: [.readable, .hangUp, .error]) {
            switch filtered.read(into: UnsafeMutableRawBufferPointer(rebasing: loop.events.scratch[..<Limits.readBytesMax])) {
            case .bytes, .wouldBlock: break
            case .endOfStream, .refused, .failed: return finish(false)
            }
        }
        if filtered.isOpen { return finish(true) }
        loop.events.modify(registration, interest: filtered.holdsBytes ? [.readable, .writable] : .readable)
    }

    /// Gives it up without a word.
    func cancel() {
        isOver = true
        dialer?.cancel()
        if let registration { loop.events.deregister(registration) }
        registration = nil
        channel?.close()
        channel = nil
    }

    private func finish(_ answers: Bool) {
        guard !isOver else { return }
        cancel()
        finished(answers)
    }
}

/// When a client that is connected to another server than the first looks at that.
struct FirstServerWatch {
    /// The look that is under way.
    var check: FirstServerCheck?
    /// When the next begins; nil for never.
    var nextAt: UInt64?

    /// When something is to be done; `UInt64.max` for never.
    var deadline: UInt64 { check?.nextDeadline ?? nextAt ?? .max }
}

/// Going back to the first server.
extension ClientEngine {
    /// A connection stands: says when to look at the first server, if it is to another.
    func planFirstServerCheck() {
        firstServer.nextAt = nil
        guard let interval = settings.firstServerCheck, let first = connecting.betterServer else { return }
        switch first.kind {
        case .network, .unix: firstServer.nextAt = loop.now + interval.milliseconds * connecting.checkGrowth
        case .custom, .socket, .invalid: break
        }
    }

    func endFirstServerCheck() {
        firstServer.check.take()?.cancel()
        firstServer.nextAt = nil
    }

    /// Looks when its time has come.
    func advanceFirstServerCheck(now: UInt64) {
        if let check = firstServer.check { return check.advance(now: now) }
        guard let due = firstServer.nextAt, due <= now, !authentication.isReauthenticating, let first = connecting.betterServer
        else {
            return
        }
        planFirstServerCheck()
        // A certificate that is asked for is not shown here: a server that wants one says so after the handshake.
        guard let layers = try? connecting.layers(to: first, settings, nil) else { return }
        let check = FirstServerCheck(loop, layers, deadline: now + settings.connectTimeout.milliseconds) { [unowned self] answers in
            firstServer.check = nil
            loop.touch(self)
            if answers { returnToFirstServer() }
        }
        firstServer.check = check
        switch first.kind {
        case .network(let host, let port, _, _):
            let proxy = first.proxy(settings)
            loop.resolver.resolve(proxy?.host ?? host, port: proxy?.port ?? port) { [self] result in
                post(.attempt { engine in engine.firstServerResolved(check, result) })
            }
        case .unix(let path):
            if let address = SocketAddress.unix(path: path) { check.dial([address], from: []) }
        case .custom, .socket, .invalid: break
        }
    }

    private func firstServerResolved(_ check: FirstServerCheck, _ result: Result<[SocketAddress], ResolutionError>) {
        guard check === firstServer.check else { return }
        switch result {
        case .success(let addresses): check.dial(addresses, from: localAddresses)
        case .failure:
            check.cancel()
            firstServer.check = nil
        }
    }

    private func returnToFirstServer() {
        guard case .online(let connection) = phase, !authentication.isReauthenticating else { return }
        endFirstServerCheck()
        isOnline.store(false, ordering: .relaxed)
        connecting.returnToFirst()
        session.disconnect(.normalDisconnection, now: loop.now)
        beginClosing(connection, .tryAtOnce)
    }
}
