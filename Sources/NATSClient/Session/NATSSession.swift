internal import Bytes
internal import JSON

/// A client's session with a cluster of servers: decides what to say to which of them, and what it means what they say.
/// Knows neither clock nor socket.
///
/// ```
///   idle ──► dialing ──► greeting ──► joining ──► ready
///    ▲          ▲            │            │          │
///    │          └─ pausing ◄─┴────────────┴──────────┘     ended, or too late
///    └── stop, from each
/// ```
/// dialing: a connection is being made. greeting: INFO is awaited. joining: CONNECT and a PING are sent, PONG is
/// awaited, so that a login that is refused is known before anything relies on it. ready: messages flow.
///
/// A class, for what it delivers may make its owner publish in the middle of a reading. Whoever owns it gives it what
/// happens, with the time in milliseconds, then does what `takeEffects` tells, and sends `output`.
public final class NATSSession {
    enum State: Equatable {
        case idle
        case dialing
        case greeting
        case joining
        case ready
        case pausing(until: UInt64)
    }

    private var settings: NATSSettings
    private(set) var state: State = .idle
    private var pool: ServerPool
    private var server: ServerAddress?
    private var isSecured = false
    private var reader = OperationReader()
    private var writer = OperationWriter()
    private var effects: [NATSEffect] = []
    /// When the attempt, or the wait for PONG, has taken too long.
    private var deadline: UInt64?
    /// When something was heard last, and whether a PING is on its way.
    private var heardAt: UInt64 = 0
    private var awaitsPong = false
    /// What the server said last that it did not like.
    private var lastError: String?
    private var greeting = Greeting()
    private var refused = RefusedSubscriptions()
    /// Bytes that the connection has not taken.
    private var waitingBytes = 0
    private var subscriptions: [UInt64: SubjectPattern] = [:]
    private var lastSubscription: UInt64 = 0
    private var requests: RequestTable
    private var random: any RandomNumberGenerator
    /// What the server that one is connected to has said of itself.
    public private(set) var info: ServerInfo?

    /// - Parameters:
    ///   - settings: which servers, and who asks.
    ///   - random: for names that nobody may guess, and pauses.
    public init(_ settings: NATSSettings, random: some RandomNumberGenerator) {
        var random = random
        self.settings = settings
        pool = ServerPool(settings.servers)
        requests = RequestTable(random: &random)
        lastSubscription = RequestTable.subscription
        self.random = random
    }

    public var isReady: Bool { state == .ready }

    /// The servers that are known, in the order in which they are tried.
    public var servers: [ServerAddress] { pool.servers }

    /// Whether something is to be sent.
    public var hasOutput: Bool { !writer.bytes.isEmpty }

    public func takeOutput() -> [UInt8] {
        var bytes: [UInt8] = []
        // About as much follows, and grows without being copied again and again.
        bytes.reserveCapacity(min(writer.bytes.count, Limits.keptBufferBytesMax))
        swap(&bytes, &writer.bytes)
        return bytes
    }

    public func takeEffects() -> [NATSEffect] {
        var taken: [NATSEffect] = []
        swap(&taken, &effects)
        return taken
    }

    /// When `advance` must be called next, in milliseconds; nil for never.
    public var nextDeadline: UInt64? {
        if case .pausing(let end) = state { return end }
        return [deadline, refused.retriesAt, requests.nextDeadline].compactMap { $0 }.min()
    }

    // MARK: Commands

    public func start(now: UInt64) {
        guard state == .idle else { return }
        dial(now: now)
    }

    /// Lets go of everything; requests are told that they are lost.
    public func stop() {
        guard state != .idle else { return }
        if case .pausing = state {} else { effects.append(.hangUp) }
        leave()
        state = .idle
    }

    /// Logs in otherwise from now on; a connection that there is ends, and the same server is tried first.
    public func renew(login: NATSLogin?, requiresTLS: Bool, now: UInt64) {
        (settings.login, settings.requiresTLS) = (login, requiresTLS)
        switch state {
        case .idle: return
        case .pausing: dial(now: now)
        case .dialing, .greeting, .joining, .ready:
            effects.append(.hangUp)
            let place = server.map { "\($0)" } ?? ""
            leave()
            effects.append(.away(reason: "\(place): connecting again, with the new configuration of login and TLS"))
            pool.turnBack()
            dial(now: now)
        }
    }

