public import MQTTCodec

/// A small MQTT client for `SimulatedBroker`, of any version, that keeps its session state from connection to
/// connection.
///
/// Each call lets the broker settle before it returns, unless it says otherwise.
public final class TestClient {
    /// The broker that the next connection goes to: another one when the first has crashed and started again.
    public var broker: SimulatedBroker
    public let version: ProtocolVersion
    /// Empty to have the broker assign one; replaced by what it assigns.
    public var identifier: EncodedString
    /// The connection now or last used.
    public internal(set) var connection: SimulatedConnection?
    /// What is acknowledged without being asked.
    public var acknowledgement = AcknowledgementMode.automatic
    /// The messages received, in order; a repeated QoS 2 message once.
    public internal(set) var messages: [ReceivedMessage] = []
    /// Every packet received, in order.
    public internal(set) var packets: [ControlPacket] = []
    /// Every packet received on the connection now or last used, in order.
    public internal(set) var packetsOfConnection: [ControlPacket] = []

    /// Whether what was not acknowledged is sent again as soon as CONNACK says that the session goes on.
    public var resendsAtOnce = false

    /// Messages published whose flow has not ended.
    var outgoing: [OutgoingMessage] = []
    /// Whether PUBREC is answered with PUBREL at once.
    var releasesAtOnce = true
    /// QoS 2 messages received and not released.
    var incoming: Set<UInt16> = []
    /// The packet identifiers of these.
    public var unreleased: [UInt16] { incoming.sorted() }
    var aliases: [UInt16: EncodedString] = [:]
    var lastPacketIdentifier: UInt16 = 0
    /// The highest one that it uses; behind it they begin anew.
    public var packetIdentifierMax = UInt16.max

    public init(broker: SimulatedBroker, identifier: EncodedString, version: ProtocolVersion) {
        self.broker = broker
        self.identifier = identifier
        self.version = version
    }

    /// Connects with a new connection.
    ///
    /// - Parameters:
    ///   - expiry: the Session Expiry Interval in seconds.
    ///   - properties: what else CONNECT carries.
    ///   - configure: sets up the connection before anything is sent.
    /// - Returns: the answer, or nil if none came.
    @discardableResult
    public func connect(
        clean: Bool = true, keepAlive: UInt16 = 0, expiry: UInt32? = nil, will: Will? = nil, userName: EncodedString? = nil,
        password: [UInt8]? = nil, isBridge: Bool = false, properties: Properties = Properties(), listener: Int = 0,
        configure: (SimulatedConnection) -> Void = { _ in }
    ) -> ConnackPacket? {
        var properties = properties
        if let expiry { properties.sessionExpiryInterval = expiry }
        return connect(
            ConnectPacket(
                version: version, cleanStart: clean, keepAliveSeconds: keepAlive, properties: properties,
                clientIdentifier: identifier, will: will, userName: userName, password: password, isBridge: isBridge),
            listener: listener, configure: configure)
    }

    /// Connects with a new connection and this CONNECT.
    @discardableResult
    public func connect(
        _ packet: ConnectPacket, listener: Int = 0, configure: (SimulatedConnection) -> Void = { _ in }
    ) -> ConnackPacket? {
        beginConnect(packet, listener: listener, configure: configure)
        broker.settle()
        return connack
    }

    /// Connects to a broker, perhaps another one than before, for a session that lasts.
    @discardableResult
    public func comeBack(to broker: SimulatedBroker) -> ConnackPacket? {
        self.broker = broker
        return connect(clean: false, expiry: 1000)
    }

    /// Opens a connection, sends this CONNECT and does not wait.
    public func beginConnect(
        _ packet: ConnectPacket, listener: Int = 0, configure: (SimulatedConnection) -> Void = { _ in }
    ) {
        let connection = broker.open(listener: listener)
        self.connection = connection
        packetsOfConnection = []
        aliases = [:]
        connection.onReceive = { [self] in if $0 === self.connection { receive() } }
        configure(connection)
        connection.send(.connect(packet))
    }

    /// Whether a connection stands.
    public var isConnected: Bool { connection.map { !$0.isClosed } ?? false && connack?.isAccepted ?? false }

    /// The CONNACK of the connection now or last used.
    public var connack: ConnackPacket? {
        for case .connack(let packet) in packetsOfConnection { return packet }
        return nil
    }

    /// The reason with which the broker ended the connection now or last used, if it told one.
    public var disconnectReason: ReasonCode? {
        for case .disconnect(let packet) in packetsOfConnection { return packet.reasonCode }
        return nil
    }

    /// Says goodbye and closes.
    public func disconnect(_ reason: ReasonCode = .normalDisconnection, expiry: UInt32? = nil) {
        var packet = DisconnectPacket(reasonCode: reason)
        packet.properties.sessionExpiryInterval = expiry
        connection?.send(.disconnect(packet))
        connection?.close()
        broker.settle()
    }

    /// The network fails.
    public func lose() {
        connection?.close()
        broker.settle()
    }

    /// The broker has gone, and the connection with it.
    public func connectionIsGone() {
        connection = nil
        packetsOfConnection = []
    }

    /// Sends PINGREQ; true if PINGRESP came.
    @discardableResult
    public func ping() -> Bool {
        let before = packets.count
        send(.pingreq)
        return packets[before...].contains(.pingresp)
    }

    /// Sends a packet.
    public func send(_ packet: ControlPacket) {
        connection?.send(packet)
        broker.settle()
    }

    /// Sends bytes, right or wrong.
    public func send(_ bytes: [UInt8]) {
        connection?.send(bytes)
        broker.settle()
    }

    /// Takes the messages received so far.
    public func takeMessages() -> [ReceivedMessage] {
        defer { messages = [] }
        return messages
    }

    /// The messages' payloads as text.
    public var texts: [String] { messages.map(\.text) }

    /// A packet identifier that this client does not use.
    public func unusedPacketIdentifier() -> UInt16 {
        repeat {
            lastPacketIdentifier = lastPacketIdentifier >= packetIdentifierMax ? 1 : lastPacketIdentifier + 1
        } while outgoing.contains { $0.packetIdentifier == lastPacketIdentifier }
        return lastPacketIdentifier
    }
}

/// What a `TestClient` answers by itself to messages of QoS 1 and 2.
public enum AcknowledgementMode: Sendable {
    /// PUBACK, PUBREC and PUBCOMP.
    case automatic
    /// PUBACK and PUBREC, but no PUBCOMP: QoS 2 stops before its last step.
    case withoutPubcomp
    /// Nothing: the test sends what it wants sent.
    case manual
}

/// A message of QoS 1 or 2 that a `TestClient` publishes, and how far it has come.
struct OutgoingMessage {
    var packet: PublishPacket
    let packetIdentifier: UInt16
    /// Whether PUBREC came, so that only PUBREL is to be sent.
    var isReceived = false
}

/// A message as a `TestClient` got it. Of a QoS 2 message that came twice, the first.
public struct ReceivedMessage: Sendable {
    /// The topic, also where an alias stood for it.
    public let topic: String
    public let payload: [UInt8]
    public let qos: QoS
    public let retain: Bool
    public let duplicate: Bool
    public let packetIdentifier: UInt16?
    public let properties: Properties

    /// The payload as text.
    public var text: String { String(decoding: payload, as: UTF8.self) }
}

/// How far a `TestClient` drives the flow of a message that it publishes.
public enum PublishStep: Sendable {
    /// PUBLISH is on its way; the broker has had no turn.
    case sent
    /// The broker has answered PUBLISH; the PUBREL that a QoS 2 message needs is held back.
    case answered
    /// To the end.
    case complete
}
