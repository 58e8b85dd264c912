internal import ClientCore

/// A client's identity, its server, and how it behaves.
public struct ClientSettings: Sendable {
    /// Tried in turn, until one lets us in.
    public var servers: [ServerAddress]
    /// Gives the servers anew, instead of ``servers``: asked when the client begins to connect, when a connection was
    /// lost, and after each pause. With what it gives each address may have its own login, headers, TLS and proxy, of
    /// that attempt. Throwing, or giving none, counts as a failed attempt.
    public var serverProvider: (@Sendable () async throws -> [ServerAddress])?
    /// How often a client that is connected to another server looks whether the first of its servers takes connections
    /// again; it goes back then. nil, for staying where it is as long as that goes well. After each return that did not
    /// last it looks half as often, down to a 64th. Only for addresses with a host, and Unix sockets.
    public var firstServerCheck: Duration?
    /// What connections go through to `mqtt`, `mqtts`, `ws` and `wss`; an address may have its own, or
    /// ``ProxyAddress/direct``. nil for going straight. Nothing is read from the environment.
    public var proxy: ProxyAddress?
    /// Empty lets the server give one, where the session ends with the connection; otherwise the client makes one up.
    public var clientIdentifier: String
    /// Which version of MQTT is spoken; a server that does not speak it refuses the connection.
    public var version = ProtocolVersion.v5
    /// How the client shows who it is; an address may have its own.
    public var login = Login.none
    /// What the server keeps of this client when the connection ends.
    public var session = SessionKeeping.ended
    /// What the server publishes when the connection breaks.
    public var will: Will?
    /// The longest silence before the client asks whether the server is there; zero for none.
    public var keepAlive = Duration.seconds(60)
    /// When a connection is made again, and after which refusals it is not.
    public var reconnect = ReconnectPolicy()
    /// How long it may take to reach a server and be let in.
    public var connectTimeout = Duration.seconds(10)
    /// How long a server may take to answer a SUBSCRIBE or UNSUBSCRIBE; the client connects anew then. It counts from
    /// the last that was answered, or from when the first was sent, and begins anew while the client does not read. The
    /// answer comes behind messages that are on their way, so that it may take longer than CONNACK.
    public var subscribeTimeout = Duration.seconds(60)
    /// For `mqtts` and `wss`; an address may have its own.
    public var tls = TLSSettings()
    /// How many messages of QoS 1 and 2 are sent before one is acknowledged; 1 keeps their order whatever happens. The
    /// server may allow fewer.
    public var inFlight = 100
    /// Messages of QoS 1 and 2 that are not acknowledged.
    public var queue = QueueLimits()
    /// Where session, outbox, inboxes and messages that wait are kept through crashes; nil for nowhere.
    public var store: StoreLocation?
    /// Messages that are stored and not acknowledged.
    public var outbox = QueueLimits(messages: 1_000_000, bytes: 1 << 30)
    /// What becomes of messages of QoS 0 without a connection.
    public var offlineAtMostOnce = OfflineAtMostOnce.refuse
    /// The highest QoS that the server is asked for. For servers of MQTT 3.1.1 that end connections at QoS 2; those of
    /// MQTT 5.0 say what they take.
    public var maximumQoS = QoS.exactlyOnce
    /// How many messages of QoS 1 and 2 may come before one is acknowledged. As many may wait in memory, each of up to
    /// `maximumPacketSize`, whatever the bounds of their subscriptions are. Before MQTT 5.0 nothing tells the server,
    /// which sends as many as it is set to.
    public var receiveMaximum: UInt16 = 1000
    /// The largest packet that is taken, in bytes; nil for the standard's own limit of 256 MiB. A server of MQTT 5.0 is
    /// told, and leaves out messages that are larger. Before that a larger packet ends the connection, and
    /// `ConnectionState.waiting` says so.
    public var maximumPacketSize: UInt32? = 16 << 20
    /// How long messages of a kept session that no subscription matches wait for one, after a connection was made. Then
    /// they are acknowledged, counted in `Client.dropped`, told to `Interceptor.didDrop`, and gone.
    public var graceTime = Duration.seconds(30)
    /// Sent with CONNECT.
    public var userProperties: [UserProperty] = []
    /// Look at every message, and may change it.
    public var interceptors: [any Interceptor] = []
    /// Whether CONNECT asks for reasons and User Properties with answers, and for Response Information; nil says
    /// nothing. MQTT 5.0 only.
    public var requestsProblemInformation: Bool?
    /// Whether CONNECT asks for Response Information, by which topics for answers begin; nil says nothing. MQTT 5.0
    /// only.
    public var requestsResponseInformation: Bool?
    /// The machine's address that connections come from, nil for the one that the system chooses. Not for Unix sockets.
    public var localAddress: String?

