/// One `connection` section: a bridge to another broker.
public struct BridgeConfiguration: Sendable, Equatable {
    public var name: String
    /// `address`: the broker and, after it, those to fail over to.
    public var addresses: [BridgeAddress] = []
    /// `topic`, in the order of the file.
    public var topics: [BridgeTopic] = []
    public var remote = BridgeIdentity()
    public var local = BridgeIdentity()
    /// `bridge_protocol_version`: 3, 4 or 5.
    public var protocolVersion: UInt8 = 4
    public var session = BridgeSessionConfiguration()
    /// `keepalive_interval`.
    public var keepAliveSeconds = 60
    public var schedule = BridgeScheduleConfiguration()
    /// `try_private`: the other broker is told that this is a bridge.
    public var announcesBridge = true
    public var notifications = BridgeNotifications()
    /// `bridge_attempt_unsubscribe`.
    public var attemptsUnsubscribe = true
    /// `bridge_outgoing_retain`.
    public var sendsRetain = true
    /// `bridge_max_packet_size`; nil is no limit.
    public var packetBytesMax: Int?
    /// `bridge_max_topic_alias`.
    public var topicAliasMax: UInt16 = 10
    /// `bridge_receive_maximum`; nil is `LimitsConfiguration.queue.inflightMessagesMax`.
    public var receiveMaximum: UInt16?
    public var queue = BridgeQueueConfiguration()
    /// `martlet_bridge_connections`: among which the topics that go out are divided.
    public var connectionCount = 1
    public var tcp = BridgeTCPConfiguration()
    /// `martlet_bridge_path`: messages say which brokers they were in.
    public var saysBrokers = true
    /// `bridge_reload_type`.
    public var reload = BridgeReload.lazy
    public var tls = BridgeTLSConfiguration()

    public init(name: String) {
        self.name = name
    }
}

/// What becomes of a bridge's sessions, at the remote broker and here, when its connections end.
public struct BridgeSessionConfiguration: Sendable, Equatable {
    /// `cleansession`: at the remote broker.
    public var startsClean = false
    /// `local_cleansession`: here; nil is as `startsClean`.
    public var startsCleanLocally: Bool?
    /// `bridge_session_expiry_interval`.
    public var expiryIntervalSeconds: UInt32 = 0

    public init() {}
}

/// When a bridge connects, to which of its addresses, and when again.
public struct BridgeScheduleConfiguration: Sendable, Equatable {
    /// `start_type`.
    public var start = BridgeStart.automatic
    /// `restart_timeout`.
    public var restart = BridgeRestart()
    /// `round_robin`: the next address is tried after each loss, instead of the first.
    public var isRoundRobin = false
    /// `threshold`: messages that wake a lazy bridge.
    public var lazyThresholdMessages = 10
    /// `idle_timeout`: after which a lazy bridge stops.
    public var idleTimeoutSeconds = 60

    public init() {}
}

/// Whether, and where, a retained 1 or 0 says that a bridge is connected.
public struct BridgeNotifications: Sendable, Equatable {
    /// `notifications`.
    public var isEnabled = true
    /// `notifications_local_only`.
    public var isLocalOnly = false
    /// `notification_topic`; nil is `$SYS/broker/connection/ID/state`.
    public var topic: String?

    public init() {}
}

/// What waits for the remote broker at most. Nil is as for any client.
public struct BridgeQueueConfiguration: Sendable, Equatable {
    /// `martlet_bridge_max_queued_messages`; 0 is no limit, nil is `LimitsConfiguration.queue.messagesMax`.
    public var messagesMax: Int?
    /// `martlet_bridge_max_queued_bytes`; 0 is no limit, nil is `LimitsConfiguration.queue.bytesMax`.
    public var bytesMax: Int?
    /// `martlet_bridge_queue_drop`; nil is `MessagingConfiguration.queueDropPolicy`.
    public var dropPolicy: QueueDropPolicy?

    public init() {}
}

/// The sockets that a bridge connects with.
public struct BridgeTCPConfiguration: Sendable, Equatable {
    /// `bridge_bind_address`.
    public var bindAddress: String?
    /// `bridge_tcp_keepalive`.
    public var keepAlive: TCPKeepAlive?
    /// `bridge_tcp_user_timeout`.
    public var userTimeoutMilliseconds: Int?

