/// A client that tells of its connections, for what begins anew with each of them: a `LiveCollection`.
///
/// What conforms also keeps these rules, so that a subscription can be made afresh without a gap:
///
/// - Every call of `messages` has a SUBSCRIBE of its own that names all its filters in one packet, also where other
///   subscriptions have the same ones: the server sends what it retains again. It leaves at once, or first on the next
///   connection; on a connection without the old session the subscriptions that still live are made again.
/// - In MQTT 5.0 its Subscription Identifier is greater than that of all calls before.
/// - When the value is given up, UNSUBSCRIBE names those of its filters that no other living subscription has.
public protocol ConnectionObserving: Messaging {
    /// The connection that stands, nil while there is none: first as it is now, then after every change. A slow
    /// consumer may miss some, never the latest.
    func connections() -> AsyncStream<ConnectedServer?>

    /// The connection as it is now, nil while there is none. Whoever has a message of a connection in its hands, and
    /// asks after that, is told of that connection or of a later one.
    var connection: ConnectedServer? { get }
}

/// A connection to a server that has let the client in.
public struct ConnectedServer: Hashable, Sendable {
    /// Which connection of the client this is, counted from 1.
    public var connectionNumber: UInt64
    /// The version of MQTT that is spoken.
    public var version: ProtocolVersion
    /// Whether the server still had the client's session, with its subscriptions and what came meanwhile.
    public var isSessionPresent: Bool

    /// What topics for answers to this client begin with, where the server says so: its Response Information.
    public var responseInformation: String?

    /// A connection, for a double that tells of one.
    public init(
        connectionNumber: UInt64, version: ProtocolVersion = .v5, isSessionPresent: Bool = false, responseInformation: String? = nil
    ) {
        (self.connectionNumber, self.version, self.isSessionPresent) = (connectionNumber, version, isSessionPresent)
        self.responseInformation = responseInformation
    }
}

extension ConnectionObserving {
    /// Waits for a connection, unless there is one. Throws `ClientError.ended` when the client ends, and
    /// `ClientError.cancelled`.
    func firstConnection() async throws(ClientError) -> ConnectedServer {
        for await server in connections() {
            if let server { return server }
        }
        throw Task.isCancelled ? .cancelled : .ended
    }
}

extension Messages {
    /// As `granted`, but ends the subscription and throws `ClientError.cancelled` when the task is cancelled.
    func grantedUnlessCancelled() async throws(ClientError) {
        let result = await withTaskCancellationHandler { () -> Result<[ReasonCode], ClientError> in
            do throws(ClientError) { return .success(try await granted()) } catch { return .failure(error) }
        } onCancel: {
            cancel()
        }
        if Task.isCancelled { throw .cancelled }
        _ = try result.get()
    }
}

/// How a client stands with its server.
public enum ConnectionState: Hashable, Sendable {
    /// Not begun, or disconnected on request.
    case offline
    /// A connection is being made: which attempt since the last success, from 1.
    case connecting(attempt: Int)
    /// The server has let us in.
    case online(ServerFacts)
    /// Nothing was reached, and why; it is tried again after that time, or when `reconnectNow()` is called.
    case waiting(Duration, ClientError)
    /// The server, or the settings, make further attempts useless. `start()` and `connect()` begin anew.
    case refused(ClientError)
    /// The client is gone for good.
    case ended

    /// Whether messages flow.
    public var isOnline: Bool {
        if case .online = self { true } else { false }
    }

    /// The filters of subscriptions whose consumers take less than comes, while it is online: their backlog has been
    /// full for five seconds, or for as long they have not acknowledged a message of QoS 1 or 2 behind which nine or
    /// more stand. Messages of QoS 0 beyond the backlog are dropped; messages of QoS 1 and 2, also those of other
    /// subscriptions, may wait at the server. None in the usual case.
    public var heldBy: [TopicFilter] {
        if case .online(let facts) = self { facts.heldBy } else { [] }
    }
}

/// What a server said when it let the client in, and how the connection stands.
public struct ServerFacts: Hashable, Sendable {
    /// Which connection of the client this is, counted from 1.
    public var connectionNumber: UInt64
    /// Which of the settings' servers it is, or where it sent us.
    public var address: String
    /// The version of MQTT that is spoken.
    public var version: ProtocolVersion
    /// Whether it had kept the session.
    public var isSessionPresent: Bool
    /// The identifier that it gave us, or the settings' own.
    public var clientIdentifier: String
    /// CONNACK's properties; none before MQTT 5.0.
    public var properties: Properties
    /// As ``ConnectionState/heldBy``.
    public var heldBy: [TopicFilter] = []
}

extension ServerFacts: CustomStringConvertible {
    /// Where it is, as whom it knows us, and what holds the client.
    public var description: String {
        let holding = heldBy.isEmpty ? "" : ", held by \(heldBy.map(\.description).joined(separator: " "))"
        return "\(address) as \(clientIdentifier)\(holding)"
    }
}