    /// Settings for one server; all others are as their properties say.
    public init(server: ServerAddress, clientIdentifier: String = "") {
        self.init(servers: [server], clientIdentifier: clientIdentifier)
    }

    /// Settings for several servers, which are tried in turn.
    public init(servers: [ServerAddress], clientIdentifier: String = "") {
        (self.servers, self.clientIdentifier) = (servers, clientIdentifier)
    }

    /// With servers that are asked for anew: see ``serverProvider``.
    public init(clientIdentifier: String = "", servers provider: @escaping @Sendable () async throws -> [ServerAddress]) {
        self.init(servers: [], clientIdentifier: clientIdentifier)
        serverProvider = provider
    }

    /// How a client shows who it is.
    public enum Login: Sendable {
        /// Nobody is named.
        case none
        /// User name and password, in CONNECT. A password alone needs MQTT 5.0.
        case password(user: String, password: String?)
        /// Asked before each attempt; once more when a server refuses what it gave. Throwing counts as a failed
        /// attempt.
        case provider(@Sendable () async throws -> Credentials)
        /// Extended authentication, such as SCRAM-SHA-256. MQTT 5.0 only.
        case authenticator(any Authenticator)

        /// SCRAM-SHA-256: the password is not sent, and the server has to know it too.
        public static func scram(user: String, password: String) -> Login {
            .authenticator(ScramSHA256Authenticator(user: user, password: password))
        }
    }

    /// User name and password.
    public struct Credentials: Hashable, Sendable {
        /// The user name: at most 65,535 bytes of UTF-8.
        public var user: String
        /// The password: at most 65,535 bytes, of any kind; nil for none.
        public var password: [UInt8]?

        /// With a password that is text.
        public init(user: String, password: String?) { (self.user, self.password) = (user, password.map { Array($0.utf8) }) }

        /// With a password that is bytes, such as a token.
        public init(user: String, password: [UInt8]?) { (self.user, self.password) = (user, password) }
    }

    /// What the server keeps when the connection ends: subscriptions, and messages of QoS 1 and 2.
    public enum SessionKeeping: Hashable, Sendable {
        /// Nothing, and what it has of an earlier connection is forgotten.
        case ended
        /// For so long; before MQTT 5.0 for as long as the server likes.
        case kept(Duration)
        /// For so long, but what it has of an earlier connection is forgotten at each new one. MQTT 5.0 only.
        case keptAnew(Duration)
    }

    /// What happens to messages of QoS 0 that are published without a connection.
    public enum OfflineAtMostOnce: Hashable, Sendable {
        /// `publish` throws `ClientError.notConnected`.
        case refuse
        /// They are forgotten.
        case drop
        /// They wait, as far as the queue's limits go.
        case queue
    }

    /// How much may wait to be acknowledged, and what happens beyond.
    public struct QueueLimits: Hashable, Sendable {
        /// What happens to a message that finds no room.
        public enum WhenFull: Hashable, Sendable {
            /// `publish` waits.
            case wait
            /// `publish` throws `ClientError.queueFull`.
            case refuse
            /// The message that waits longest and was not sent is dropped: its `publish` throws
            /// `ClientError.queueFull`.
            case dropOldest
        }

        /// How many messages.
        public var messages = 10_000
        /// Topics and payloads.
        public var bytes = 64 << 20
        /// What happens to a message beyond either bound.
        public var whenFull = WhenFull.wait

        /// Bounds in messages and in bytes of topics and payloads; the one that is reached first holds.
        public init(messages: Int = 10_000, bytes: Int = 64 << 20, whenFull: WhenFull = .wait) {
            (self.messages, self.bytes, self.whenFull) = (messages, bytes, whenFull)
        }
    }
}

