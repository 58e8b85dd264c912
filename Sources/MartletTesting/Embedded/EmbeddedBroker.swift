internal import BrokerCore
internal import BrokerSimulation
internal import EpollLoop
internal import Platform
internal import Transports

/// The real broker inside the process, on a thread of its own: for tests with the machine's clock, for previews, and for programs that carry
/// their own broker.
///
/// ```swift
/// let broker = try EmbeddedBroker()
/// let client = try Client(ClientSettings(server: .inProcess(broker), clientIdentifier: "panel"))
/// try await client.connect()
/// ```
/// It is Martlet's core with mosquitto's defaults, without listeners, store, login and access rules. It ends with `stop()`, or when the last
/// reference is gone.
public final class EmbeddedBroker: Sendable {
    private let loop: EmbeddedLoop

    /// Starts it. Throws `ClientError.unreachable` when the kernel allows no thread or descriptor more.
    public init() throws(ClientError) {
        do throws(SystemError) {
            loop = EmbeddedLoop(try EventLoop(name: "mqtt broker"))
            let loop = loop
            _ = try NamedThread.start(name: "mqtt broker") { loop.events.run(loop) }
        } catch {
            throw .unreachable(server: "embedded broker", reason: "its thread cannot be started: \(error)")
        }
    }

    deinit { loop.mailbox.post(.end) }

    /// Ends it: clients are told that the server shuts down, and nobody is let in any more.
    public func stop() async {
        await withUnsafeContinuation { continuation in loop.mailbox.post(.stop { continuation.resume() }) }
    }

    /// A new connection's end for a client. Throws when the process has no descriptor left.
    func connect() throws(SystemError) -> SocketChannel {
        let (ours, theirs) = try SocketChannel.pair()
        loop.mailbox.post(.accept(ours))
        return theirs
    }

    // MARK: What has happened in it

    /// All messages that were published, in the order in which it took them; a message of QoS 2 once, wills included.
    public var published: [Publication] { loop.published.all }

    /// Those to a topic.
    public func published(_ topic: TopicName) -> [Publication] { loop.published.to(topic) }

    /// The retained messages, sorted by topic.
    public var retained: [Publication] { get async { await ask { $0.retainedMessages() } ?? [] } }

    /// The filters that a client subscribes to, sorted, also while it is away.
    public func subscriptions(of clientIdentifier: String) async -> [TopicFilter] {
        await ask { $0.filters(of: clientIdentifier) } ?? []
    }

    /// The identifiers of the clients that are connected, sorted.
    public var clients: [String] { get async { await ask { $0.connectedClients() } ?? [] } }

    /// Nil when it has stopped.
    private func ask<Answer: Sendable>(_ question: @escaping @Sendable (SimulatedBroker) -> Answer) async -> Answer? {
        await withUnsafeContinuation { continuation in
            loop.mailbox.post(.ask { continuation.resume(returning: $0.map(question)) })
        }
    }
}

extension ServerAddress {
    /// A broker in this process.
    public static func inProcess(_ broker: EmbeddedBroker) -> ServerAddress {
        .custom("the broker of this process") { [weak broker] in
            guard let broker else { throw SimulationError("it has ended") }
            return try broker.connect()
        }
    }
}
