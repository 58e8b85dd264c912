public import MQTTCodec

/// What the server sent.
extension ClientSession {
    /// Takes bytes as they come off the transport, in pieces of any size. Never traps, whatever they are.
    public mutating func received(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        guard isReading else { return }
        var position = 0
        if !carried.isEmpty {
            position = completeCarried(bytes, now: now)
            guard carried.isEmpty, isReading else { return }
        }
        let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
        var received = ReceivedBytes(rest)
        let taken = receivedWhole(rest, &received, now: now)
        if taken < rest.count, isReading { carried = Array(rest[taken...]) }
    }

    /// As above, for bytes in an array.
    public mutating func received(_ bytes: [UInt8], now: UInt64) {
        bytes.withUnsafeBytes { received($0, now: now) }
    }

    private var isReading: Bool { state == .connecting || state == .online }

    /// Takes as many bytes as the packet that has begun needs, and works it off when it is complete. Returns how many
    /// bytes those were.
    ///
    /// A large packet comes in many pieces: what there is of it stays where it is.
    private mutating func completeCarried(_ bytes: UnsafeRawBufferPointer, now: UInt64) -> Int {
        var position = 0
        var isReady = false
        while !isReady {
            var needed = 1
            switch carried.withUnsafeBytes(FrameScan.scan) {
            case .incomplete: break
            case .malformed: isReady = true
            case .packet(_, let headerLength, let bodyLength):
                needed = headerLength + bodyLength - carried.count
                isReady = needed == 0 || objection(headerLength, bodyLength) != nil
            }
            if isReady { break }
            guard position < bytes.count else { return position }
            let end = min(position + needed, bytes.count)
            carried.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[position..<end]))
            position = end
        }
        // Taken out, for packets change the session while their bytes are looked at.
        let packet = carried
        carried = []
        packet.withUnsafeBytes { whole in
            var received = ReceivedBytes(whole, sharing: packet)
            _ = receivedWhole(whole, &received, now: now)
        }
        return position
    }

    /// Works off the packets that are complete; returns how many bytes those were.
    private mutating func receivedWhole(_ bytes: UnsafeRawBufferPointer, _ received: inout ReceivedBytes, now: UInt64) -> Int {
        var position = 0
        while isReading {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            switch FrameScan.scan(rest) {
            case .incomplete:
                return position
            case .malformed(let error):
                fail(.malformed(error), now: now)
            case .packet(let firstByte, let headerLength, let bodyLength):
                let length = headerLength &+ bodyLength
                if let failure = objection(headerLength, bodyLength) {
                    fail(failure, now: now)
                    return bytes.count
                }
                guard rest.count >= length else { return position }
                self.received(firstByte, UnsafeRawBufferPointer(rebasing: rest[headerLength..<length]), &received, now: now)
                position &+= length
            }
        }
        return bytes.count
    }

    /// The failure that a packet's fixed header alone shows, or nil.
    @inline(__always)
    private func objection(_ headerLength: Int, _ bodyLength: Int) -> ClientFailure? {
        if let maximum = options.maximumPacketSize, headerLength + bodyLength > Int(maximum) {
            return .protocolError(.packetTooLarge)  // [MQTT-3.1.2-24 v5]
        }
        if headerLength > 2, options.version == .v5, headerLength > 1 + VariableByteInteger.encodedSize(bodyLength) {
            return .malformed(.nonMinimalVariableByteInteger)  // [MQTT-1.5.5-1 v5]
        }
        return nil
    }

    @inline(__always)
    private mutating func received(
        _ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ bytes: inout ReceivedBytes, now: UInt64
    ) {
        let version = options.version
        do throws(WireError) {
            let type = PacketType(rawValue: firstByte &>> 4)
            switch type {
            case .publish? where state == .online:
                let view = try PublishView.decode(firstByte: firstByte, body: body, version: version, from: .server)
                receivedPublish(view, &bytes, now: now)
            case .puback?, .pubrec?, .pubrel?, .pubcomp?:
                guard let type, state == .online else { return fail(.protocolError(.protocolError), now: now) }
                // Its only properties are texts. [MQTT-3.1.2-29 v5]
                if body.count > 4, options.connectProperties.requestProblemInformation == false {
                    return fail(.protocolError(.protocolError), now: now)
                }
                let view = try AcknowledgementView.decode(
                    type: type, firstByte: firstByte, body: body, version: version, from: .server)
                let texts = view.reasonCode.isError && body.count > 4 ? try refusalTexts(firstByte, body) : nil
                receivedAcknowledgement(type, view, texts, now: now)
            case .connack? where state == .connecting && version == .v5 && body.count == 2 && body[1] != 0:
                receivedOlderConnack(body[1])
            default:
                received(try ControlPacket.decode(firstByte: firstByte, body: body, version: version, from: .server), now: now)
            }
        } catch {
            fail(.malformed(error), now: now)
        }
    }

    /// CONNACK without properties: a server that speaks no MQTT 5.0 refuses in the form that it knows. (MQTT 3.1.1,
    /// section 3.2.2.3)
    private mutating func receivedOlderConnack(_ byte: UInt8) {
        state = .ending
        answerDeadline = nil
        let reason: ReasonCode =
            switch ConnectReturnCode(rawValue: byte) {
            case .unacceptableProtocolVersion?: .unsupportedProtocolVersion
            case .identifierRejected?: .clientIdentifierNotValid
            case .serverUnavailable?: .serverUnavailable
            case .badUserNameOrPassword?: .badUserNameOrPassword
            case .notAuthorized?: .notAuthorized
            case .accepted?, nil: ReasonCode(rawValue: byte).isError ? ReasonCode(rawValue: byte) : .unspecifiedError
            }
        emit(.refused(ConnackPacket(reasonCode: reason)))
    }

    private mutating func received(_ packet: ControlPacket, now: UInt64) {
        switch packet {
        case .connack(let connack): return receivedConnack(connack, now: now)
        case .auth(let auth): return receivedAuth(auth, now: now)
        case .disconnect(let disconnect): return receivedDisconnect(disconnect)
        default: break
        }
        // Nothing else may come before CONNACK. [MQTT-3.2.0-1 v5]
        guard state == .online else { return fail(.protocolError(.protocolError), now: now) }
        switch packet {
        case .suback(let suback):
            guard saysWhatItMay(suback.properties) else { return fail(.protocolError(.protocolError), now: now) }
            answered(suback.packetIdentifier, .awaitingSuback, suback.reasonCodes.count, .subscribed(suback), now: now)
        case .unsuback(let unsuback):
            guard saysWhatItMay(unsuback.properties) else { return fail(.protocolError(.protocolError), now: now) }
            let count = options.version == .v5 ? unsuback.reasonCodes.count : nil
            answered(unsuback.packetIdentifier, .awaitingUnsuback, count, .unsubscribed(unsuback), now: now)
        case .pingresp: answerDeadline = nil
        // Handled above, or refused by the decoder: a server does not send them.
        case .publish, .acknowledgement, .connack, .auth, .disconnect, .connect, .subscribe, .unsubscribe, .pingreq: return
        }
    }

    private mutating func receivedDisconnect(_ packet: DisconnectPacket) {
        state = .ending
        answerDeadline = nil
        emit(.disconnected(packet))
    }

    /// Whether an answer has no texts, where CONNECT has asked for none. [MQTT-3.1.2-29 v5]
    private func saysWhatItMay(_ properties: Properties) -> Bool {
        options.connectProperties.requestProblemInformation != false
            || (properties.reasonString == nil && properties.userProperties.isEmpty)
    }

    /// - Parameter count: of its reason codes, of which there is one for each filter; nil where it has none.
    private mutating func answered(
        _ identifier: UInt16, _ step: OutgoingFlow.Step, _ count: Int?, _ event: ClientEvent, now: UInt64
    ) {
        guard outgoing.completeRequest(identifier, at: step, filterCount: count) else {
            return fail(.protocolError(.protocolError), now: now)
        }
        requestDeadline = outgoing.hasRequests ? now + options.requestTimeoutMilliseconds : nil
        emit(event)
        sendWaiting(now: now)
    }

    /// What a PUBACK, PUBREC or PUBCOMP says beside its reason. Apart from the view, which is read for every message.
    private func refusalTexts(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer) throws(WireError) -> AnswerTexts? {
        let packet = try ControlPacket.decode(firstByte: firstByte, body: body, version: options.version, from: .server)
        guard case .acknowledgement(let answer) = packet else { return nil }
        return AnswerTexts(answer.properties)
    }

    private mutating func receivedAcknowledgement(
        _ type: PacketType, _ view: AcknowledgementView, _ texts: AnswerTexts?, now: UInt64
    ) {
        switch type {
        case .puback: complete(view, at: .awaitingPuback, texts, now: now)
        case .pubcomp: complete(view, at: .awaitingPubcomp, texts, now: now)
        case .pubrec: receivedPubrec(view, texts, now: now)
        default: receivedPubrel(view, now: now)
        }
    }

    /// PUBACK, PUBCOMP, or a PUBREC that refuses. One for what is not in flight is left unanswered: a resumed session
    /// may bring it.
    private mutating func complete(
        _ view: AcknowledgementView, at step: OutgoingFlow.Step, _ texts: AnswerTexts?, now: UInt64
    ) {
        switch outgoing.complete(view.packetIdentifier, at: step, view.reasonCode) {
        case .expected(let ticket, let reason): finish(ticket, reason, texts)
        case .unknown, .again: return
        case .wrong: return fail(.protocolError(.protocolError), now: now)
        }
        if outgoing.hasEarlier { sendWaiting(now: now) }
    }

    private mutating func receivedPubrec(_ view: AcknowledgementView, _ texts: AnswerTexts?, now: UInt64) {
        if view.reasonCode.isError { return complete(view, at: .awaitingPubrec, texts, now: now) }
        var isKnown = true
        switch outgoing.release(view.packetIdentifier, view.reasonCode) {
        case .expected(let ticket, _):
            record(.released(ticket))
            emit(.received(ticket))
        case .again: break
        case .unknown: isKnown = false
        case .wrong: return fail(.protocolError(.protocolError), now: now)
        }
        send(.pubrel, view.packetIdentifier, isKnown ? .success : .packetIdentifierNotFound, now: now)  // [MQTT-4.3.3-4 v5]
    }

    private mutating func receivedPubrel(_ view: AcknowledgementView, now: UInt64) {
        let isKnown = incoming.release(view.packetIdentifier)
        if isKnown { record(.forgotten(packetIdentifier: view.packetIdentifier)) }
        send(.pubcomp, view.packetIdentifier, isKnown ? .success : .packetIdentifierNotFound, now: now)  // [MQTT-4.3.3-11 v5]
    }
}

