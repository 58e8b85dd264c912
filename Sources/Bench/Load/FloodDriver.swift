import MQTTCodec
import Platform
import Transports

/// Clients that publish at QoS 0 as fast as their sockets take it, each to one subscriber.
///
/// Nothing of theirs is timed, and losses are theirs to bear. Their thread gives way to others: whom they delay is to
/// be the broker's doing, and not that of a load generator which shares its cores.
final class FloodDriver: LoadDriver {
    private let control: LoadControl
    private let templates: [PublishTemplate]
    private var opener: ClientOpener
    private var hasGivenWay = false

    init(_ workload: Workload, maker: ChannelMaker, control: LoadControl, filler: PayloadFiller) {
        self.control = control
        let indexes = 0..<workload.floodCount
        templates = indexes.map { index in
            PublishTemplate(
                topic: Workload.name("bench/flood/\(index)"), filler: filler, qos: .atMostOnce, version: workload.options.version)
        }
        let publishers = indexes.map { ClientSpecification(index: $0, subscription: nil, connect: workload.connect("f", $0)) }
        let subscribers = indexes.map { index in
            ClientSpecification(
                index: index,
                subscription: Subscription(
                    filter: Workload.filter("bench/flood/\(index)"), options: SubscriptionOptions(maximumQoS: .atMostOnce)),
                connect: workload.connect("r", index))
        }
        opener = ClientOpener(publishers + subscribers, maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        if !hasGivenWay {
            hasGivenWay = true
            ThreadPriority.lower()
        }
        switch control.phase {
        case .connecting: _ = opener.proceed(worker)
        case .warming, .measuring: publish(worker)
        case .draining: break
        case .over: for client in opener.clients { client.end(worker) }
        }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {}

    func ended(_ client: LoadClient, _ worker: Worker) {
        if control.phase != .over { worker.endedCount += 1 }
    }

    /// Fills the sockets that have room; the loop tells when others do.
    private func publish(_ worker: Worker) {
        var hasRoom = false
        for (client, template) in zip(opener.clients, templates) where client.connection.mayPublish(.atMostOnce) {
            guard client.connection.outputByteCount == 0 else { continue }
            for _ in 0..<Self.burst { client.connection.publish(template, stamp: 0) }
            client.flush(worker)
            if client.connection.outputByteCount == 0 { hasRoom = true }
        }
        if hasRoom { worker.events.wake() }
    }

    private static let burst = 256
}

/// Makes connections to the broker, each with the layers that the load is to go through. For every worker's thread.
struct ChannelMaker: Sendable {
    /// What the host resolves to, the one that is used first.
    private(set) var addresses: [SocketAddress]
    private let layers: ClientLayers
    /// Where subscribers connect instead.
    private let subscriberPort: UInt16?

    /// Resolves the host and reads the files; throws what is wrong with them.
    init(_ options: BenchOptions) throws(BenchError) {
        let transport = options.transport
        subscriberPort = options.subscriberPort
        do throws(ResolutionError) {
            addresses = try ListenAddress(host: options.host, port: options.brokerPort).resolve()
        } catch {
            throw .unresolved(error)
        }
        do throws(TLSFailure) {
            layers = ClientLayers(
                tls: try transport.tlsSettings(host: options.host).map { settings throws(TLSFailure) in
                    try TLSClientContext(settings)
                },
                webSocket: transport.usesWebSocket
                    ? WebSocketClientSettings(host: options.brokerAddress) : nil)
        } catch {
            throw .tls(error)
        }
    }

    /// Begins to connect. The channel becomes writable when it is done; a write then tells whether it failed.
    func makeChannel(isSubscriber: Bool = false, workspace: FilterWorkspace) throws(SystemError) -> any ByteChannel {
        let address = isSubscriber ? subscriberPort.map { addresses[0].withPort($0) } : nil
        return try layers.connecting(to: address ?? addresses[0], workspace: workspace)
    }

    /// Lets all connections go to that address of the host.
    mutating func choose(_ address: SocketAddress) { addresses = [address] }

    /// Whether further connections should wait for the first, because they are to resume its session.
    var awaitsSession: Bool { layers.tls?.isReadyToResume == false }

    /// Tells what the connections went through.
    func describe(_ result: inout BenchResult) {
        guard let tls = layers.tls, tls.handshakeCount > 0 else { return }
        result.add("encryption", "encryption", .text(tls.encryption ?? ""))
        result.add("handshakes", "TLS handshakes", tls.handshakeCount)
        result.add("handshakes_resumed", "  that resumed a session", tls.resumedCount)
    }
}

/// Opens a worker's clients, a bounded number at a time: a broker's queue of connections to accept is finite.
struct ClientOpener {
    private let specifications: [ClientSpecification]
    private let maker: ChannelMaker
    private let inFlightMax: Int
    private let publisherCount: Int
    private(set) var clients: [LoadClient] = []
    /// Whether the kernel has refused to open one.
    private var isRefused = false

    init(_ specifications: [ClientSpecification], maker: ChannelMaker, workload: Workload) {
        self.specifications = specifications
        self.maker = maker
        inFlightMax = workload.options.inFlight
        publisherCount = workload.followsNumbers ? workload.publisherCount : 0
        clients.reserveCapacity(specifications.count)
    }

    /// Opens what may be opened now. Returns whether all have been.
    mutating func proceed(_ worker: Worker) -> Bool {
        while clients.count < specifications.count, !isRefused {
            guard clients.count - worker.tally.readyCount - worker.endedCount < pendingMax(worker) else { return false }
            let specification = specifications[clients.count]
            do throws(SystemError) {
                clients.append(try open(specification, worker))
            } catch {
                isRefused = true
                worker.record(failure: "\(error)")
                worker.endedCount += 1
            }
        }
        return true
    }

    /// Says goodbye for all that are there.
    func endAll(_ worker: Worker) {
        for client in clients where !client.hasEnded {
            client.connection.end()
            client.flush(worker)
            client.end(worker)
        }
    }

    /// Connections on their way at a time; one, while the others are to resume its session.
    private func pendingMax(_ worker: Worker) -> Int {
        maker.awaitsSession && worker.tally.readyCount == 0 ? 1 : Self.pendingMax
    }

    private func open(_ specification: ClientSpecification, _ worker: Worker) throws(SystemError) -> LoadClient {
        let connection = LoadConnection(
            connect: specification.connect, subscription: specification.subscription, inFlightMax: inFlightMax,
            publisherCount: specification.subscription == nil ? 0 : publisherCount, tally: worker.tally)
        let channel = try maker.makeChannel(isSubscriber: specification.subscription != nil, workspace: worker.workspace)
        return try LoadClient(connection: connection, channel: channel, worker: worker)
    }

    /// Connections on their way at a time, for each worker.
    private static let pendingMax = 128
}

/// A client that is to be: whom it connects as, and what it subscribes to.
struct ClientSpecification: Sendable {
    /// Its number among the publishers or among the subscribers.
    let index: Int
    /// nil for a publisher.
    let subscription: Subscription?
    let connect: ConnectPacket

    static func publisher(_ index: Int, _ workload: Workload) -> ClientSpecification {
        ClientSpecification(
            index: index, subscription: nil, connect: workload.connect("p", index, keepsSession: workload.options.keepsSessions))
    }

    static func subscriber(_ index: Int, _ workload: Workload) -> ClientSpecification {
        ClientSpecification(
            index: index, subscription: subscription(index, workload),
            connect: workload.connect("s", index, keepsSession: workload.options.keepsSessions))
    }

    /// One that subscribes and is gone before messages flow.
    static func away(_ index: Int, _ workload: Workload) -> ClientSpecification {
        ClientSpecification(
            index: index, subscription: subscription(index, workload), connect: workload.connect("a", index, keepsSession: true))
    }

    /// A client that connects under the same name, so that this one's session ends: with that connection, if not
    /// before.
    var remover: ClientSpecification {
        var connect = connect
        connect.cleanStart = true  // [MQTT-3.1.2-4 v5]
        connect.properties.sessionExpiryInterval = nil
        return ClientSpecification(index: index, subscription: nil, connect: connect)
    }

    private static func subscription(_ index: Int, _ workload: Workload) -> Subscription {
        Subscription(
            filter: workload.filter(subscriber: index), options: SubscriptionOptions(maximumQoS: workload.subscriberQoS))
    }
}

/// Ties a connection of the load to its transport and its registration on the loop. Belongs to one worker, which owns
/// it.
final class LoadClient: EventHandler {
    let connection: LoadConnection
    private let channel: any ByteChannel
    /// The connection's channel, if it has layers.
    private let filtered: FilteredChannel?
    /// What a layer has against the broker.
    private var refusal: FilterRefusal?
    /// How the transport broke.
    private var breakage: SystemError?
    /// Whether the broker has ended the connection of its own accord.
    private var isLeft = false
    /// Not retained: the worker owns its clients.
    private let worker: Unmanaged<Worker>
    private var registration: Registration?
    private var interest: Interest = [.writable]
    private var hasBegun = false
    /// Whether the broker had let it in when it ended.
    private var isReady = false
    private(set) var hasEnded = false

    init(connection: LoadConnection, channel: any ByteChannel, worker: Worker) throws(SystemError) {
        self.connection = connection
        self.channel = channel
        filtered = channel as? FilteredChannel
        self.worker = Unmanaged.passUnretained(worker)
        registration = try worker.events.register(channel.fileDescriptor, for: interest, handler: self)
    }

    func ready(_ events: ReadyEvents) {
        worker._withUnsafeGuaranteedRef { worker in
            if events.contains(.writable) {
                filtered?.flush()
                if !hasBegun {
                    hasBegun = true
                    connection.begin()
                }
                flush(worker)
            }
            if !events.isDisjoint(with: [.readable, .hangUp, .error]), !hasEnded { read(worker) }
        }
    }

    /// Sends what waits, as far as the transport takes it.
    func flush(_ worker: Worker) {
        while connection.outputByteCount > 0, !hasEnded {
            let count = connection.gatherOutput(into: worker.slices)
            let slices = UnsafeBufferPointer(start: worker.slices.baseAddress, count: count)
            switch channel.write(slices) {
            case .wrote(let written): connection.consumeOutput(written)
            // The peer's part of a handshake comes as bytes to read; a socket with room would only wake us again and
            // again.
            case .wouldBlock: return setInterest(filtered?.awaitsPeer == true ? .readable : [.readable, .writable], worker)
            case .failed(let error):
                breakage = error
                return end(worker)
            }
        }
        setInterest(filtered?.holdsBytes == true ? [.readable, .writable] : .readable, worker)
    }

    /// Why it ended, as far as that is known.
    var failure: String? {
        // As it was asked to.
        if connection.hasSaidGoodbye, connection.failure == nil, refusal == nil { return nil }
        if let refusal { return "\(refusal)" }
        if let failure = connection.failure { return "\(failure)" }
        if isLeft { return isReady ? "the broker closed the connection" : Self.leftEarly }
        return breakage.map { "\($0)" }
    }

    private static let leftEarly =
        "the broker closed the connection without an answer (a port for TLS wants --tls, one for WebSocket --websocket)"

    /// Lets the connection go.
    func end(_ worker: Worker) {
        guard !hasEnded else { return }
        hasEnded = true
        isReady = connection.isReady
        connection.transportEnded()
        if let registration { worker.events.deregister(registration) }
        registration = nil
        channel.close()
        worker.ended(self)
    }

    private var hasOutput: Bool { connection.outputByteCount > 0 || filtered?.holdsBytes == true }

    private func read(_ worker: Worker) {
        let scratch = worker.events.scratch
        // Only a packet's head is carried; one that is longer than this is none of a sane broker's.
        guard connection.carriedByteCount < scratch.count / 2 else { return end(worker) }
        let carried = connection.copyCarriedBytes(to: scratch)
        switch channel.read(into: UnsafeMutableRawBufferPointer(rebasing: scratch[carried...])) {
        case .bytes(let count):
            worker.recorder.now = MonotonicClock.nanoseconds()
            let bytes = UnsafeRawBufferPointer(start: scratch.baseAddress, count: carried + count)
            connection.received(bytes, observer: worker.recorder)
            if connection.failure != nil { return end(worker) }
            if hasOutput { flush(worker) }
            worker.received(self)
        case .wouldBlock:
            // A handshake may be complete, and what waits for it may go.
            if hasOutput { flush(worker) }
        case .refused(let refusal):
            self.refusal = refusal
            end(worker)
        case .endOfStream:
            isLeft = true
            end(worker)
        case .failed(let error):
            breakage = error
            end(worker)
        }
    }

    private func setInterest(_ wanted: Interest, _ worker: Worker) {
        guard wanted != interest, let registration else { return }
        interest = wanted
        worker.events.modify(registration, interest: wanted)
    }
}
