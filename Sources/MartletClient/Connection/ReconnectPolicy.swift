internal import ClientCore
public import MQTTCodec

/// When a connection is made again, how often, and after which refusals it is not.
///
/// ```swift
/// var settings = ClientSettings(server: "mqtt://broker.example")
/// settings.reconnect.longest = .seconds(30)
/// settings.reconnect.attemptsMax = 20
/// settings.reconnect.isFinal = { refusal in refusal.reason == .banned || ReconnectPolicy.isFinalByDefault(refusal) }
/// ```
public struct ReconnectPolicy: Sendable {
    /// The pause after the first failure. Each is twice the one before.
    public var first: Duration
    /// The longest pause.
    public var longest: Duration
    /// Which part of each pause chance may take off, 0 to 1, so that the clients of a server that comes back do not
    /// come all at once.
    public var jitter = 0.5
    /// How often it is tried again before the client gives up; trying all servers counts as once, and a connection that
    /// has lasted as long as ``longest``, or 30 seconds, lets the count begin anew. nil for no end, 0 for never.
    public var attemptsMax: Int?
    /// Whether a refusal makes further attempts useless, so that the client gives up: ``ConnectionState/refused(_:)``.
    /// Asked about what the server says, and about each `ClientError.refused` that an ``Authenticator`` throws. Called
    /// on the client's thread, and must not wait.
    ///
    /// The default is ``isFinalByDefault(_:)``. `connect()` throws every refusal until the server has let the client in
    /// for the first time.
    public var isFinal: @Sendable (ServerRefusal) -> Bool = { isFinalByDefault($0) }

    /// Pauses that double from the one to the other, without an end.
    ///
    /// - Parameters:
    ///   - first: the pause after the first failure.
    ///   - longest: the longest pause.
    public init(first: Duration = .seconds(1), longest: Duration = .seconds(120)) {
        (self.first, self.longest) = (first, longest)
    }

    /// A connection that is lost stays lost.
    public static var never: ReconnectPolicy {
        var policy = ReconnectPolicy()
        policy.attemptsMax = 0
        return policy
    }

    /// After a pause that doubles from the one to the other, each shortened by chance to no less than half.
    public static func exponential(from first: Duration, to longest: Duration) -> ReconnectPolicy {
        ReconnectPolicy(first: first, longest: longest)
    }

    /// Whether a refusal is final when the program says nothing else: it is where the server would refuse again,
    /// whatever happens there.
    ///
    /// - `Session taken over` (0x8E): two clients with one identifier would take the session from each other for ever.
    /// - Of a connection that was not let in: `Unsupported Protocol Version` (0x84), `Client Identifier not valid`
    ///   (0x85), `Bad authentication method` (0x8C), `Malformed Packet` (0x81), `Protocol Error` (0x82).
    ///
    /// Everything else is tried again, after pauses that grow: `Not authorized` (0x87) and `Bad User Name or Password`
    /// (0x86), for the server's list of users may be away for a moment; `Banned` (0x8A), for bans end;
    /// `Administrative action` (0x98), with which operators disconnect clients.
    public static func isFinalByDefault(_ refusal: ServerRefusal) -> Bool {
        switch refusal.reason {
        case .sessionTakenOver: true
        case .unsupportedProtocolVersion, .clientIdentifierNotValid, .badAuthenticationMethod, .malformedPacket, .protocolError:
            !refusal.wasConnected
        default: false
        }
    }

    var schedule: ReconnectSchedule.Policy {
        ReconnectSchedule.Policy(
            firstMilliseconds: first.milliseconds, longestMilliseconds: longest.milliseconds, jitter: jitter,
            attemptsMax: attemptsMax)
    }
}

/// A server's word, or an authenticator's, that ends a connection or does not let one begin.
public struct ServerRefusal: Hashable, Sendable {
    /// Why; what servers of MQTT 3.1.1 say stands here in the words of 5.0.
    public var reason: ReasonCode
    /// What the server says beside that; nil where it says nothing.
    public var words: String?
    /// Whether the server had let the client in: it came with DISCONNECT, not with CONNACK. False for what an
    /// ``Authenticator`` throws.
    public var wasConnected: Bool

    /// - Parameters:
    ///   - reason: why.
    ///   - words: what the server says beside that.
    ///   - wasConnected: whether the server had let the client in.
    public init(_ reason: ReasonCode, _ words: String? = nil, wasConnected: Bool = false) {
        (self.reason, self.words, self.wasConnected) = (reason, words, wasConnected)
    }
}
