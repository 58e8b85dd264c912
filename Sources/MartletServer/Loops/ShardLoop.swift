import BrokerCore
import EpollLoop
import MQTTCodec
import Synchronization
import Transports

/// One thread of the broker: an event loop, the shard of the core that lives on it, and the transports of its connections.
///
/// Made on the control thread; from `run` on it belongs to its own thread, except for `mailbox`.
final class ShardLoop: LoopTurn, OutputSink, @unchecked Sendable {
    let index: Int
    let events: EventLoop
    let mailbox: Mailbox<LoopLetter>
    private let shard: BrokerShard
    private let log: Log
    private var listeners: [(listener: Listener, policy: Int)]
    /// By slot of the core's connection table.
    private var links: [Link?] = []
    private var draining: [(link: Link, deadline: UInt64)] = []
    /// All loops of the broker, by index; set before any runs.
    var loops: [ShardLoop] = []
    private var isStopping = false
    /// The last heartbeat that the loop was asked for. For any thread.
    let heartbeat = Atomic<UInt64>(0)
    private var heapMeasuredAt: UInt64?

    init(index: Int, shard: BrokerShard, listeners: [(listener: Listener, policy: Int)], log: Log) throws(SystemError) {
        self.index = index
        self.shard = shard
        self.listeners = listeners
        self.log = log
        events = try EventLoop(name: "loop \(index)")
        mailbox = Mailbox(loop: events)
    }

    /// Works until the broker is told to stop and every connection has ended.
    func run() {
        for (listener, policy) in listeners { start(listener, policy) }
        events.run(self)
    }

    // MARK: Turns

    func beginTurn(now: UInt64) {
        if index == 0 { measureHeap(now: now) }
        shard.advance(to: now)
        mailbox.drain { letter in
            switch letter {
            case .mail(let sender, let batch): shard.receivedMail(batch, from: sender)
            case .handOver(let handOver, let channel): adopt(handOver, channel)
            case .logLine(let topic, let text): shard.publishLogLine(topic: topic, text: text)
            case .settings(let settings): shard.apply(settings)
            case .listSubscriptions: shard.listSubscriptions()
            case .heartbeat(let number): heartbeat.store(number, ordering: .releasing)
            case .stop: stop()
            }
        }
    }

    func endOfTurn(now: UInt64) -> UInt64? {
        shard.endTurn(into: self)
        shard.takeEffects { effect in
            switch effect {
            case .close(let id): close(id, now: now)
            case .handOver(let id, let handOver): send(id, handOver)
            case .authenticate(let id, let request): authenticate(id, request)
            case .mail(let receiver, let batch): loops[receiver].mailbox.post(.mail(from: index, batch))
            case .log(let topic, let text): log.write(topic, text)
            }
        }
        closeDrained(now: now)
        if isStopping, shard.isIdle, draining.isEmpty { events.stop() }
        guard let deadline = shard.nextDeadline else { return draining.first?.deadline }
        return min(deadline, draining.first?.deadline ?? .max)
    }

    /// Tells the core, which knows no allocator, for `$SYS`: at most once a second, since it takes the allocator's locks.
    private func measureHeap(now: UInt64) {
        if let heapMeasuredAt, now < heapMeasuredAt + 1000 { return }
        heapMeasuredAt = now
        shard.noteHeap(byteCount: ProcessMemory.heapBytes())
    }

    // MARK: Connections

    private func start(_ listener: Listener, _ policy: Int) {
        do throws(SystemError) {
            try listener.start(
                on: events, accept: { [unowned self] in accept($0, policy) }, report: { [log] in Self.report($0, to: log) })
        } catch {
            log.write(.error, "Error: \(error).")
        }
    }

    private func accept(_ channel: SocketChannel, _ policy: Int) {
        let peer = channel.peerAddress
        let id = shard.connected(ConnectionInfo(address: peer.host, port: peer.port, listener: policy))
        attach(channel, id)
    }

    private func adopt(_ handOver: HandOver, _ channel: any ByteChannel) {
        attach(channel, shard.adopt(handOver))
    }

