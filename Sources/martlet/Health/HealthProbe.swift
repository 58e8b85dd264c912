import Bytes
import Glibc
import MQTTCodec
import Platform
import Transports

/// One question to a broker: it connects, logs in and sends PINGREQ. Blocks until the answers are there or the deadline has passed.
struct HealthProbe {
    enum Finding {
        case isWell
        /// It answers, and does not let this login in: the return code of its CONNACK.
        case refuses(ConnectReturnCode)
    }

    /// Why nothing can be said, as the end of a sentence about the broker.
    struct Failure: Error {
        let reason: String
        /// The deadline has passed.
        var isLate = false
    }

    private let channel: any ByteChannel
    /// The same channel, if it has layers.
    private let filtered: FilteredChannel?
    private let deadline: UInt64
    private var hasBegun = false
    private var received: [UInt8] = []

    /// Begins to connect.
    ///
    /// - Parameters:
    ///   - address: where the broker listens.
    ///   - layers: what the listener has on top of its socket.
    ///   - deadline: in milliseconds of the monotonic clock.
    init(_ address: SocketAddress, _ layers: ClientLayers, deadline: UInt64) throws(Failure) {
        do throws(SystemError) {
            channel = try layers.connecting(to: address, workspace: FilterWorkspace())
        } catch {
            throw Failure(reason: error.reason)
        }
        filtered = channel as? FilteredChannel
        self.deadline = deadline
    }

    /// Asks, and lets the connection go.
    mutating func ask(_ connect: ConnectPacket) throws(Failure) -> Finding {
        defer { channel.close() }
        guard case .connack(let answer) = try answer(to: ControlPacket.connect(connect).encoded(version: .v311)) else {
            throw Self.stranger
        }
        guard answer.isAccepted else { return .refuses(answer.returnCode) }
        guard case .pingresp = try self.answer(to: ControlPacket.pingreq.encoded(version: .v311)) else {
            throw Failure(reason: "it lets clients in and does not answer them")
        }
        send(DisconnectPacket())
        return .isWell
    }

    /// Asks without a login, whose answer a broker may hold back: whether it says that it does not speak a version that nobody does.
    mutating func askWithoutLogin() throws(Failure) {
        defer { channel.close() }
        // CONNECT of MQTT's level 127. [MQTT-3.1.2-2 v3.1.1]
        let connect: [UInt8] = [0x10, 12, 0, 4, 0x4D, 0x51, 0x54, 0x54, 127, 2, 0, 0, 0, 0]
        guard case .connack = try answer(to: connect) else { throw Self.stranger }
    }

    private mutating func answer(to packet: [UInt8]) throws(Failure) -> ControlPacket {
        var output = packet[...]
        while true {
            if output.isEmpty, let packet = try nextPacket() { return packet }
            try waitForPeer(wantsToWrite: !output.isEmpty)
            filtered?.flush()
            if !output.isEmpty { try write(&output) }
            try read()
        }
    }

    /// Waits until the socket has something for us, or room.
    private mutating func waitForPeer(wantsToWrite: Bool) throws(Failure) {
        var entry = pollfd(fd: channel.fileDescriptor, events: Int16(POLLIN), revents: 0)
        // The peer's part of a handshake comes as bytes to read; a socket with room would only wake us again and again. The first write
        // begins it.
        let awaitsPeer = hasBegun && filtered?.awaitsPeer == true
        if filtered?.holdsBytes == true || wantsToWrite && !awaitsPeer { entry.events |= Int16(POLLOUT) }
        hasBegun = true
        let now = MonotonicClock.milliseconds()
        guard now < deadline, poll(&entry, 1, Int32(deadline - now)) != 0 else {
            throw Failure(reason: "it does not answer in time", isLate: true)
        }
    }

    private func write(_ output: inout ArraySlice<UInt8>) throws(Failure) {
        let result = output.withUnsafeBytes { bytes -> WriteResult in
            guard let base = bytes.baseAddress else { return .wouldBlock }
            return withUnsafePointer(to: ByteSlice(base: base, count: bytes.count)) {
                channel.write(UnsafeBufferPointer(start: $0, count: 1))
            }
        }
        switch result {
        case .wrote(let count): output = output.dropFirst(count)
        case .wouldBlock: return
        case .failed(let error): throw Failure(reason: error.reason)
        }
    }

    private mutating func read() throws(Failure) {
        var chunk: [UInt8] = []
        let result = withUnsafeTemporaryAllocation(byteCount: Self.readBytes, alignment: 16) { buffer in
            let result = channel.read(into: buffer)
            if case .bytes(let count) = result { chunk = Array(buffer[..<count]) }
            return result
        }
        switch result {
        case .bytes: received += chunk
        case .wouldBlock: return
        case .endOfStream: throw received.isEmpty ? Failure(reason: "it closes the connection without an answer") : Self.stranger
        case .refused(let refusal): throw Failure(reason: "\(refusal)")
        case .failed(let error): throw Failure(reason: error.reason)
        }
    }

    /// The packet at the front of what was received, once it is whole.
    private mutating func nextPacket() throws(Failure) -> ControlPacket? {
        let found: (packet: ControlPacket, count: Int)?
        do {
            found = try received.withUnsafeBytes { bytes in
                switch FrameScan.scan(bytes) {
                case .incomplete: return nil
                case .malformed(let error): throw error
                case .packet(let firstByte, let headerLength, let bodyLength):
                    guard bytes.count >= headerLength + bodyLength else { return nil }
                    let body = UnsafeRawBufferPointer(rebasing: bytes[headerLength..<(headerLength + bodyLength)])
                    let packet = try ControlPacket.decode(firstByte: firstByte, body: body, version: .v311, from: .server)
                    return (packet, headerLength + bodyLength)
                }
            }
        } catch {
            throw Self.stranger
        }
        guard let found else { return nil }
        received.removeFirst(found.count)
        return found.packet
    }

    /// Whether the goodbye arrives changes nothing.
    private func send(_ goodbye: DisconnectPacket) {
        var output = ControlPacket.disconnect(goodbye).encoded(version: .v311)[...]
        try? write(&output)
        channel.shutdownSending()
    }

    /// What a channel with layers wants at least.
    private static let readBytes = 64 << 10
    private static let stranger = Failure(reason: "what listens there does not answer as an MQTT broker")
}