    public init() {}
}

/// The identity of the bridge at one of its two ends.
public struct BridgeIdentity: Sendable, Equatable {
    public var clientIdentifier: String?
    public var userName: String?
    public var password: String?

    public init() {}
}

/// When a bridge connects.
public enum BridgeStart: String, Sendable, Equatable, CaseIterable {
    case automatic
    case lazy
    case once
}

/// How long a bridge waits before it connects again: from `baseSeconds` to `capSeconds` at random, each time longer,
/// starting anew after a connection that lasted `stableSeconds`. Without a cap it waits `baseSeconds`.
public struct BridgeRestart: Sendable, Equatable {
    public var baseSeconds: Int
    public var capSeconds: Int?
    public var stableSeconds: Int?

    public init(baseSeconds: Int = 5, capSeconds: Int? = 30, stableSeconds: Int? = nil) {
        self.baseSeconds = baseSeconds
        self.capSeconds = capSeconds
        self.stableSeconds = stableSeconds
    }
}

/// When a reload of the configuration reaches a bridge: at its next connection, or at once.
public enum BridgeReload: String, Sendable, Equatable, CaseIterable {
    case lazy
    case immediate
}

/// The TLS side of a bridge.
public struct BridgeTLSConfiguration: Sendable, Equatable {
    /// `bridge_cafile`.
    public var authoritiesFile: String?
    /// `bridge_capath`.
    public var authoritiesDirectory: String?
    /// `bridge_tls_use_os_certs`.
    public var usesSystemAuthorities = false
    /// `bridge_certfile`.
    public var certificateFile: String?
    /// `bridge_keyfile`.
    public var keyFile: String?
    /// `bridge_insecure`: the host name of the other broker's certificate is not checked.
    public var ignoresHostName = false
    /// `bridge_tls_version`.
    public var versionMin = TLSVersion.tls1_2
    /// `bridge_alpn`.
    public var applicationProtocol: String?
    /// `bridge_ciphers`.
    public var ciphers: String?
    /// `bridge_ciphers_tls1.3`.
    public var cipherSuites: String?
    /// `bridge_require_ocsp`.
    public var requiresOCSP = false
    /// `bridge_identity`.
    public var preSharedKeyIdentity: String?
    /// `bridge_psk`: the key in hexadecimal digits.
    public var preSharedKey: String?

    public init() {}

    public var isEnabled: Bool {
        authoritiesFile != nil || authoritiesDirectory != nil || usesSystemAuthorities || preSharedKey != nil
    }
}

/// The probes that find a dead connection.
public struct TCPKeepAlive: Sendable, Equatable {
    public var idleSeconds: Int
    public var intervalSeconds: Int
    public var count: Int

    public init(idleSeconds: Int, intervalSeconds: Int, count: Int) {
        self.idleSeconds = idleSeconds
        self.intervalSeconds = intervalSeconds
        self.count = count
    }
}

/// A broker that a bridge connects to.
public struct BridgeAddress: Sendable, Hashable {
    /// What carries the connection.
    public enum Transport: Sendable, Hashable {
        case tcp
        case webSocket(path: String)
        case unix(path: String)
    }

    /// Empty for a Unix socket.
    public var host: String
    public var port: UInt16
    public var transport = Transport.tcp
    /// Whether it asks for TLS by itself, as `mqtts` and `wss` do.
    public var usesTLS = false

    public init(host: String, port: UInt16 = BrokerConfiguration.defaultPort) {
        self.host = host
        self.port = port
    }
}

extension BridgeAddress: CustomStringConvertible {
    /// As it is written: `broker:1883`, `wss://broker:443/mqtt`; without its query, which may be a key.
    public var description: String {
        let place = "\(host.contains(":") ? "[\(host)]" : host):\(port)"
        return switch transport {
        case .tcp: usesTLS ? "mqtts://\(place)" : place
        case .webSocket(let path): AddressMask.masking("\(usesTLS ? "wss" : "ws")://\(place)\(path)")
        case .unix(let path): "unix:\(path)"
        }
    }
}