    public func advance(now: UInt64) {
        requests.takeLate(now: now) { effects.append(.answered($0, .late)) }
        switch state {
        case .pausing(let end): if end <= now { dial(now: now) }
        case .dialing, .joining:
            guard let deadline, deadline <= now else { return }
            fail("no answer within \(Limits.joinMillisecondsMax / 1000) s", now: now)
        case .greeting:
            guard let deadline, deadline <= now else { return }
            fail(stranger ?? Greeting.silence, now: now)
        case .ready:
            subscribeAgain(now: now)
            guard let deadline, deadline <= now else { return }
            if awaitsPong { return fail("the server has not answered a PING for \(Limits.pongMillisecondsMax / 1000) s", now: now) }
            if heardAt + Limits.pingMilliseconds <= now {
                writer.ping()
                awaitsPong = true
                self.deadline = now + Limits.pongMillisecondsMax
            } else {
                self.deadline = heardAt + Limits.pingMilliseconds
            }
        case .idle: return
        }
    }

    // MARK: The connection

    public func connected(now: UInt64) {
        guard state == .dialing else { return }
        state = .greeting
        heardAt = now
    }

    public func dialFailed(_ reason: String, now: UInt64) {
        guard state == .dialing else { return }
        again(reason, now: now)
    }

    /// The connection has ended by itself.
    public func ended(_ reason: String, now: UInt64) {
        switch state {
        case .greeting, .joining, .ready: again(lastError.map { "the server says: \($0)" } ?? stranger ?? reason, now: now)
        case .idle, .dialing, .pausing: return
        }
    }

    /// The connection has not taken so many bytes.
    public func outputWaits(_ byteCount: Int) { waitingBytes = byteCount }

    /// Takes in what the server has sent. `deliver` gets messages that are no answers, in order; their views are valid
    /// during the call.
    public func received(_ bytes: UnsafeRawBufferPointer, now: UInt64, deliver: (MessageView) -> Void) {
        switch state {
        case .greeting, .joining, .ready: break
        case .idle, .dialing, .pausing: return
        }
        heardAt = now
        if state == .greeting { greeting.add(bytes) }
        let wasSecured = isSecured
        var reader = OperationReader()
        swap(&reader, &self.reader)
        do throws(WireError) {
            try reader.read(bytes) { operation in
                handle(operation, now: now, deliver)
                // What stands behind INFO has come without TLS: nobody vouches for it.
                return isConnected && isSecured == wasSecured
            }
            if isConnected { self.reader = reader }
        } catch {
            if isConnected { fail(stranger ?? error.description, now: now) }
        }
    }

    private var isConnected: Bool {
        switch state {
        case .greeting, .joining, .ready: true
        case .idle, .dialing, .pausing: false
        }
    }

    private func handle(_ operation: ServerOperation, now: UInt64, _ deliver: (MessageView) -> Void) {
        switch (operation, state) {
        case (.info(let info), .greeting): greeted(info, now: now)
        case (.info(let info), _): renewed(info, now: now)
        case (.error(let words), .greeting): lastError = words
        case (_, .greeting): fail("the server says something else before INFO", now: now)
        case (.message(let view), _):
            guard view.subscription == RequestTable.subscription else { return deliver(view) }
            answered(view, now: now)
        case (.ping, _): writer.pong()
        case (.pong, .joining): joined(now: now)
        case (.pong, _):
            awaitsPong = false
            deadline = now + Limits.pingMilliseconds
        case (.ok, _): return
        case (.error(let words), _):
            // Of an answer to what was asked the connection does not end.
            let isRefusal = words.hasPrefix("Permissions Violation")
            if isRefusal {
                // Its own inbox as well.
                refused.record(words, countMax: subscriptions.count + 1, now: now)
            } else {
                lastError = words
            }
            if isRefusal || words.hasPrefix("Invalid") { effects.append(.complaint(words)) }
        }
    }

    // MARK: Getting there

    private func dial(now: UInt64) {
        let server = pool.takeNext()
        (self.server, isSecured, lastError, greeting, reader) = (server, false, nil, Greeting(), OperationReader())
        state = .dialing
        deadline = now + Limits.joinMillisecondsMax
        effects.append(.dial(server))
    }

    private func greeted(_ info: ServerInfo, now: UInt64) {
        guard let server else { return }
        guard info.version >= settings.versionMin else {
            return fail("it is nats-server \(info.version); \(settings.versionMin) or newer is needed", now: now)
        }
        guard info.supportsHeaders else {
            return fail("headers are switched off there (no_header_support); they are needed", now: now)
        }
        if info.requiresTLS || server.usesTLS || settings.requiresTLS {
            guard info.offersTLS else { return fail("TLS is required, and the server has none", now: now) }
            isSecured = true
            effects.append(.secure(server))
        }
        guard let options = connectOptions(info, login: server.login ?? settings.login) else {
            return fail("the server asks for no signature (it has no nonce), and the login is a key", now: now)
        }
        self.info = info
        learn(info)
        state = .joining
        writer.connect(options)
        writer.subscribe(requests.pattern, subscription: RequestTable.subscription)
        for (number, pattern) in subscriptions.sorted(by: { $0.key < $1.key }) {
            writer.subscribe(pattern, subscription: number)
        }
        writer.ping()
    }

