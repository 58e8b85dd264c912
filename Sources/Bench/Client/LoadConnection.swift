import Bytes
import MQTTCodec

/// One client of a load: the cheapest that keeps to the protocol. It counts what arrives and acknowledges it, and keeps
/// nothing.
///
/// ```
///   idle ──begin──► connecting ──CONNACK──► subscribing ──SUBACK──► ready
///                        └──── without a filter ─────────────────────▲        any ──► failed
/// ```
/// Nothing is allocated for a message, neither on the way out nor in: 84 bytes in take about 5 ns. Belongs to the
/// thread of its tally. The shell reads behind `carriedBytes`, calls `received`, and sends what `gatherOutput` shows.
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

/// The broker's packets that are no messages.
extension LoadConnection {
    func receivedControl(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer) {
        switch firstByte >> 4 {
        case PacketType.puback.rawValue, PacketType.pubcomp.rawValue: receivedFinalAcknowledgement(body)
        case PacketType.pubrec.rawValue: receivedPubrec(body)
        case PacketType.pubrel.rawValue: receivedPubrel(body)
        default: receivedRarePacket(firstByte, body)
        }
    }

    /// PUBACK or PUBCOMP.
    private func receivedFinalAcknowledgement(_ body: UnsafeRawBufferPointer) {
        guard body.count >= 2 else { return fail(.malformed) }
        completed(isRejected: isError(body))
    }

    private func receivedPubrec(_ body: UnsafeRawBufferPointer) {
        guard body.count >= 2 else { return fail(.malformed) }
        if isError(body) { return completed(isRejected: true) }
        writeAcknowledgement(0x62, body.loadUnaligned(as: UInt16.self))  // [MQTT-4.3.3-4 v5]
    }

    private func receivedPubrel(_ body: UnsafeRawBufferPointer) {
        guard body.count >= 2 else { return fail(.malformed) }
        writeAcknowledgement(0x70, body.loadUnaligned(as: UInt16.self))  // [MQTT-4.3.3-11 v5]
    }

    @inline(__always)
    private func isError(_ body: UnsafeRawBufferPointer) -> Bool { body.count > 2 && body[2] >= 0x80 }

    @inline(__always)
    private func completed(isRejected: Bool) {
        inFlight = max(0, inFlight &- 1)
        tally.acknowledged &+= 1
        if isRejected { tally.rejected &+= 1 }
    }

    @inline(never)
    private func receivedRarePacket(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer) {
        do throws(WireError) {
            let packet = try ControlPacket.decode(firstByte: firstByte, body: body, version: connect.version, from: .server)
            switch packet {
            case .connack(let connack): receivedConnack(connack)
            case .suback(let suback): receivedSuback(suback)
            case .disconnect(let disconnect): fail(.disconnected(disconnect.reasonCode))
            default: break  // PINGRESP and UNSUBACK answer what is not sent here.
            }
        } catch {
            fail(.malformed)
        }
    }

    private func receivedConnack(_ packet: ConnackPacket) {
        guard phase == .connecting else { return fail(.malformed) }
        guard packet.isAccepted else {
            return fail(.refused(code: isVersion5 ? packet.reasonCode.rawValue : packet.returnCode.rawValue))
        }
        if let maximum = packet.properties.receiveMaximum { inFlightMax = min(inFlightMax, Int(maximum)) }
        guard let subscription else { return becomeReady() }
        phase = .subscribing
        write(.subscribe(SubscribePacket(packetIdentifier: 1, subscriptions: [subscription])))
    }

    private func receivedSuback(_ packet: SubackPacket) {
        guard phase == .subscribing, let code = packet.reasonCodes.first else { return fail(.malformed) }
        guard !code.isError else { return fail(.subscriptionRefused(code: code.rawValue)) }
        becomeReady()
    }

    private func becomeReady() {
        phase = .ready
        tally.ready += 1
    }

    func fail(_ failure: LoadFailure) {
        if phase == .ready { tally.ready -= 1 }
        phase = .failed
        self.failure = failure
    }
}

/// What the broker sent.
extension LoadConnection {
    /// The beginning of a packet, to be put before the bytes that are read next.
    var carriedByteCount: Int { carried.count }

    /// Copies it to the front of the memory that the next bytes are read into, behind it; returns how many bytes it is.
    func copyCarriedBytes(to memory: UnsafeMutableRawBufferPointer) -> Int {
        guard !carried.isEmpty else { return 0 }
        memory.copyBytes(from: carried)
        return carried.count
    }

