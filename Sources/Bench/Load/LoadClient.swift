import EpollLoop
import Platform
import Transports

/// Ties a connection of the load to its transport and its registration on the loop. Belongs to one worker, which owns it.
final class LoadClient: EventHandler {
    let connection: LoadConnection
    private let channel: any ByteChannel
    /// The same channel, if it has layers.
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
            // The peer's part of a handshake comes as bytes to read; a socket with room would only wake us again and again.
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
