import Bytes
public import MQTTCodec

/// The client's end of a connection that stays inside the process: speaks MQTT 5.0 with the shard, and values with its
/// party.
///
///     party ── LocalPublication … ──► LocalClient ── packets ──► BrokerShard.received
///     party ◄── LocalEvent ────────── LocalClient ◄── packets ── the connection's output
///
/// So sessions, quotas, access, durability and queues are those of any client: there is one implementation of them.
/// Towards the party it keeps a window of messages handed out and not acknowledged. While that is closed it takes
/// nothing from the connection's output, and what comes waits there and in the session's queue within the limits of
/// every client: also outcomes, so that a party must not wait for one before it acknowledges what it has.
///
/// Invariant: `handed` holds what was handed out and not acknowledged, oldest first, at most `messagesMax` messages;
/// `handedBytes` is the sum of their sizes; while none is, at most one incomplete packet waits. Owned by its
/// connection, used on its shard's thread only.
final class LocalClient {
    /// What a packet identifier of the party's side is in use for.
    private enum Purpose {
        case publication(token: UInt64?, QoS, outcome: ReasonCode)
        case subscription(token: UInt64)
        case unsubscription(token: UInt64)
    }

    private struct Handed {
        let packetIdentifier: UInt16
        let qos: QoS
        let byteCount: Int
    }

    private let messagesMax: Int
    private let bytesMax: Int
    private let publicationsMax: Int
    /// What CONNACK has told of the broker; nil before it came.
    private var limits: Properties?
    /// Bytes from the broker that are not worked off; those before `head` are.
    private var inbound: [UInt8] = []
    private var head = 0
    private var handed = Deque<Handed>()
    private var handedBytes = 0
    /// The sequence number of the message that was handed out last.
    private var lastSequence: UInt64 = 0
    private var purposes: [UInt16: Purpose] = [:]
    private var publicationCount = 0
    private var lastIdentifier: UInt16 = 0
    /// Messages taken by the session and not released, of an earlier client.
    var unreleased: Set<UInt16> = []
    /// Packets for the broker that what it sent has caused: PUBREL and PUBCOMP.
    private(set) var replies: [UInt8] = []
    /// Why the connection has ended, as far as the broker has said.
    var closeReason = ReasonCode.unspecifiedError
    private(set) var isConnected = false

    init(_ login: LocalLogin) {
        messagesMax = max(1, Int(login.messagesMax))
        bytesMax = max(1, login.bytesMax)
        publicationsMax = max(1, Int(login.publicationsMax))
    }

    // MARK: From the broker

    private var inboundCount: Int { inbound.count - head }

    /// How many bytes it takes just now: what is left of the window; at least what completes a packet if nothing else
    /// is there to be done.
    var room: Int {
        guard handed.count < messagesMax else { return 0 }
        let left = bytesMax - handedBytes - inboundCount
        return left > 0 || handed.count > 0 ? max(0, left) : missingBytes
    }

    /// How many bytes the packet at the front lacks.
    private var missingBytes: Int {
        inbound.withUnsafeBytes { bytes in
            guard case .packet(_, let header, let body) = FrameScan.scan(UnsafeRawBufferPointer(rebasing: bytes[head...])) else {
                return 1
            }
            return max(0, header + body - inboundCount)
        }
    }

    /// Takes in bytes of the connection's output, at most `room`.
    func take(_ bytes: UnsafeRawBufferPointer) {
        if head == inbound.count { (inbound, head) = ([], 0) }
        inbound.append(contentsOf: bytes)
    }