    /// Takes what was carried, if anything, and what was read behind it. Never traps, whatever the bytes.
    func received(_ bytes: UnsafeRawBufferPointer, observer: any DeliveryObserver) {
        guard let base = bytes.baseAddress, phase != .failed else { return }
        if !carried.isEmpty { carried.removeAll(keepingCapacity: true) }
        var position = skip(bytes.count, observer)
        // Messages of one burst have one stamp, and are told together.
        var run = StampRun(observer: observer)
        while bytes.count &- position >= 2 {
            let rest = UnsafeRawBufferPointer(start: base + position, count: bytes.count &- position)
            guard case .packet(let firstByte, let headerLength, let bodyLength) = FrameScan.scan(rest) else {
                if rest.count >= 5 { fail(.malformed) }
                break
            }
            let isPublish = firstByte & 0xF0 == 0x30
            let available = rest.count &- headerLength
            if bodyLength > available {
                if isPublish { beginSkip(firstByte, base + position + headerLength, bodyLength, available, &position, bytes.count) }
                break
            }
            let body = UnsafeRawBufferPointer(start: base + position + headerLength, count: bodyLength)
            if isPublish {
                guard let stamp = acknowledge(firstByte, body, bodyLength: bodyLength) else {
                    fail(.malformed)
                    break
                }
                deliveredHere &+= 1
                run.add(stamp)
            } else {
                receivedControl(firstByte, body)
            }
            position &+= headerLength &+ bodyLength
        }
        tally.delivered &+= run.finish()
        if position < bytes.count, phase != .failed { carried.append(contentsOf: bytes[position...]) }
    }

    /// Reads stamp and identifier of a PUBLISH of which at least the part before the payload is there; acknowledges it
    /// when it is whole.
    ///
    /// Returns the stamp, 0 without one; nil when the packet is not whole or not right.
    @inline(__always)
    private func acknowledge(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, bodyLength: Int) -> UInt64? {
        guard body.count >= 2 else { return nil }
        var offset = 2 &+ Int(UInt16(bigEndian: body.loadUnaligned(as: UInt16.self)))
        let qos = (firstByte &>> 1) & 3
        var identifier: UInt16 = 0
        if qos > 0 {
            guard offset &+ 2 <= body.count else { return nil }
            identifier = body.loadUnaligned(fromByteOffset: offset, as: UInt16.self)
            offset &+= 2
        }
        if isVersion5 {
            guard offset < body.count else { return nil }
            let length = Int(body[offset])
            guard length < 0x80 else { return acknowledgeLong(qos, identifier, body, offset, bodyLength) }
            offset &+= 1 &+ length
        }
        return readStamp(qos, identifier, body, offset, bodyLength)
    }

    @inline(never)
    private func acknowledgeLong(
        _ qos: UInt8, _ identifier: UInt16, _ body: UnsafeRawBufferPointer, _ offset: Int, _ bodyLength: Int
    ) -> UInt64? {
        guard let length = try? VariableByteInteger.read(UnsafeRawBufferPointer(rebasing: body[offset...])) else { return nil }
        return readStamp(qos, identifier, body, offset + length.size + length.value, bodyLength)
    }

    @inline(__always)
    private func readStamp(
        _ qos: UInt8, _ identifier: UInt16, _ body: UnsafeRawBufferPointer, _ offset: Int, _ bodyLength: Int
    ) -> UInt64? {
        let stamped = min(bodyLength &- offset, PayloadStamp.byteCount)
        guard stamped >= 0, offset &+ stamped <= body.count else { return nil }
        var stamp: UInt64 = 0
        if stamped >= PayloadStamp.timeByteCount { stamp = body.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        if stamped == PayloadStamp.byteCount {
            sequence.check(
                publisher: body.loadUnaligned(fromByteOffset: offset &+ PayloadStamp.publisherOffset, as: UInt32.self),
                number: body.loadUnaligned(fromByteOffset: offset &+ PayloadStamp.numberOffset, as: UInt32.self), in: tally)
        }
        // [MQTT-4.3.2-4 v5] [MQTT-4.3.3-8 v5]
        if qos > 0 {
            let acknowledgement: UInt8 = qos == 1 ? 0x40 : 0x50
            if body.count == bodyLength {
                writeAcknowledgement(acknowledgement, identifier)
            } else {
                skippedAcknowledgement = (acknowledgement, identifier)
            }
        }
        return stamp
    }

    /// The four bytes of PUBACK, PUBREC, PUBREL or PUBCOMP; the identifier as it lies in memory.
    @inline(__always)
    func writeAcknowledgement(_ firstByte: UInt8, _ identifier: UInt16) {
        let memory = output.append(4)
        memory.storeBytes(of: firstByte, as: UInt8.self)
        memory.storeBytes(of: 2, toByteOffset: 1, as: UInt8.self)
        memory.storeBytes(of: identifier, toByteOffset: 2, as: UInt16.self)
    }

    // MARK: A message larger than what was read

    /// Reads what stands before the payload, so that the payload need not be kept until it is whole.
    private func beginSkip(
        _ firstByte: UInt8, _ body: UnsafeRawPointer, _ bodyLength: Int, _ available: Int, _ position: inout Int, _ end: Int
    ) {
        guard let stamp = acknowledge(firstByte, UnsafeRawBufferPointer(start: body, count: available), bodyLength: bodyLength)
        else {
            return
        }
        skippedStamp = stamp
        skipCount = bodyLength - available
        position = end
    }

    /// Passes over the payload; the message has arrived when its last byte has. Returns how many bytes that were.
    private func skip(_ count: Int, _ observer: any DeliveryObserver) -> Int {
        guard skipCount > 0 else { return 0 }
        let skipped = min(skipCount, count)
        skipCount -= skipped
        if skipCount == 0 {
            deliveredHere &+= 1
            tally.delivered &+= 1
            if let (acknowledgement, identifier) = skippedAcknowledgement { writeAcknowledgement(acknowledgement, identifier) }
            skippedAcknowledgement = nil
            if skippedStamp != 0 { observer.delivered(1, stampedAt: skippedStamp) }
        }
        return skipped
    }
}

/// Messages in a row with one stamp.
private struct StampRun {
    let observer: any DeliveryObserver
    private var stamp: UInt64 = 0
    private var count = 0
    private var total: UInt64 = 0

