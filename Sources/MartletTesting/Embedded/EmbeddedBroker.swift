internal import BrokerCore
internal import BrokerSimulation
internal import Bytes
internal import Platform
internal import Transports

/// The real broker inside the process, on a thread of its own: for tests with the machine's clock, for previews, and
/// for programs that carry their own broker.
///
/// ```swift
/// let broker = try EmbeddedBroker()
/// let client = try Client(ClientSettings(server: .inProcess(broker), clientIdentifier: "panel"))
/// try await client.connect()
/// ```
/// It is Martlet's core with mosquitto's defaults, without listeners, store, login and access rules. It ends with
/// `stop()`, or when the last reference is gone.
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

    /// The publications to one topic, in order.
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

/// The loop of an embedded broker: bytes from sockets into the core, and back.
///
/// ```
///   socket ──EmbeddedLink──► connection ──advance──► connection ──endOfTurn──► socket
/// ```
final class EmbeddedLoop: LoopTurn, @unchecked Sendable {
    // Unchecked: everything but `mailbox`, `published` and `events.wake` belongs to the thread that runs the loop.
    enum Letter: Sendable {
        case accept(SocketChannel)
        /// Gets nil when the broker has stopped.
        case ask(@Sendable (SimulatedBroker?) -> Void)
        case stop(@Sendable () -> Void)
        /// Nobody asks any more.
        case end
    }

    let events: EventLoop
    let mailbox: Mailbox<Letter>
    let published = PublishedMessages()
    private let broker: SimulatedBroker
    private var links: [EmbeddedLink] = []
    private var isStopping = false

    init(_ events: EventLoop) {
        self.events = events
        mailbox = Mailbox(loop: events)
        broker = SimulatedBroker(seed: RandomBytes.seed(), start: events.nowMilliseconds)
        broker.checksInvariants = false
        for core in broker.cores { core.watcher = { [published] in published.append($0) } }
    }

    func beginTurn(now: UInt64) {
        // What comes in this turn comes now, and not when the last turn was.
        broker.stall(until: now)
        mailbox.drain { letter in
            switch letter {
            case .accept(let channel): accept(channel)
            case .ask(let body): body(isStopping ? nil : broker)
            case .stop(let body):
                stop()
                body()
            case .end:
                stop()
                events.stop()
            }
        }
    }

    func endOfTurn(now: UInt64) -> UInt64? {
        if isStopping { return nil }
        repeat {
            broker.settle()
            for link in links { link.write() }
            // Room in a socket lets the core go on.
        } while broker.hasWork
        links.removeAll(where: \.isOver)
        return broker.nextDeadline
    }

    private func accept(_ channel: SocketChannel) {
        guard !isStopping else { return channel.close() }
        let link = EmbeddedLink(channel, broker.open(), events)
        // A kernel without memory: the client sees the connection end.
        do throws(SystemError) { try link.begin() } catch { return channel.close() }
        links.append(link)
    }

    private func stop() {
        guard !isStopping else { return }
        broker.stop()
        for link in links {
            link.write()
            link.end()
        }
        links = []
        isStopping = true
        broker.powerOff()
    }
}

/// A connection between a socket of the process and the broker's core. Belongs to the loop's thread.
private final class EmbeddedLink: EventHandler {
    private let channel: SocketChannel
    private let connection: SimulatedConnection
    private let loop: EventLoop
    private var registration: Registration?
    /// What the socket has not taken.
    private var unwritten: ArraySlice<UInt8> = []

    init(_ channel: SocketChannel, _ connection: SimulatedConnection, _ loop: EventLoop) {
        (self.channel, self.connection, self.loop) = (channel, connection, loop)
    }

    var isOver: Bool { registration == nil }

    func begin() throws(SystemError) {
        registration = try loop.register(channel.fileDescriptor, for: .readable, handler: self)
    }

    func ready(_ events: ReadyEvents) {
        guard !events.isDisjoint(with: [.readable, .hangUp, .error]) else { return }
        switch channel.read(into: loop.scratch) {
        case .bytes(let count): connection.send(Array(loop.scratch[..<count]))
        case .wouldBlock: break
        case .endOfStream, .failed, .refused:
            connection.close()
            end()
        }
    }

    /// Gives the socket what the broker has for it; while it does not take all, the broker keeps the rest.
    func write() {
        guard let registration else { return }
        unwritten += connection.takeBytes()
        while !unwritten.isEmpty {
            let result = unwritten.withUnsafeBytes { bytes in
                // Not empty, so it has an address.
                withUnsafePointer(to: ByteSlice(base: bytes.baseAddress.unsafelyUnwrapped, count: bytes.count)) {
                    channel.write(UnsafeBufferPointer(start: $0, count: 1))
                }
            }
            guard case .wrote(let count) = result else { break }
            unwritten = unwritten.dropFirst(count)
        }
        if unwritten.isEmpty, connection.isClosed { return end() }
        connection.isReading = unwritten.isEmpty
        loop.modify(registration, interest: unwritten.isEmpty ? .readable : [.readable, .writable])
    }

    func end() {
        if let registration { loop.deregister(registration) }
        registration = nil
        channel.close()
    }
}