/// What a client's owner is to know, in the order in which it came about.
public enum ClientEvent: Hashable, Sendable {
    /// The server let us in.
    indirect case connected(ConnackPacket)
    /// The server did not; it closes the connection.
    indirect case refused(ConnackPacket)
    /// A message came. One of QoS 1 or 2 has a token for `acknowledge`.
    case message(ReceivedMessage)
    /// The server has a message of QoS 2 (PUBREC); `published` is still to come.
    case received(PublishTicket)
    /// A message of QoS 1 or 2 has been taken over by the server, or refused with that reason, and with what the server
    /// says of it.
    case published(PublishTicket, ReasonCode, AnswerTexts? = nil)
    /// A message of QoS 1 or 2 has waited for longer than its Message Expiry Interval: it is not sent.
    case expired(PublishTicket)
    indirect case subscribed(SubackPacket)
    indirect case unsubscribed(UnsubackPacket)
    /// The next step of an extended authentication is ours.
    indirect case authentication(AuthPacket)
    /// The server says goodbye; it closes the connection.
    indirect case disconnected(DisconnectPacket)
    /// The connection is of no more use: send what waits, then close it.
    case failed(ClientFailure)

    /// What lies where an event was.
    static var taken: ClientEvent { .received(PublishTicket(number: 0)) }
}

/// What a server says for people beside a reason: Reason String and User Properties of an answer. MQTT 5.0 only.
public struct AnswerTexts: Hashable, Sendable {
    /// The Reason String; nil where the server sends none.
    public var words: String?
    /// The answer's own User Properties.
    public var userProperties: [UserProperty]

    public init(words: String? = nil, userProperties: [UserProperty] = []) {
        (self.words, self.userProperties) = (words, userProperties)
    }

    /// Takes the texts out of an answer's properties; nil where it has none.
    public init?(_ properties: Properties) {
        if properties.reasonString == nil, properties.userProperties.isEmpty { return nil }
        self.init(words: properties.reasonString?.description, userProperties: properties.userProperties)
    }
}

/// Why a client gives a connection up.
public enum ClientFailure: Error, Hashable, Sendable {
    /// The server broke the protocol: how, and what it was told.
    case malformed(WireError)
    /// The server answered what was not asked, or did what it was told it must not.
    case protocolError(ReasonCode)
    /// No CONNACK in time.
    case connectTimeout
    /// No SUBACK or UNSUBACK in time.
    case requestTimeout
    /// No PINGRESP in time.
    case pingTimeout
}