    init(observer: any DeliveryObserver) { self.observer = observer }

    @inline(__always)
    mutating func add(_ next: UInt64) {
        if next != stamp { finishRun(next: next) }
        count &+= 1
    }

    private mutating func finishRun(next: UInt64) {
        if count > 0, stamp != 0 { observer.delivered(count, stampedAt: stamp) }
        total &+= UInt64(count)
        count = 0
        stamp = next
    }

    /// Tells the last run; returns how many messages there were.
    mutating func finish() -> UInt64 {
        finishRun(next: 0)
        return total
    }
}

/// Hears how long messages took.
protocol DeliveryObserver: AnyObject {
    /// So many messages in a row arrived that were stamped at this time. Once for a run of equal stamps, not for each
    /// message.
    func delivered(_ count: Int, stampedAt nanoseconds: UInt64)
}

/// Why a connection of a load came to its end.
enum LoadFailure: Error, Sendable, Hashable {
    /// CONNACK with this return code (MQTT 3) or reason code (MQTT 5.0).
    case refused(code: UInt8)
    /// SUBACK with this code.
    case subscriptionRefused(code: UInt8)
    /// The broker's DISCONNECT.
    case disconnected(ReasonCode)
    /// What the broker sent was no MQTT.
    case malformed
}

extension LoadFailure: CustomStringConvertible {
    var description: String {
        switch self {
        case .refused(let code): "the broker refused the connection with code \(code)\(Self.meaning(of: code))"
        case .subscriptionRefused(let code): "the broker refused the subscription with code \(code)"
        case .disconnected(let reason): "the broker disconnected with reason \(reason.rawValue)"
        case .malformed: "the broker sent what is no MQTT"
        }
    }

    /// What a code of CONNACK means, and what to do, in those cases that people meet.
    private static func meaning(of code: UInt8) -> String {
        switch code {
        case 1, 0x84: ", which means that it does not speak this version of MQTT: choose another with --mqtt-version"
        case 4, 0x86: ", which means that --user or --password is wrong"
        case 5, 0x87: ", which means not authorized: say who the load is with --user and --password"
        default: ""
        }
    }
}

/// Follows the numbers of each publisher's messages on one connection, and so tells what was lost and what came twice.
///
/// A publisher's messages on one topic arrive in order on one connection [MQTT-4.6.0-6 v5], so the number expected next
/// is enough.
struct SequenceCheck: ~Copyable {
    private var expected: UnsafeMutablePointer<UInt32>?
    private let count: Int

    /// - Parameter publisherCount: how many publishers there are; 0 to check nothing.
    init(publisherCount: Int) {
        count = publisherCount
        guard publisherCount > 0 else { return }
        expected = .allocate(capacity: publisherCount)
        expected?.initialize(repeating: 0, count: publisherCount)
    }

    deinit { expected?.deallocate() }

    /// Compares a message's number with the one that is expected next, and counts what is missing or came twice.
    @inline(__always)
    func check(publisher: UInt32, number: UInt32, in tally: LoadTally) {
        guard let expected, Int(publisher) < count else { return }
        let next = expected[Int(publisher)]
        expected[Int(publisher)] = number &+ 1
        if number == next { return }
        Self.countJump(from: next, to: number, tally)
        if number < next { expected[Int(publisher)] = next }
    }

    @inline(never)
    private static func countJump(from next: UInt32, to number: UInt32, _ tally: LoadTally) {
        if number > next {
            tally.skipped &+= UInt64(number &- next)
        } else {
            tally.duplicates &+= 1
        }
    }
}
