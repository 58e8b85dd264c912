import Glibc
import MQTTCodec
import MartletClient
import Platform

/// A server for one client at a time, on a Unix socket: keeps its session, takes what it publishes and sends it what a
/// test says.
final class TestServer: @unchecked Sendable {
    // Unchecked: everything that changes is under the monitor.
    private let monitor = Monitor()
    private let listener: Int32
    let path: String

    private var connection: Int32 = -1
    private var isEnding = false
    private var hasSession = false
    private var heldReceived: Set<UInt16> = []
    private var sending: [(identifier: UInt16, packet: PublishPacket, isReleased: Bool)] = []
    private var lastIdentifier: UInt16 = 0
    private var storedCount = 0
    private var storedReceived: [PublishPacket] = []
    private var storedFilters: [TopicFilter] = []
    private var storedConnectCount = 0
    private var storedAcknowledged: [PublishPacket] = []
    private var isSilentStored = false
    private var refusalStored: ReasonCode?
    private var storedRefusals: [ReasonCode] = []
    private var storedUsers: [String] = []
    private var refusalTextsStored = Properties()
    private var storedAuths: [AuthPacket] = []
    private var storedAnswersToAuth: [ControlPacket] = []

    init() {
        var template = Array("/tmp/test-server-XXXXXX\0".utf8CString)
        _ = mkdtemp(&template)
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress.unsafelyUnwrapped) } + "/socket"
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        withUnsafePointer(to: address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        listen(listener, 5)
        _ = try? NamedThread.start(name: "test server") { [weak self, listener] in
            while let server = self {
                let connection = accept(listener, nil, nil)
                if connection < 0 || !server.serve(connection) { return }
            }
        }
    }

    /// Ends the server's thread.
    func end() {
        let connection = monitor.withLock {
            isEnding = true
            return self.connection
        }
        shutdown(connection, Int32(SHUT_RDWR))
        shutdown(listener, Int32(SHUT_RDWR))
        unlink(path)
        rmdir(String(path.dropLast(7)))
    }

    var settings: ClientSettings {
        var settings = ClientSettings(server: ServerAddress.init(stringLiteral: "unix:\(path)"), clientIdentifier: "panel")
        settings.session = .kept(.seconds(1000))
        settings.reconnect = .exponential(from: .milliseconds(1), to: .milliseconds(1))
        return settings
    }

    // MARK: - What a test looks at

    /// What was published to it, in order; of QoS 2 each once.
    var received: [PublishPacket] { monitor.withLock { storedReceived } }
    var texts: [String] { received.map { String(decoding: $0.payload, as: UTF8.self) } }
    var connectCount: Int { monitor.withLock { storedConnectCount } }
    /// What it sent and the client has taken.
    var acknowledged: [PublishPacket] { monitor.withLock { storedAcknowledged } }

    /// Whether it answers no PUBLISH, PUBREL.
    var isSilent: Bool {
        get { monitor.withLock { isSilentStored } }
        set { monitor.withLock { isSilentStored = newValue } }
    }

    /// What it answers to every PUBLISH instead of success.
    var refusal: ReasonCode? {
        get { monitor.withLock { refusalStored } }
        set { monitor.withLock { refusalStored = newValue } }
    }

    /// What the next CONNECTs are answered, one after another; success when there is no more.
    func refuseConnecting(_ reasons: ReasonCode...) { monitor.withLock { storedRefusals = reasons } }

    /// The user of each CONNECT, empty for none.
    var users: [String] { monitor.withLock { storedUsers } }
    /// The Reason String and User Properties of those answers, and of a refused SUBSCRIBE or UNSUBSCRIBE.
    var refusalTexts: Properties {
        get { monitor.withLock { refusalTextsStored } }
        set { monitor.withLock { refusalTextsStored = newValue } }
    }

    /// What came in AUTH.
    var auths: [AuthPacket] { monitor.withLock { storedAuths } }

    /// What it answers to AUTH, one after another; nothing when there is no more.
    func answerAuth(_ packets: ControlPacket...) { monitor.withLock { storedAnswersToAuth = packets } }

    /// Waits until something is so.
    func wait(until condition: (TestServer) -> Bool) {
        while !condition(self) { monitor.withLock { monitor.wait(milliseconds: 20) } }
    }

    func forgetSession() { monitor.withLock { hasSession = false } }

    /// Cuts the connection.
    func cut() { shutdown(monitor.withLock { connection }, Int32(SHUT_RDWR)) }

    /// Sends a message to the client, again on each connection until it is acknowledged.
    func publish(_ text: String, to topic: EncodedString = "t", qos: QoS = .atLeastOnce, identifier: String? = nil) {
        monitor.withLock {
            lastIdentifier += 1
            var packet = PublishPacket(topic: topic, packetIdentifier: lastIdentifier, qos: qos, payload: Array(text.utf8))
            if qos == .atMostOnce { packet.packetIdentifier = nil }
            if let identifier = identifier.flatMap({ EncodedString($0) }) {
                packet.properties.userProperties = [UserProperty(name: "message-id", value: identifier)]
            }
            if qos > .atMostOnce { sending.append((lastIdentifier, packet, false)) }
            if connection >= 0 { send(.publish(packet)) }
        }
    }

    /// Sends a packet that nobody asked for.
    func sendUnasked(_ packet: ControlPacket) { monitor.withLock { send(packet) } }

    /// Sends what was acknowledged last once more, as if the answer had been lost.
    func sendAgain() {
        monitor.withLock {
            guard var packet = storedAcknowledged.last, let identifier = packet.packetIdentifier else { return }
            packet.duplicate = true
            sending.append((identifier, packet, false))
            send(.publish(packet))
        }
    }

    // MARK: - Its thread

    private func serve(_ connection: Int32) -> Bool {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = read(connection, &buffer, buffer.count)
            guard count > 0 else { break }
            bytes += buffer[..<count]
            while let (packet, length) = Self.packet(bytes) {
                bytes.removeFirst(length)
                monitor.withLock {
                    take(packet, connection)
                    monitor.signal()
                }
            }
        }
        return monitor.withLock {
            close(connection)
            self.connection = -1
            monitor.signal()
            return !isEnding
        }
    }

    private static func packet(_ bytes: [UInt8]) -> (ControlPacket, Int)? {
        bytes.withUnsafeBytes { bytes in
            guard case .packet(let firstByte, let header, let body) = FrameScan.scan(bytes), bytes.count >= header + body else {
                return nil
            }
            let part = UnsafeRawBufferPointer(rebasing: bytes[header..<(header + body)])
            guard let packet = try? ControlPacket.decode(firstByte: firstByte, body: part, version: .v5, from: .client) else {
                return nil
            }
            return (packet, header + body)
        }
    }

    private func take(_ packet: ControlPacket, _ connection: Int32) {
        switch packet {
        case .connect(let connect):
            self.connection = connection
            storedConnectCount += 1
            storedUsers.append(connect.userName.map { "\($0)" } ?? "")
            if !storedRefusals.isEmpty {
                return send(.connack(ConnackPacket(sessionPresent: false, reasonCode: storedRefusals.removeFirst())))
            }
            let isPresent = hasSession && !connect.cleanStart
            if !isPresent { (heldReceived, storedFilters) = ([], []) }
            hasSession = true
            send(.connack(ConnackPacket(sessionPresent: isPresent)))
            for index in sending.indices {
                var packet = sending[index].packet
                packet.duplicate = isPresent
                if sending[index].isReleased {
                    send(.acknowledgement(AcknowledgementPacket(type: .pubrel, packetIdentifier: sending[index].identifier)))
                } else {
                    send(.publish(packet))
                }
            }
        case .publish(let publish): take(publish)
        case .acknowledgement(let acknowledgement): take(acknowledgement)
        case .subscribe(let subscribe):
            storedFilters += subscribe.subscriptions.map(\.filter)
            send(
                .suback(
                    SubackPacket(
                        packetIdentifier: subscribe.packetIdentifier,
                        reasonCodes: subscribe.subscriptions.map {
                            "\($0.filter)".hasPrefix("refused/") ? .notAuthorized : .grantedQoS2
                        }, properties: refusalTextsStored)))
        case .unsubscribe(let unsubscribe):
            send(
                .unsuback(
                    UnsubackPacket(
                        packetIdentifier: unsubscribe.packetIdentifier,
                        reasonCodes: unsubscribe.filters.map { "\($0)".hasPrefix("refused/") ? .notAuthorized : .success },
                        properties: refusalTextsStored)))
        case .pingreq: send(.pingresp)
        case .auth(let auth):
            storedAuths.append(auth)
            if !storedAnswersToAuth.isEmpty { send(storedAnswersToAuth.removeFirst()) }
        default: break
        }
    }

    private func take(_ publish: PublishPacket) {
        let identifier = publish.packetIdentifier ?? 0
        let isNew = publish.qos != .exactlyOnce || heldReceived.insert(identifier).inserted
        if let refusalStored, publish.qos > .atMostOnce {
            heldReceived.remove(identifier)
            let type: PacketType = publish.qos == .atLeastOnce ? .puback : .pubrec
            return send(
                .acknowledgement(
                    AcknowledgementPacket(
                        type: type, packetIdentifier: identifier, reasonCode: refusalStored, properties: refusalTextsStored)))
        }
        if isNew { storedReceived.append(publish) }
        guard !isSilentStored, publish.qos > .atMostOnce else { return }
        send(
            .acknowledgement(
                AcknowledgementPacket(type: publish.qos == .atLeastOnce ? .puback : .pubrec, packetIdentifier: identifier)))
    }

    private func take(_ packet: AcknowledgementPacket) {
        guard let index = sending.firstIndex(where: { $0.identifier == packet.packetIdentifier }) else {
            if packet.type == .pubrel, !isSilentStored {
                heldReceived.remove(packet.packetIdentifier)
                send(.acknowledgement(AcknowledgementPacket(type: .pubcomp, packetIdentifier: packet.packetIdentifier)))
            }
            return
        }
        switch packet.type {
        case .pubrec where !packet.reasonCode.isError:
            sending[index].isReleased = true
            send(.acknowledgement(AcknowledgementPacket(type: .pubrel, packetIdentifier: packet.packetIdentifier)))
        case .pubrel where !isSilentStored:
            heldReceived.remove(packet.packetIdentifier)
            send(.acknowledgement(AcknowledgementPacket(type: .pubcomp, packetIdentifier: packet.packetIdentifier)))
        case .pubrel: break
        default: storedAcknowledged.append(sending.remove(at: index).packet)
        }
    }

    private func send(_ packet: ControlPacket) {
        let bytes = packet.encoded(version: .v5)
        _ = Glibc.send(connection, bytes, bytes.count, Int32(0x4000))
    }
}