extension BridgeAddress {
    /// `HOST` and the like, see below; `mqtt://`, `mqtts://`, `ws://` or `wss://` before it, the last two perhaps with
    /// a path behind it; or `unix:PATH`.
    init?(text: String) {
        if text.hasPrefix("unix:") {
            let rest = text.dropFirst("unix:".count)
            let path = rest.hasPrefix("///") ? rest.dropFirst(2) : rest
            guard path.first == "/" else { return nil }
            self.init(host: "", port: 0)
            transport = .unix(path: String(path))
            return
        }
        guard let scheme = Self.schemes.first(where: { text.hasPrefix("\($0.name)://") }) else {
            self.init(plain: text)
            return
        }
        let rest = text.dropFirst(scheme.name.count + 3)
        let place = rest.prefix { $0 != "/" }
        let path = String(rest[place.endIndex...])
        guard scheme.isWebSocket || path.isEmpty || path == "/" else { return nil }
        self.init(plain: String(place), usualPort: scheme.port)
        usesTLS = scheme.usesTLS
        if scheme.isWebSocket { transport = .webSocket(path: path.isEmpty || path == "/" ? "/mqtt" : path) }
    }

    private static let schemes: [(name: String, isWebSocket: Bool, usesTLS: Bool, port: UInt16)] = [
        ("mqtt", false, false, 1883), ("mqtts", false, true, 8883), ("ws", true, false, 80), ("wss", true, true, 443),
    ]

    /// `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT`, or an IPv6 address as it is; nil for anything else.
    private init?(plain text: String, usualPort: UInt16 = BrokerConfiguration.defaultPort) {
        let bytes = Array(text.utf8)
        let colons = bytes.count { $0 == UInt8(ascii: ":") }
        if bytes.first == UInt8(ascii: "[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            let host = text[text.index(after: text.startIndex)..<end]
            let rest = text[text.index(after: end)...]
            guard !host.isEmpty else { return nil }
            if rest.isEmpty {
                self.init(host: String(host), port: usualPort)
            } else {
                guard rest.first == ":", let port = Self.port(rest.dropFirst()) else { return nil }
                self.init(host: String(host), port: port)
            }
        } else if colons == 1, let colon = text.firstIndex(of: ":") {
            guard colon > text.startIndex, let port = Self.port(text[text.index(after: colon)...]) else { return nil }
            self.init(host: String(text[..<colon]), port: port)
        } else {
            guard !text.isEmpty, !text.contains("@"), !text.contains("/") else { return nil }
            self.init(host: text, port: usualPort)
        }
    }

    private static func port(_ text: Substring) -> UInt16? {
        UInt16(text).flatMap { $0 > 0 ? $0 : nil }
    }
}

/// One `topic` line of a bridge: what crosses it, which way, and under which names.
///
///     local topic  = localPrefix  + pattern
///     remote topic = remotePrefix + pattern
///
/// `pattern` is empty when the two prefixes name one topic each.
public struct BridgeTopic: Sendable, Hashable {
    public var pattern: String
    public var direction: Direction
    public var qos: UInt8
    public var localPrefix: String
    public var remotePrefix: String

    public enum Direction: String, Sendable, CaseIterable {
        case out
        case `in`
        case both
    }

    public init(
        pattern: String, direction: Direction = .out, qos: UInt8 = 0, localPrefix: String = "", remotePrefix: String = ""
    ) {
        self.pattern = pattern
        self.direction = direction
        self.qos = qos
        self.localPrefix = localPrefix
        self.remotePrefix = remotePrefix
    }

    /// Whether a topic of the other broker may be one of this line and of `other`.
    func crosses(_ other: BridgeTopic) -> Bool {
        Self.overlap(levels(behind: remotePrefix), other.levels(behind: other.remotePrefix))
    }

    /// A topic of the line with one of its prefixes, by level, as subscriptions match it.
    func levels(behind prefix: String) -> [Substring] {
        let levels = (prefix + pattern).split(separator: "/", omittingEmptySubsequences: false)
        return levels.first == "$share" ? Array(levels.dropFirst(2)) : levels
    }

