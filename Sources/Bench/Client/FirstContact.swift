internal import Bytes
internal import Glibc
internal import MQTTCodec
internal import Platform
internal import Transports

/// The connection before all others: whether the broker can be reached, at which of its host's addresses, and what it
/// calls itself.
///
/// It is made and ended before anything is measured, so it may block, and take a moment to wait for an answer that not
/// every broker gives.
struct FirstContact {
    /// What reaches the broker.
    let address: SocketAddress
    /// What the broker publishes at `$SYS/broker/version`, as mosquitto began it; nil if it says nothing there, or lets
    /// nobody read it.
    let version: String?

    /// Connects to the addresses in turn. Throws what is wrong with the last, and what can be done, if none can be
    /// reached.
    init(_ options: BenchOptions, _ maker: ChannelMaker) throws(BenchError) {
        var refusal: SystemError?
        for address in maker.addresses {
            var maker = maker
            maker.choose(address)
            do throws(SystemError) {
                let channel = try maker.makeChannel(workspace: FilterWorkspace())
                defer { channel.close() }
                try Self.awaitConnected(channel)
                self.address = address
                version = Question(options, channel).version()
                return
            } catch {
                refusal = error
            }
        }
        throw .unreachable(broker: options.brokerAddress, refusal ?? SystemError(errno: EADDRNOTAVAIL, operation: "connect"))
    }

    private static func awaitConnected(_ channel: any ByteChannel) throws(SystemError) {
        var wait = pollfd(fd: channel.fileDescriptor, events: Int16(POLLOUT), revents: 0)
        let ready = try SystemCall.value("poll") { poll(&wait, 1, connectMillisecondsMax) }
        guard ready > 0 else { throw SystemError(errno: ETIMEDOUT, operation: "connect") }
        var (number, size): (Int32, socklen_t) = (0, socklen_t(MemoryLayout<Int32>.size))
        try SystemCall.value("getsockopt") { getsockopt(channel.fileDescriptor, SOL_SOCKET, SO_ERROR, &number, &size) }
        if number != 0 { throw SystemError(errno: number, operation: "connect") }
    }

    static let connectMillisecondsMax: Int32 = 10_000
}

/// Asks a broker for its version. Whatever goes wrong, there is none: the connections of the load will tell.
private struct Question {
    private let options: BenchOptions
    private let channel: any ByteChannel
    private let filtered: FilteredChannel?
    private var output: [UInt8]
    private var input: [UInt8] = []

    init(_ options: BenchOptions, _ channel: any ByteChannel) {
        self.options = options
        self.channel = channel
        filtered = channel as? FilteredChannel
        let connect = ConnectPacket(
            version: options.version, clientIdentifier: Workload.text("bench-\(ProcessIdentifier.own)-v0"),
            userName: options.user.map(Workload.text), password: options.password.map { Array($0.utf8) })
        let subscribe = SubscribePacket(
            packetIdentifier: 1,
            subscriptions: [Subscription(filter: "$SYS/broker/version", options: SubscriptionOptions(maximumQoS: .atMostOnce))])
        // The second need not wait for the answer to the first. [MQTT-3.1.4-5 v5]
        output = ControlPacket.connect(connect).encoded(version: options.version)
        output += ControlPacket.subscribe(subscribe).encoded(version: options.version)
    }

    func version() -> String? {
        var question = self
        return question.ask()
    }

    private mutating func ask() -> String? {
        var end = MonotonicClock.milliseconds() + Self.answerMillisecondsMax
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 1)
        defer { room.deallocate() }
        while MonotonicClock.milliseconds() < end, input.count < room.count {
            send()
            switch channel.read(into: room) {
            case .bytes(let count): input += room[..<count]
            case .wouldBlock: waitBriefly()
            case .endOfStream, .failed, .refused: return nil
            }
            while let packet = nextPacket() {
                switch packet {
                case .connack(let connack) where !connack.isAccepted: return nil
                case .suback(let suback):
                    if suback.reasonCodes.contains(where: \.isError) { return nil }
                    // What is retained follows at once, if there is anything.
                    end = min(end, MonotonicClock.milliseconds() + Self.retainedMillisecondsMax)
                case .publish(let publish):
                    leave()
                    return Self.printable(publish.payload)
                default: continue
                }
            }
        }
        leave()
        return nil
    }

    private mutating func send() {
        filtered?.flush()
        guard !output.isEmpty else { return }
        let result = output.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return WriteResult.wouldBlock }
            return withUnsafePointer(to: ByteSlice(base: base, count: bytes.count)) {
                channel.write(UnsafeBufferPointer(start: $0, count: 1))
            }
        }
        if case .wrote(let count) = result { output.removeFirst(count) }
    }

    private mutating func leave() {
        output = ControlPacket.disconnect(DisconnectPacket()).encoded(version: options.version)
        send()
        channel.shutdownSending()
    }

    /// Layers may have something to do besides; so it looks again soon in any case.
    private func waitBriefly() {
        var wait = pollfd(fd: channel.fileDescriptor, events: Int16(POLLIN), revents: 0)
        _ = poll(&wait, 1, 5)
    }

    private mutating func nextPacket() -> ControlPacket? {
        let found = input.withUnsafeBytes { bytes -> (ControlPacket?, Int)? in
            guard case .packet(let firstByte, let header, let length) = FrameScan.scan(bytes), header + length <= bytes.count else {
                return nil
            }
            let body = UnsafeRawBufferPointer(rebasing: bytes[header..<header + length])
            let packet = try? ControlPacket.decode(firstByte: firstByte, body: body, version: options.version, from: .server)
            return (packet, header + length)
        }
        guard let (packet, length) = found else { return nil }
        input.removeFirst(length)
        return packet ?? nextPacket()
    }

    /// A stranger's text, as one short line.
    private static func printable(_ payload: [UInt8]) -> String? {
        let text = String(decoding: payload.prefix(100), as: UTF8.self).unicodeScalars.filter {
            $0.value >= 0x20 && $0.value != 0x7f
        }
        return text.isEmpty ? nil : String(String.UnicodeScalarView(text))
    }

    private static let answerMillisecondsMax: UInt64 = 1000
    private static let retainedMillisecondsMax: UInt64 = 100
}
