public import Platform
public import Transports

/// A stream that is followed on a connection. Belongs to the loop's thread.
///
/// The owner of the connection tells the stream of the connection's state, and brings its messages:
///
///     becameReady ─► attached      wentAway ─► detached      received ─► received, until one says that it was its own
///
/// and calls `advance` at `nextDeadline`.
public final class FollowedStream {
    /// What whoever reads is told besides records.
    public enum News: Equatable, Sendable {
        /// What the stream had when it was looked at: its first and its last record, the last 0 in one that never had
        /// any. What lies between `next` and `first` is gone. Whether it is the stream that was followed before,
        /// `identity` tells. Follows each time that it was lost sight of, before anything that was stored meanwhile is
        /// given.
        case found(first: UInt64, last: UInt64)
        /// All that stood in the stream when it was found has been given.
        case caughtUp
        /// It did not work, for this reason; it is tried again.
        case failed(String)
    }

    private let follower: StreamFollower
    private unowned let connection: NATSConnection
    private var subscription: UInt64?
    private var isPerforming = false
    private let give: (StreamRecord) -> Void
    private let report: (News) -> Void

    /// - Parameters:
    ///   - name: see `StreamFollower`; behind it comes what nobody can guess, so that nobody else speaks for the
    ///     servers.
    ///   - next: the number of the first record that is wanted; nil for what is stored from now on.
    ///   - connection: has to live as long.
    ///   - batch: how many records may be on their way.
    ///   - give: gets each record, in order; its views are valid during the call.
    ///   - report: hears of the rest.
    public init(
        name: String, from next: UInt64?, on connection: NATSConnection, batch: Int = 50, give: @escaping (StreamRecord) -> Void,
        report: @escaping (News) -> Void
    ) {
        let secret = String(UInt64.random(in: .min ... .max), radix: 36)
        follower = StreamFollower(name: "\(name)_\(secret)", from: next, batch: batch)
        (self.connection, self.give, self.report) = (connection, give, report)
    }

    /// The number of the record that is given next; nil until the stream has been found.
    public var next: UInt64? { follower.next }
    /// Whether records come.
    public var isFollowing: Bool { follower.isFollowing }
    public var isHeld: Bool { follower.isHeld }
    /// What two streams of a name differ in; see `StreamFollower.identity`.
    public var identity: String { follower.identity }
    /// Whether it is missing, and was there before; see `StreamFollower.isMissing`.
    public var isMissing: Bool { follower.isMissing }
    public var nextDeadline: UInt64? { follower.nextDeadline }

    /// The connection is ready; `stream` is what the stream is to be.
    public func attached(_ stream: StreamConfiguration, now: UInt64) {
        if subscription == nil { subscription = connection.subscribe(follower.inbox) }
        follower.attached(stream, now: now)
        perform()
    }

    /// The connection is gone, and what was subscribed to on it is or will be forgotten.
    public func detached() {
        if let subscription { connection.unsubscribe(subscription) }
        subscription = nil
        follower.detached()
    }

    /// Takes a message of the connection; false if it belongs to another.
    public func received(_ view: MessageView, now: UInt64) -> Bool {
        guard view.subscription == subscription else { return false }
        follower.received(view, now: now, give: give)
        perform()
        return true
    }

    public func advance(now: UInt64) {
        follower.advance(now: now)
        perform()
    }

    /// Asks for nothing more until `resume`; a batch may come nevertheless.
    public func hold() { follower.hold() }

    public func resume(now: UInt64) {
        follower.resume(now: now)
        perform()
    }

    /// Goes on from another number; also while `report` is called.
    public func restart(from next: UInt64, now: UInt64) {
        follower.restart(from: next, now: now)
        if !isPerforming { perform() }
    }

    private func perform() {
        isPerforming = true
        defer { isPerforming = false }
        while true {
            let effects = follower.takeEffects()
            if effects.isEmpty { return }
            for effect in effects { perform(effect) }
        }
    }

    private func perform(_ effect: StreamFollower.Effect) {
        switch effect {
        case .ask(let request, let reply):
            // What cannot be said is asked again when no answer has come.
            try? connection.publish(request.subject, reply: reply, headers: request.headers, payload: request.payload)
        case .otherReplicas(let stream, let replicas, let wanted): connection.found(stream, replicas: replicas, wanted: wanted)
        case .news(let news): report(news)
        }
    }
}