    private func attach(_ channel: any ByteChannel, _ id: ConnectionID) {
        let link = Link(channel: channel, id: id, loop: self)
        while links.count <= Int(id.slot) { links.append(nil) }
        links[Int(id.slot)] = link
        do throws(SystemError) {
            try link.register(on: events)
        } catch {
            log.write(.error, "Error: \(error).")
            link.hasEnded = true
            shard.closed(id)
        }
    }

    /// A connection's transport has something for us.
    func ready(_ link: Link, _ ready: ReadyEvents) {
        if link.isDraining {
            drain(link)
            return
        }
        if ready.contains(.writable) { shard.writable(link.id, sink: self) }
        guard !ready.isDisjoint(with: [.readable, .hangUp, .error]) else { return }
        switch link.channel.read(into: events.scratch) {
        case .bytes(let count):
            shard.received(UnsafeRawBufferPointer(start: events.scratch.baseAddress, count: count), from: link.id)
        case .wouldBlock:
            return
        case .refused(let refusal):
            log.write(.notice, "Connection from \(link.channel.peerAddress) refused: \(refusal).")
            shard.closed(link.id)
        case .endOfStream, .failed:
            link.hasEnded = true
            shard.closed(link.id)
        }
    }

    func send(_ slices: UnsafeBufferPointer<OutputSlice>, to id: ConnectionID) -> Int {
        guard let link = links[Int(id.slot)], link.id == id else { return 0 }
        let result = slices.withMemoryRebound(to: TransportSlice.self) { link.channel.write($0) }
        guard case .wrote(let count) = result else {
            // A broken transport is reported by the loop; a full one too, once it has room.
            link.setInterest(shard.isFlooded(id) ? .writable : [.readable, .writable], on: events)
            return 0
        }
        var offered = 0
        for slice in slices { offered &+= slice.count }
        if count < offered {
            link.setInterest(shard.isFlooded(id) ? .writable : [.readable, .writable], on: events)
        } else {
            link.setInterest(.readable, on: events)
        }
        return count
    }

    /// The core has ended a connection.
    private func close(_ id: ConnectionID, now: UInt64) {
        guard let link = take(id) else { return }
        if link.hasEnded {
            finish(link)
            return
        }
        link.isDraining = true
        link.channel.shutdownSending()
        link.setInterest(.readable, on: events)
        draining.append((link, now + Self.drainMilliseconds))
        drain(link)
    }

    private func drain(_ link: Link) {
        switch link.channel.read(into: events.scratch) {
        case .bytes, .wouldBlock: return
        case .endOfStream, .refused, .failed: link.hasEnded = true
        }
    }

    /// Lets go of the links whose peer has ended too, and of those whose time is up.
    private func closeDrained(now: UInt64) {
        guard !draining.isEmpty else { return }
        draining.removeAll { link, deadline in
            guard link.hasEnded || deadline <= now else { return false }
            finish(link)
            return true
        }
    }

    private func finish(_ link: Link) {
        link.deregister(from: events)
        link.channel.close()
    }

    private func send(_ id: ConnectionID, _ handOver: HandOver) {
        guard let link = take(id) else { return }
        link.deregister(from: events)
        loops[handOver.shard].mailbox.post(.handOver(handOver, link.channel))
    }

    private func take(_ id: ConnectionID) -> Link? {
        guard let link = links[Int(id.slot)], link.id == id else { return nil }
        links[Int(id.slot)] = nil
        return link
    }

    private func authenticate(_ id: ConnectionID, _ request: AuthenticationRequest) {
        shard.authenticated(id, .refused(.notAuthorized))
    }

    // MARK: The end

    private func stop() {
        isStopping = true
        for (listener, _) in listeners { listener.stop() }
        listeners = []
        shard.stop()
    }

    private static func report(_ report: ListenerReport, to log: Log) {
        switch report {
        case .paused(let error):
            log.write(.warning, "Warning: Unable to accept new connections: \(error). Trying again every 100 ms.")
        case .resumed(let count):
            log.write(.notice, "Accepting connections again; \(count) were turned away.")
        }
    }

    /// How long a peer may take to end its side after we have ended ours.
    private static let drainMilliseconds: UInt64 = 1000
}