    /// Whether a topic may be of both filters.
    static func overlap(_ one: [Substring], _ other: [Substring]) -> Bool {
        let wild: Set<Substring?> = ["+", "#"]
        for (first, second) in [(one, other), (other, one)]
        where first.first?.first == "$" && wild.contains(second.first) { return false }
        for place in 0..<max(one.count, other.count) {
            let pair = [one, other].map { place < $0.count ? $0[place] : nil }
            if pair.contains("#") { return true }
            guard let mine = pair[0], let others = pair[1], mine == others || pair.contains("+") else { return false }
        }
        return true
    }
}

extension BridgeTopic {
    /// Why a `topic` line is refused.
    struct Refusal: Error, Equatable {
        /// A sentence.
        let message: String
    }

    /// What a `topic` line says.
    struct Line: Equatable {
        var topic: BridgeTopic
        /// What there is to say of it, as a sentence.
        var remark: String?
    }

    /// Reads the value of a `topic` line: `PATTERN [DIRECTION [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]] [# COMMENT]`. A
    /// word that begins with a double quote runs to the next one, so that it may hold blanks or nothing.
    static func parse(_ text: String) -> Result<Line, Refusal> {
        guard let (words, comment) = quotedWords(text) else { return .failure(Refusal(message: "a double quote is not closed.")) }
        guard let pattern = words.first else { return .failure(Refusal(message: "Empty topic value in configuration.")) }
        guard words.count <= 5 else {
            return .failure(Refusal(message: "found \(words[5].quoted) after the remote prefix, expected the end of the line."))
        }
        var topic = BridgeTopic(pattern: pattern)
        if words.count > 1 {
            guard let direction = Direction(rawValue: words[1].lowercased()) else {
                return .failure(Refusal(message: "found \(words[1].quoted), expected the direction out, in or both."))
            }
            topic.direction = direction
        }
        if words.count > 2 {
            guard let qos = UInt8(words[2]), qos <= 2 else {
                return .failure(Refusal(message: "found \(words[2].quoted), expected the QoS 0, 1 or 2."))
            }
            topic.qos = qos
        }
        if words.count > 3 { topic.localPrefix = words[3] }
        if words.count > 4 { topic.remotePrefix = words[4] }
        if let message = topic.complaint { return .failure(Refusal(message: message)) }
        // Behind the last prefix mosquitto passes over all that follows.
        guard let comment, words.count < 5 else { return .success(Line(topic: topic)) }
        return .success(
            Line(topic: topic, remark: "\(comment.quoted) is taken for a comment; mosquitto would take it for a part of the line."))
    }

    /// Says what is wrong with the combination, as a sentence; nil when nothing is.
    private var complaint: String? {
        if pattern.isEmpty && (localPrefix.isEmpty || remotePrefix.isEmpty) {
            return "an empty pattern needs a local and a remote prefix."
        }
        if !pattern.isEmpty && !isFilter(pattern) {
            return "found \(pattern.quoted), expected a topic filter, with + and # as whole levels and # as the last one."
        }
        for prefix in [localPrefix, remotePrefix] where prefix.contains("+") || prefix.contains("#") {
            return "found \(prefix.quoted), expected a prefix without the wildcards + and #."
        }
        return nil
    }

    /// Wildcards are whole levels, and # is the last one.
    private func isFilter(_ text: String) -> Bool {
        let levels = text.split(separator: "/", omittingEmptySubsequences: false)
        for (index, level) in levels.enumerated() {
            if level.contains("#") && (level != "#" || index != levels.count - 1) { return false }
            if level.contains("+") && level != "+" { return false }
        }
        return true
    }

    /// The words of a line, and the comment behind them; nil if a quote stays open. A comment begins with a #, which
    /// only the pattern may begin with too.
    private static func quotedWords(_ text: String) -> (words: [String], comment: String?)? {
        var words: [String] = []
        var rest = text[...]
        while true {
            rest = rest.drop { $0 == " " || $0 == "\t" }
            guard let first = rest.first else { return (words, nil) }
            if first == "#", !words.isEmpty { return (words, String(rest)) }
            if first == "\"" {
                rest = rest.dropFirst()
                guard let end = rest.firstIndex(of: "\"") else { return nil }
                words.append(String(rest[..<end]))
                rest = rest[rest.index(after: end)...]
            } else {
                let word = rest.prefix { $0 != " " && $0 != "\t" }
                words.append(String(word))
                rest = rest[word.endIndex...]
            }
        }
    }
}