    /// Works off what was taken in, as far as the window is open.
    ///
    /// - Returns: false if the broker has sent what no client can read.
    func workOff(_ report: (LocalEvent) -> Void) -> Bool {
        var batch: [LocalMessage] = []
        var isLegible = true
        inbound.withUnsafeBytes { bytes in
            while isLegible {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[head...])
                guard case .packet(let firstByte, let header, let body) = FrameScan.scan(rest), header + body <= rest.count else {
                    break
                }
                let isMessage = firstByte >> 4 == PacketType.publish.rawValue
                if isMessage, !isOpen(for: header + body) { break }
                let content = UnsafeRawBufferPointer(rebasing: rest[header..<header + body])
                guard let packet = try? ControlPacket.decode(firstByte: firstByte, body: content, version: .v5, from: .server)
                else {
                    isLegible = false
                    break
                }
                head += header + body
                if case .publish(let message) = packet {
                    batch.append(hand(out: message, byteCount: header + body))
                    continue
                }
                if !batch.isEmpty { report(.messages(batch)) }
                batch = []
                if let event = received(packet) { report(event) }
            }
        }
        if !batch.isEmpty { report(.messages(batch)) }
        if head > 0 { inbound.removeFirst(head) }
        head = 0
        return isLegible
    }

    /// Whether the window lets a message go: one of any size if it is the only one.
    private func isOpen(for byteCount: Int) -> Bool {
        handed.count == 0 || (handed.count < messagesMax && handedBytes + byteCount <= bytesMax)
    }

    private func hand(out message: PublishPacket, byteCount: Int) -> LocalMessage {
        lastSequence += 1
        handed.append(Handed(packetIdentifier: message.packetIdentifier ?? 0, qos: message.qos, byteCount: byteCount))
        handedBytes += byteCount
        return LocalMessage(sequence: lastSequence, packet: message)
    }

    private func received(_ packet: ControlPacket) -> LocalEvent? {
        switch packet {
        case .connack(let answer): return received(answer)
        case .acknowledgement(let acknowledgement): return received(acknowledgement)
        case .suback(let answer):
            guard case .subscription(let token) = purposes.removeValue(forKey: answer.packetIdentifier) else { return nil }
            return .subscribed(token: token, answer.reasonCodes)
        case .unsuback(let answer):
            guard case .unsubscription(let token) = purposes.removeValue(forKey: answer.packetIdentifier) else { return nil }
            return .unsubscribed(token: token, answer.reasonCodes)
        case .disconnect(let disconnect):
            closeReason = disconnect.reasonCode
            return nil
        // Those that only a client sends, that answer what this one never sends, and messages, which were told apart
        // before.
        case .connect, .publish, .subscribe, .unsubscribe, .pingreq, .pingresp, .auth: return nil
        }
    }

    private func received(_ answer: ConnackPacket) -> LocalEvent? {
        guard answer.isAccepted else {
            closeReason = answer.reasonCode
            return nil
        }
        limits = answer.properties
        isConnected = true
        return .connected(LocalConnection(sessionPresent: answer.sessionPresent, unreleased: unreleased.sorted()))
    }

    private func received(_ packet: AcknowledgementPacket) -> LocalEvent? {
        let identifier = packet.packetIdentifier
        if packet.type == .pubrel {
            reply(.pubcomp, identifier)
            return nil
        }
        guard case .publication(let token, let qos, let outcome) = purposes[identifier] else { return nil }
        if packet.type == .pubrec, !packet.reasonCode.isError {
            purposes[identifier] = .publication(token: token, qos, outcome: packet.reasonCode)
            reply(.pubrel, identifier)
            return nil
        }
        purposes[identifier] = nil
        publicationCount -= 1
        return token.map { .published(token: $0, packet.type == .pubcomp ? outcome : packet.reasonCode) }
    }

    private func reply(_ type: PacketType, _ packetIdentifier: UInt16) {
        ControlPacket.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: packetIdentifier))
            .encode(version: .v5, into: &replies)
    }

    /// The packets that the broker is to be given, each once.
    func takeReplies() -> [UInt8] {
        defer { replies = [] }
        return replies
    }

    // MARK: From the party

    /// The party has done with all messages up to this one: writes PUBACK and PUBREC into `bytes`.
    func acknowledge(through sequence: UInt64, into bytes: inout [UInt8]) {
        let last = min(sequence, lastSequence)
        while lastSequence - UInt64(handed.count) < last, let message = handed.popFirst() {
            handedBytes -= message.byteCount
            guard message.qos > .atMostOnce else { continue }
            ControlPacket.acknowledgement(
                AcknowledgementPacket(
                    type: message.qos == .atLeastOnce ? .puback : .pubrec, packetIdentifier: message.packetIdentifier)
            ).encode(version: .v5, into: &bytes)
        }
    }

    /// Writes the packet of a message into `bytes`, unless the broker would not take it.
    ///
    /// - Parameter packetBytesMax: the largest packet that the broker takes.
    /// - Returns: false if there is no room for it before others have an outcome.
    func publish(
        _ publication: LocalPublication, packetBytesMax: Int, into bytes: inout [UInt8], _ report: (LocalEvent) -> Void
    ) -> Bool {
        guard let limits else { return false }
        var packet = publication.packet
        if packet.qos > .atMostOnce, publicationCount >= publicationsMax { return false }
        func end(_ reason: ReasonCode) -> Bool {
            if let token = publication.token { report(.published(token: token, reason)) }
            return true
        }
        if let objection = objection(to: packet, limits) { return end(objection) }
        // These belong to a connection.
        packet.properties.topicAlias = nil
        packet.properties.subscriptionIdentifiers = []
        if packet.qos == .atMostOnce {
            packet.packetIdentifier = nil
        } else if let chosen = packet.packetIdentifier {
            guard chosen != 0, purposes[chosen] == nil else { return end(.packetIdentifierInUse) }
            unreleased.remove(chosen)
        } else {
            guard let free = freeIdentifier() else { return false }
            packet.packetIdentifier = free
        }
        let start = bytes.count
        ControlPacket.publish(packet).encode(version: .v5, into: &bytes)
        guard bytes.count - start <= packetBytesMax else {
            bytes.removeLast(bytes.count - start)
            return end(.packetTooLarge)
        }
        guard let identifier = packet.packetIdentifier else { return end(.success) }
        purposes[identifier] = .publication(token: publication.token, packet.qos, outcome: .success)
        publicationCount += 1
        return true
    }

    /// What would make the broker end the connection.
    private func objection(to packet: PublishPacket, _ limits: Properties) -> ReasonCode? {
        if TopicName(packet.topic.bytes) == nil { return .topicNameInvalid }
        if packet.qos > limits.maximumQoS ?? .exactlyOnce { return .qosNotSupported }
        if packet.retain, limits.retainAvailable == false { return .retainNotSupported }
        return nil
    }

    /// Writes PUBREL for a QoS 2 message of an earlier client that is not to be published again; false if there is no
    /// such one.
    func release(_ packetIdentifier: UInt16, token: UInt64?, into bytes: inout [UInt8]) -> Bool {
        guard unreleased.remove(packetIdentifier) != nil else { return false }
        purposes[packetIdentifier] = .publication(token: token, .exactlyOnce, outcome: .success)
        publicationCount += 1
        ControlPacket.acknowledgement(AcknowledgementPacket(type: .pubrel, packetIdentifier: packetIdentifier))
            .encode(version: .v5, into: &bytes)
        return true
    }

    /// Writes SUBSCRIBE; false if the client is not connected, or no packet identifier is free.
    func subscribe(
        _ subscriptions: [Subscription], identifier: UInt32?, token: UInt64, into bytes: inout [UInt8]
    ) -> Bool {
        guard isConnected, !subscriptions.isEmpty, let free = freeIdentifier() else { return false }
        purposes[free] = .subscription(token: token)
        var packet = SubscribePacket(packetIdentifier: free, subscriptions: subscriptions)
        if let identifier { packet.properties.subscriptionIdentifiers = [identifier] }
        ControlPacket.subscribe(packet).encode(version: .v5, into: &bytes)
        return true
    }

    /// Writes UNSUBSCRIBE; false as above.
    func unsubscribe(_ filters: [TopicFilter], token: UInt64, into bytes: inout [UInt8]) -> Bool {
        guard isConnected, !filters.isEmpty, let free = freeIdentifier() else { return false }
        purposes[free] = .unsubscription(token: token)
        ControlPacket.unsubscribe(UnsubscribePacket(packetIdentifier: free, filters: filters)).encode(version: .v5, into: &bytes)
        return true
    }

    /// A packet identifier that nothing uses, after the last one that was given.
    private func freeIdentifier() -> UInt16? {
        guard purposes.count + unreleased.count < Int(UInt16.max) else { return nil }
        repeat {
            lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier + 1
        } while purposes[lastIdentifier] != nil || unreleased.contains(lastIdentifier)
        return lastIdentifier
    }

    /// Traps where the invariant does not hold. O(window).
    func checkInvariants() {
        precondition(handed.count <= messagesMax, "more messages are handed out than the window has")
        precondition(handedBytes == handed.reduce(0) { $0 + $1.byteCount }, "bytes are counted wrong")
        precondition(handed.count <= 1 || handedBytes <= bytesMax, "more bytes are handed out than the window has")
        let publications = purposes.values.reduce(0) { if case .publication = $1 { $0 + 1 } else { $0 } }
        precondition(publications == publicationCount, "publications are counted wrong")
    }
}

