import Bytes
import MQTTCodec

/// One client of a load: the cheapest that keeps to the protocol. It counts what arrives and acknowledges it, and keeps nothing.
///
/// ```
///   idle ──begin──► connecting ──CONNACK──► subscribing ──SUBACK──► ready
///                        └──── without a filter ─────────────────────▲        any ──► failed
/// ```
/// Nothing is allocated for a message, neither on the way out nor in: 84 bytes in take about 5 ns. Belongs to the thread of its
/// tally. The shell reads behind `carriedBytes`, calls `received`, and sends what `gatherOutput` shows.
final class LoadConnection {
    enum Phase {
        /// `begin` is to come.
        case idle
        /// CONNECT is on its way.
        case connecting
        /// SUBSCRIBE is on its way.
        case subscribing
        /// Publishes and receives.
        case ready
        /// Ended; `failure` says why.
        case failed
    }

    let connect: ConnectPacket
    let subscription: Subscription?
    let isVersion5: Bool
    let tally: LoadTally
    let sequence: SequenceCheck
    var phase = Phase.idle
    var output = LoadOutput()
    /// The beginning of a packet whose rest has not come.
    var carried: [UInt8] = []
    /// Payload still to come of a message whose stamp has been read.
    var skipCount = 0
    var skippedStamp: UInt64 = 0
    /// What answers it when it is whole: first byte, and the identifier as it lies in memory.
    var skippedAcknowledgement: (UInt8, UInt16)?
    /// QoS 1 and 2 messages sent whose handshake is not complete. Invariant: at most `inFlightMax`.
    var inFlight = 0
    var inFlightMax: Int
    var lastIdentifier: UInt16 = 0
    var deliveredHere: UInt64 = 0
    /// Whether DISCONNECT was written: the broker is to close the connection then.
    private(set) var hasSaidGoodbye = false

    /// Why it failed, nil while it has not.
    var failure: LoadFailure?

    /// - Parameters:
    ///   - connect: names the version, the client and what it announces.
    ///   - subscription: nil for a client that only publishes.
    ///   - inFlightMax: how many QoS 1 and 2 messages may be unacknowledged; the broker's Receive Maximum lowers it.
    ///   - publisherCount: whose numbers are followed; 0 where they do not arrive whole, as in a share group.
    init(
        connect: ConnectPacket, subscription: Subscription?, inFlightMax: Int, publisherCount: Int, tally: LoadTally
    ) {
        self.connect = connect
        self.subscription = subscription
        self.inFlightMax = inFlightMax
        self.tally = tally
        isVersion5 = connect.version == .v5
        sequence = SequenceCheck(publisherCount: publisherCount)
    }

    /// Whether it is connected, and subscribed if it subscribes.
    var isReady: Bool { phase == .ready }

    /// Messages received on this connection.
    var deliveredCount: UInt64 { deliveredHere }

    /// QoS 1 and 2 messages whose handshake is not complete.
    var inFlightCount: Int { inFlight }

    /// Writes CONNECT: the transport is there.
    func begin() {
        precondition(phase == .idle, "a connection begins once")
        phase = .connecting
        write(.connect(connect))
    }

    /// Whether a message of that QoS may be sent now.
    @inline(__always)
    func mayPublish(_ qos: QoS) -> Bool {
        phase == .ready && (qos == .atMostOnce || inFlight < inFlightMax)
    }

    /// Writes the template's next message, stamped with that time. To be called only if `mayPublish`. [MQTT-4.9.0-2 v5]
    func publish(_ template: PublishTemplate, stamp: UInt64) {
        let identifier = template.qos == .atMostOnce ? 0 : nextIdentifier()
        template.write(to: output.append(template.headCount), packetIdentifier: identifier, stamp: stamp)
        if template.tailCount > 0 { output.lend(template.tail, count: template.tailCount) }
        tally.published &+= 1
    }

    /// Writes DISCONNECT; the transport is to be closed when the output is sent.
    func end() {
        hasSaidGoodbye = true
        write(.disconnect(DisconnectPacket()))
    }

    /// The transport has ended.
    func transportEnded() {
        if phase == .ready { tally.ready -= 1 }
        phase = .failed
    }

    /// Identifiers go round; those in flight are far fewer than there are. [MQTT-2.2.1-3 v5]
    private func nextIdentifier() -> UInt16 {
        lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier &+ 1
        inFlight &+= 1
        return lastIdentifier
    }

    func write(_ packet: ControlPacket) {
        packet.encoded(version: connect.version).withUnsafeBytes { output.append($0) }
    }
}

// MARK: - Output

extension LoadConnection {
    /// How many bytes wait to be sent.
    var outputByteCount: Int { output.count }

    /// Fills `slices` with what waits, from the front; returns how many it filled.
    func gatherOutput(into slices: UnsafeMutableBufferPointer<ByteSlice>) -> Int {
        output.gather(into: slices)
    }

    /// So many bytes were sent.
    func consumeOutput(_ count: Int) {
        output.consume(count)
    }

    /// Gives back the memory of an output that is empty, for a connection that will be idle.
    func releaseMemory() {
        output.releaseMemory()
        if carried.isEmpty { carried = [] }
    }
}