/// The party that wants to hear of a connection. Called on the loop's thread.
public protocol NATSListener: AnyObject {
    /// A message has come; its views are valid during the call.
    func received(_ message: MessageView)
    /// Messages flow from now on.
    func becameReady(_ info: ServerInfo)
    /// They do not any more, or a server was tried in vain; the next is tried by itself.
    func wentAway(_ reason: String)
    /// The server has refused something in these words, and goes on.
    func complained(_ words: String)
    /// A stream that is followed has another number of replicas than is wanted; that keeps nobody from following it.
    func found(_ stream: String, replicas: Int, wanted: Int)
    /// Whether what was said may still leave. If not, it waits.
    var maySend: Bool { get }
}

extension NATSListener {
    public func found(_ stream: String, replicas: Int, wanted: Int) {}
    public var maySend: Bool { true }
}

/// What reaches a connection from another thread: addresses that were asked for.
public struct NATSConnectionMessage: Sendable {
    let serial: Int
    let addresses: Result<[SocketAddress], ResolutionError>
}

/// Does what a session wants: connects, puts TLS on, and carries bytes. Belongs to the loop's thread.
///
/// Its owner calls `advance` at `nextDeadline`, brings messages from the mailbox to `received`, and calls `flush`
/// at the end of a turn in which it has published.
public final class NATSConnection: StreamOwner {
    public let session: NATSSession
    private let events: EventLoop
    private let workspace: FilterWorkspace
    private var tls: TLSClientSettings
    private var contexts: [String: TLSClientContext] = [:]
    private let resolver: NameResolver
    private let post: @Sendable (NATSConnectionMessage) -> Void
    private unowned let listener: any NATSListener
    private var stream: DialledStream?
    private var dialer: Dialer?
    /// Which answer of the resolver is waited for.
    private var serial = 0
    private var isPerforming = false
    /// Who waits for the answer to a request, by its number.
    private var requests: [UInt64: (NATSAnswer) -> Void] = [:]
    /// Why requests were not sent that have been made since `advance`.
    private var unsent: [(reason: NATSRefusal, then: (NATSAnswer) -> Void)] = []
    /// The memory that is read into.
    package private(set) lazy var room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)

    /// - Parameters:
    ///   - settings: which servers, and who asks.
    ///   - tls: what TLS is made of where it is used; the server's name in it is replaced.
    ///   - events: the loop.
    ///   - workspace: the loop's.
    ///   - resolver: asked for the addresses of names.
    ///   - listener: hears of everything; has to live as long.
    ///   - post: brings a message to the loop's thread, from any.
    public init(
        _ settings: NATSSettings, tls: TLSClientSettings, on events: EventLoop, workspace: FilterWorkspace, resolver: NameResolver,
        listener: any NATSListener, post: @escaping @Sendable (NATSConnectionMessage) -> Void
    ) {
        session = NATSSession(settings, random: KernelRandomNumbers())
        (self.tls, self.events, self.workspace, self.resolver) = (tls, events, workspace, resolver)
        (self.listener, self.post) = (listener, post)
    }

    deinit { room.deallocate() }

    public var isReady: Bool { session.isReady }

    public var nextDeadline: UInt64? {
        [session.nextDeadline, dialer?.nextDeadline, unsent.isEmpty ? nil : 0].compactMap { $0 }.min()
    }

    /// Bytes that the server has not taken.
    public var waitingBytes: Int { stream?.waitingBytes ?? 0 }

    /// In milliseconds, of the loop's clock.
    public var now: UInt64 { events.nowMilliseconds }

    // MARK: Commands

    public func start() {
        session.start(now: now)
        perform()
    }

    public func stop() {
        flush()
        session.stop()
        perform()
    }

    /// Stops at once. What the server has not been sent yet it is not sent any more, not even by the kernel. `start`
    /// begins anew.
    public func abandon() {
        stream?.abandon()
        stream = nil
        session.stop()
        perform()
    }

    /// Connects anew, with another login, and what TLS is made of now.
    public func renew(login: NATSLogin?, requiresTLS: Bool, tls: TLSClientSettings) {
        flush()
        (self.tls, contexts) = (tls, [:])
        session.renew(login: login, requiresTLS: requiresTLS, now: now)
        perform()
    }

    public func advance(now: UInt64) {
        if let dialer, let deadline = dialer.nextDeadline, deadline <= now { dialer.advance(now: now) }
        session.advance(now: now)
        perform()
        let refused = unsent
        unsent = []
        for request in refused { request.then(.unsent(request.reason)) }
    }

    public func received(_ message: NATSConnectionMessage) {
        guard message.serial == serial, dialer == nil else { return }
        switch message.addresses {
        case .success(let addresses): race(addresses)
        case .failure(let error): dialFailed("\(error)")
        }
    }

    /// Subscribes, now and on every connection to come; returns the number that the messages come with.
    public func subscribe(_ pattern: SubjectPattern) -> UInt64 { session.subscribe(pattern) }

    public func unsubscribe(_ subscription: UInt64) { session.unsubscribe(subscription) }

    /// Publishes; it leaves with the next `flush`. Throws, and sends nothing, if it cannot.
    public func publish(
        _ subject: Subject, reply: Subject? = nil, headers: MessageHeaders = MessageHeaders(), payload: some Collection<UInt8>
    ) throws(NATSRefusal) {
        try session.publish(subject, reply: reply, headers: headers, payload: payload)
    }

    /// Asks; `then` is told what has become of it, in any case and never before this returns.
    public func request(
        _ subject: Subject, headers: MessageHeaders = MessageHeaders(), payload: some Collection<UInt8>,
        within milliseconds: UInt64, then: @escaping (NATSAnswer) -> Void
    ) {
        do throws(NATSRefusal) {
            let number = try session.request(subject, headers: headers, payload: payload, within: milliseconds, now: now)
            requests[number] = then
        } catch {
            unsent.append((error, then))
        }
    }

    /// Asks JetStream; the same holds.
    public func request(_ request: JetStreamRequest, within milliseconds: UInt64, then: @escaping (NATSAnswer) -> Void) {
        self.request(request.subject, headers: request.headers, payload: request.payload, within: milliseconds, then: then)
    }

    /// Sends what was said.
    public func flush() {
        guard session.hasOutput else { return }
        perform()
    }

    // MARK: The server

    private func dial(_ server: ServerAddress) {
        serial += 1
        let (serial, post) = (serial, post)
        resolver.resolve(server.host, port: server.port) { post(NATSConnectionMessage(serial: serial, addresses: $0)) }
    }

    private func race(_ addresses: [SocketAddress]) {
        let dialer = Dialer(addresses, from: [], loop: events) { [unowned self] channel in
            if let channel { return open(channel) }
            dialFailed(self.dialer?.lastFailure.map { "\($0.error.reason)" } ?? "it has no address")
        }
        self.dialer = dialer
        dialer.advance(now: now)
    }

    private func dialFailed(_ reason: String) {
        dialer = nil
        session.dialFailed(reason, now: now)
        perform()
    }

    private func open(_ socket: SocketChannel) {
        dialer = nil
        do throws(SystemError) {
            stream = try DialledStream(socket, on: events, for: self)
        } catch {
            socket.close()
            return dialFailed("\(error)")
        }
        session.connected(now: now)
        perform()
    }

    private func secure(_ server: ServerAddress) {
        do {
            let context = try contexts[server.certificateName] ?? makeContext(server.certificateName)
            try stream?.put(ClientLayers(tls: context), workspace: workspace)
        } catch {
            ended("\(error)")
        }
    }

    private func makeContext(_ name: String) throws(TLSFailure) -> TLSClientContext {
        var settings = tls
        settings.serverName = name
        let context = try TLSClientContext(settings)
        contexts[name] = context
        return context
    }

    package func received(_ bytes: UnsafeRawBufferPointer) {
        session.received(bytes, now: now) { listener.received($0) }
        perform()
    }

    package var isPaused: Bool { false }

    /// There is room again for what was refused.
    package func wrote() { session.outputWaits(waitingBytes) }

    /// What the server has said last is there to be read.
    package func failedToWrite(_ error: SystemError, hasLayers: Bool) {}

    package func ended(_ reason: String?) {
        hangUp()
        session.ended(reason ?? "the server closed the connection", now: now)
        perform()
    }

    private func hangUp() {
        stream?.close()
        stream = nil
        dialer?.cancel()
        dialer = nil
        serial += 1
    }

    func found(_ stream: String, replicas: Int, wanted: Int) { listener.found(stream, replicas: replicas, wanted: wanted) }

    /// Does what the session wants, until it wants nothing more.
    private func perform() {
        guard !isPerforming else { return }
        isPerforming = true
        defer { isPerforming = false }
        while true {
            let effects = session.takeEffects()
            for effect in effects { perform(effect) }
            if session.hasOutput, listener.maySend { stream?.send(session.takeOutput()) }
            session.outputWaits(waitingBytes)
            if effects.isEmpty { return }
        }
    }

    private func perform(_ effect: NATSEffect) {
        switch effect {
        case .dial(let server): dial(server)
        case .secure(let server): secure(server)
        case .hangUp: hangUp()
        case .ready(let info): listener.becameReady(info)
        case .away(let reason): listener.wentAway(reason)
        case .complaint(let words): listener.complained(words)
        case .answered(let number, let answer): requests.removeValue(forKey: number)?(answer)
        }
    }
}