    /// The options of CONNECT; nil if they cannot be made. Nothing of what one publishes comes back.
    private func connectOptions(_ info: ServerInfo, login: NATSLogin?) -> String? {
        var options = JSONObject()
        options.set("verbose", false)
        options.set("pedantic", false)
        options.set("tls_required", isSecured)
        options.set("name", settings.name)
        options.set("lang", "swift")
        options.set("version", settings.programVersion)
        options.set("protocol", 1)
        options.set("echo", false)
        options.set("headers", true)
        options.set("no_responders", true)
        switch login {
        case .user(let user, let password):
            options.set("user", user)
            options.set("pass", password)
        case .token(let token): options.set("auth_token", token)
        case .key(let key):
            guard let nonce = info.nonce, let signature = key.signature(of: nonce) else { return nil }
            options.set("nkey", key.publicKey)
            options.set("sig", Self.urlText(signature))
        case nil: break
        }
        return options.text
    }

    /// RFC 4648's Base64 for addresses, without padding.
    private static func urlText(_ bytes: [UInt8]) -> String {
        String(
            Base64.encode(bytes, padding: .none).map { character in
                switch character {
                case "+": "-"
                case "/": "_"
                default: character
                }
            })
    }

    private func joined(now: UInt64) {
        guard let info else { return }
        state = .ready
        (awaitsPong, deadline) = (false, now + Limits.pingMilliseconds)
        pool.succeeded()
        effects.append(.ready(info))
    }

    /// INFO has come again: the servers are others, or this one ends.
    private func renewed(_ info: ServerInfo, now: UInt64) {
        self.info = info
        learn(info)
        if info.isEnding { fail("the server is shutting down (lame duck mode)", now: now) }
    }

    private func learn(_ info: ServerInfo) {
        if let server { pool.learn(info.connectAddresses, from: server, usesTLS: isSecured) }
    }

    private func subscribeAgain(now: UInt64) {
        let due = refused.takeDue(now: now)
        guard !due.isEmpty else { return }
        if due.contains(requests.pattern.description) {
            writer.subscribe(requests.pattern, subscription: RequestTable.subscription)
        }
        for (number, pattern) in subscriptions.sorted(by: { $0.key < $1.key }) where due.contains(pattern.description) {
            writer.subscribe(pattern, subscription: number)
        }
    }

    /// What to say of who is no NATS server.
    private var stranger: String? { state == .greeting ? greeting.stranger : nil }

    // MARK: Losing it

    /// Ends the connection, or the attempt.
    private func fail(_ reason: String, now: UInt64) {
        effects.append(.hangUp)
        again(lastError.map { "the server says: \($0)" } ?? reason, now: now)
    }

    private func again(_ reason: String, now: UInt64) {
        let place = server.map { "\($0)" } ?? ""
        leave()
        effects.append(.away(reason: "\(place): \(reason)"))
        let pause = pool.failed(random: &random)
        if pause == 0 { dial(now: now) } else { state = .pausing(until: now + pause) }
    }

    private func leave() {
        (info, deadline, awaitsPong, waitingBytes) = (nil, nil, false, 0)
        refused = RefusedSubscriptions()
        reader = OperationReader()
        writer.bytes = []
        requests.takeAll { effects.append(.answered($0, .lost)) }
    }
}

// MARK: - Messages

extension NATSSession {
    /// Subscribes, now and on every connection to come.
    ///
    /// - Returns: the number that its messages come with.
    public func subscribe(_ pattern: SubjectPattern) -> UInt64 {
        lastSubscription += 1
        subscriptions[lastSubscription] = pattern
        if hasJoined { writer.subscribe(pattern, subscription: lastSubscription) }
        return lastSubscription
    }

    public func unsubscribe(_ subscription: UInt64) {
        guard subscriptions.removeValue(forKey: subscription) != nil, hasJoined else { return }
        writer.unsubscribe(subscription)
    }

    /// Forgets all subscriptions, while there is no connection.
    public func forgetSubscriptions() {
        assert(!hasJoined, "a server knows them")
        subscriptions = [:]
    }

    /// Publishes. Throws, and sends nothing, if it cannot.
    public func publish(
        _ subject: Subject, reply: Subject? = nil, headers: MessageHeaders = MessageHeaders(), payload: some Collection<UInt8>
    ) throws(NATSRefusal) {
        try check(payload.count)
        writer.publish(subject, reply: reply, headers: headers, payload: payload)
    }

    /// Publishes a payload from where it lies, without headers.
    ///
    /// - Precondition: `subject`, and `reply` unless it is empty, are subjects.
    public func publish(
        subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
    ) throws(NATSRefusal) {
        precondition(Subject.isLegal(subject) && (reply.isEmpty || Subject.isLegal(reply)), "what is published to is a subject")
        try check(payload.count)
        writer.publish(subject: subject, reply: reply, payload: payload)
    }