extension Duration {
    /// The duration in whole milliseconds, rounded up.
    var milliseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0 else { return 0 }
        // Longer than anybody waits, so that no sum of times overflows.
        guard seconds < 1 << 50 else { return 1000 << 50 }
        return UInt64(seconds) * 1000 + UInt64((max(0, attoseconds) + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}

/// The settings in the session's words.
extension ClientSettings {
    /// Throws the first setting that cannot be.
    func sessionOptions(random: UInt64) throws(ClientError) -> ClientOptions {
        guard !servers.isEmpty || serverProvider != nil else { throw .settings("servers: at least one has to be named") }
        for server in servers {
            if let flaw = server.flaw { throw flaw }
            if version != .v5, case .authenticator? = server.login { throw ClientSettings.Login.needsVersion5 }
        }
        if let flaw = proxy?.flaw { throw flaw }
        guard (0...1).contains(reconnect.jitter) else { throw .settings("reconnect.jitter: 0 to 1, not \(reconnect.jitter)") }
        guard (reconnect.attemptsMax ?? 0) >= 0 else { throw .settings("reconnect.attemptsMax: 0 or more, or nil for no end") }
        guard firstServerCheck.map({ $0.milliseconds > 0 }) ?? true else {
            throw .settings("firstServerCheck: longer than nothing")
        }
        guard let identifier = EncodedString(clientIdentifier) else {
            throw .settings("clientIdentifier: at most 65,535 bytes, without the character U+0000")
        }
        guard (1...65_535).contains(inFlight) else { throw .settings("inFlight: 1 to 65535 messages, not \(inFlight)") }
        guard receiveMaximum > 0 else { throw .settings("receiveMaximum: 1 to 65535 messages") }
        guard queue.messages > 0, queue.bytes > 0 else { throw .settings("queue: at least one message and one byte") }
        guard keepAlive.milliseconds <= 65_535_000 else { throw .settings("keepAlive: at most 65535 seconds") }
        guard subscribeTimeout.milliseconds > 0 else { throw .settings("subscribeTimeout: longer than nothing") }
        if let flaw = login.flaw { throw flaw }
        if case .authenticator = login, version != .v5 { throw ClientSettings.Login.needsVersion5 }
        var options = ClientOptions()
        options.version = version
        options.clientIdentifier = identifier
        options.will = will
        options.keepAliveSeconds = UInt16((keepAlive.milliseconds + 999) / 1000)
        options.receiveMaximum = receiveMaximum
        options.maximumPacketSize = maximumPacketSize
        options.connectProperties.userProperties = userProperties
        options.connectProperties.requestProblemInformation = requestsProblemInformation
        options.connectProperties.requestResponseInformation = requestsResponseInformation
        options.inFlightMessagesMax = inFlight
        options.waitingMessagesMax = .max
        options.acknowledgesAutomatically = false
        options.connectTimeoutMilliseconds = connectTimeout.milliseconds
        options.requestTimeoutMilliseconds = subscribeTimeout.milliseconds
        switch session {
        case .ended:
            options.cleanStart = true
        case .kept(let duration), .keptAnew(let duration):
            options.cleanStart = session == .keptAnew(duration)
            options.sessionExpiryInterval = version == .v5 ? UInt32(clamping: (duration.milliseconds + 999) / 1000) : nil
        }
        // A name that the server makes up is none that a session could be found by, and MQTT 3.1 wants one.
        if identifier.isEmpty, session != .ended || version == .v31 {
            options.clientIdentifier = EncodedString("martlet-\(String(random, radix: 36))") ?? identifier
        }
        return options
    }
}

extension ClientSettings.Login {
    /// The error of the settings; nil if they are right.
    var flaw: ClientError? {
        guard case .password(let user, let password) = self else { return nil }
        return EncodedString(user) != nil && (password?.utf8.count ?? 0) <= 65_535
            ? nil : .settings("login: user and password have at most 65,535 bytes each")
    }

    static let needsVersion5 = ClientError.settings(
        "login: extended authentication needs MQTT 5.0, which the settings' version is not")
}