/// What a local client's party is told, in order.
public enum LocalEvent: Sendable {
    /// The session is there; with a store, it is durable if it is to outlive the client. Until then nothing may be
    /// published.
    case connected(LocalConnection)
    /// Messages of its subscriptions, oldest first, to be acknowledged in this order.
    case messages([LocalMessage])
    /// What became of a message of the party's own: at QoS 1 and 2 what PUBACK or PUBREC would say, when they would say
    /// it; at QoS 0 success as soon as the broker has it.
    case published(token: UInt64, ReasonCode)
    /// One code for each subscription, granted or refused, in the order in which they were asked for. Retained messages
    /// come behind it.
    case subscribed(token: UInt64, [ReasonCode])
    case unsubscribed(token: UInt64, [ReasonCode])
    /// Bytes that the broker sends to a client that relays: MQTT 5.0 packets one after the other, cut anywhere.
    case bytes([UInt8])
    /// The client is no more; the last of its events. What was not told an outcome has none: a message may have been
    /// taken or not.
    case closed(ReasonCode)
}

/// The session that a local client has found or made.
public struct LocalConnection: Hashable, Sendable {
    public var sessionPresent: Bool
    /// The packet identifiers of QoS 2 messages that the session has taken and that were not released when the client
    /// ended, in order: published again under the same identifier they are taken no second time. No other message gets
    /// one of these.
    public var unreleased: [UInt16]
}

/// A message of a local client's subscriptions.
public struct LocalMessage: Hashable, Sendable {
    /// Counts the messages handed to this client from 1 on: what it is acknowledged by.
    public let sequence: UInt64
    /// As the broker would send it. A QoS 1 message with `duplicate` set may have been handed to an earlier client of
    /// the session; a QoS 2 message was if it has the packet identifier of one that the party had not acknowledged
    /// then.
    public let packet: PublishPacket
}

/// A message that a local client publishes.
public struct LocalPublication: Sendable {
    /// The packet identifier may be nil at any QoS: then one is chosen. Who must be able to publish a QoS 2 message
    /// again after a crash, and have it taken once, chooses it.
    public var packet: PublishPacket
    /// Names it in the event that tells its outcome; nil if none is wanted.
    public var token: UInt64?

    public init(_ packet: PublishPacket, token: UInt64? = nil) {
        self.packet = packet
        self.token = token
    }
}