    /// Asks; `answered` follows, in any case, after as many milliseconds at the latest.
    ///
    /// - Returns: the number that `answered` comes with.
    public func request(
        _ subject: Subject, headers: MessageHeaders = MessageHeaders(), payload: some Collection<UInt8>,
        within milliseconds: UInt64, now: UInt64
    ) throws(NATSRefusal) -> UInt64 {
        try check(payload.count)
        guard let (number, inbox) = requests.add(until: now + milliseconds) else { throw .full }
        writer.publish(subject, reply: inbox, headers: headers, payload: payload)
        return number
    }

    private var hasJoined: Bool { state == .joining || state == .ready }

    private func check(_ byteCount: Int) throws(NATSRefusal) {
        guard state == .ready, let info else { throw .away }
        guard byteCount <= info.payloadBytesMax else { throw .tooLarge(bytesMax: info.payloadBytesMax) }
        guard waitingBytes + writer.bytes.count <= Limits.outputBytesMax else { throw .full }
    }

    private func answered(_ view: MessageView, now: UInt64) {
        guard let number = requests.take(view.subject) else { return }
        do throws(WireError) {
            let message = try ReceivedMessage(view)
            let isNobody = message.headers.status == 503 && message.payload.isEmpty
            effects.append(.answered(number, isNobody ? .nobody : .message(message)))
        } catch {
            effects.append(.answered(number, .lost))
            fail(error.description, now: now)
        }
    }
}

/// What has come from a server before its INFO, as far as it is worth showing: who answers there may be no NATS server.
struct Greeting {
    private var bytes: [UInt8] = []

    mutating func add(_ more: UnsafeRawBufferPointer) { bytes += more.prefix(Limits.shownGreetingBytesMax - bytes.count) }

    /// What to say of who is no NATS server; nil of one that is, and of one that has said nothing yet.
    var stranger: String? {
        let line = bytes.prefix { $0 != 0x0A && $0 != 0x0D }
        guard !bytes.isEmpty else { return nil }
        let isServer = ["INFO", "-ERR"].contains { name in
            zip(line, name.utf8).allSatisfy { $0 == $1 || $0 == $1 + 0x20 } && !line.isEmpty
        }
        return isServer ? nil : "it is not a NATS server: it begins with \"\(ControlLine.printable(line))\""
    }

    /// What to say of who has taken the connection and says nothing: a service that waits for its client's first word,
    /// such as HTTP or MQTT.
    static let silence =
        "no answer within \(Limits.joinMillisecondsMax / 1000) s, where a NATS server says INFO at once: it may be another service, or one "
        + "that wants TLS first (handshake_first)"
}

/// The subscriptions that a server has refused, to be tried again: whoever runs it may allow them while the connection
/// lasts.
struct RefusedSubscriptions {
    private var patterns: Set<String> = []
    /// When they are tried again, in milliseconds; nil if there are none.
    private(set) var retriesAt: UInt64?

    /// Takes note of one that the server's words name.
    ///
    /// - Parameters:
    ///   - words: of its error.
    ///   - countMax: how many there can be.
    ///   - now: milliseconds.
    mutating func record(_ words: String, countMax: Int, now: UInt64) {
        let beginning = "Permissions Violation for Subscription to \""
        guard words.hasPrefix(beginning), patterns.count < countMax else { return }
        patterns.insert(String(words.dropFirst(beginning.count).prefix { $0 != "\"" }))
        if retriesAt == nil { retriesAt = now + Limits.refusedSubscriptionMilliseconds }
    }

    /// Takes the subscriptions that are due; empty if it is not time yet.
    mutating func takeDue(now: UInt64) -> Set<String> {
        guard let retriesAt, retriesAt <= now else { return [] }
        defer { self = RefusedSubscriptions() }
        return patterns
    }
}

extension Limits {
    /// Bytes that wait for a server that does not read; what would go beyond them is not taken.
    static let outputBytesMax = 16 << 20

    /// Milliseconds from the first attempt to connect until the server has answered the first PING; then the next
    /// server has its turn.
    static let joinMillisecondsMax: UInt64 = 5_000

    /// Bytes that are shown of what comes where a server's INFO should.
    static let shownGreetingBytesMax = 60

    /// Milliseconds until a subscription that the server has refused is tried again.
    static let refusedSubscriptionMilliseconds: UInt64 = 20_000

    /// Milliseconds of silence after which a server is asked whether it is there.
    static let pingMilliseconds: UInt64 = 10_000

    /// Milliseconds that it may take to answer that.
    static let pongMillisecondsMax: UInt64 = 5_000
}
