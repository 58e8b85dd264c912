import MQTTCodec

/// What the server sent.
extension ClientSession {
    /// Takes bytes as they come off the transport, in pieces of any size. Never traps, whatever they are.
    public mutating func received(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        guard state == .connecting || state == .online else { return }
        if carried.isEmpty {
            let taken = receivedWhole(bytes, now: now)
            carried.append(contentsOf: bytes[taken...])
        } else {
            carried.append(contentsOf: bytes)
            // Taken out, for packets change the session while their bytes are looked at.
            var joined = carried
            carried = []
            let taken = joined.withUnsafeBytes { receivedWhole($0, now: now) }
            // A large packet comes in many pieces: what there is of it stays where it is.
            if taken > 0 { joined.removeFirst(taken) }
            carried = joined
        }
    }

    /// As above, for bytes in an array.
    public mutating func received(_ bytes: [UInt8], now: UInt64) {
        bytes.withUnsafeBytes { received($0, now: now) }
    }

    /// Works off the packets that are complete; returns how many bytes those were.
    private mutating func receivedWhole(_ bytes: UnsafeRawBufferPointer, now: UInt64) -> Int {
        var position = 0
        while state == .connecting || state == .online {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            switch FrameScan.scan(rest) {
            case .incomplete:
                return position
            case .malformed(let error):
                fail(.malformed(error), now: now)
            case .packet(let firstByte, let headerLength, let bodyLength):
                if let maximum = options.maximumPacketSize, headerLength + bodyLength > Int(maximum) {
                    fail(.protocolError(.packetTooLarge), now: now)  // [MQTT-3.1.2-24 v5]
                    return bytes.count
                }
                guard rest.count >= headerLength + bodyLength else { return position }
                let body = UnsafeRawBufferPointer(rebasing: rest[headerLength..<(headerLength + bodyLength)])
                received(firstByte, body, now: now)
                position += headerLength + bodyLength
            }
        }
        return bytes.count
    }

    private mutating func received(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, now: UInt64) {
        do throws(WireError) {
            let packet = try ControlPacket.decode(firstByte: firstByte, body: body, version: options.version, from: .server)
            received(packet, now: now)
        } catch {
            fail(.malformed(error), now: now)
        }
    }

    private mutating func received(_ packet: ControlPacket, now: UInt64) {
        switch packet {
        case .connack(let connack): return receivedConnack(connack, now: now)
        case .auth(let auth): return tell(.authentication(auth))
        case .disconnect(let disconnect): return receivedDisconnect(disconnect)
        default: break
        }
        // Nothing else may come before CONNACK. [MQTT-3.2.0-1 v5]
        guard state == .online else { return fail(.protocolError(.protocolError), now: now) }
        switch packet {
        case .publish(let publish): receivedPublish(publish, now: now)
        case .acknowledgement(let acknowledgement): receivedAcknowledgement(acknowledgement, now: now)
        case .suback(let suback): answered(suback.packetIdentifier, .subscribed(suback), now: now)
        case .unsuback(let unsuback): answered(unsuback.packetIdentifier, .unsubscribed(unsuback), now: now)
        case .pingresp: answerDeadline = nil
        // Handled above, or refused by the decoder: a server does not send them.
        case .connack, .auth, .disconnect, .connect, .subscribe, .unsubscribe, .pingreq: return
        }
    }

    private mutating func receivedDisconnect(_ packet: DisconnectPacket) {
        state = .ending
        answerDeadline = nil
        tell(.disconnected(packet))
    }

    private mutating func answered(_ identifier: UInt16, _ event: ClientEvent, now: UInt64) {
        guard requests.remove(identifier) != nil else { return fail(.protocolError(.protocolError), now: now) }
        identifiers.giveBack(identifier)
        tell(event)
        sendWaiting(now: now)
    }

    private mutating func receivedAcknowledgement(_ packet: AcknowledgementPacket, now: UInt64) {
        switch packet.type {
        case .puback: complete(packet, at: .awaitingPuback, now: now)
        case .pubcomp: complete(packet, at: .awaitingPubcomp, now: now)
        case .pubrec: receivedPubrec(packet, now: now)
        case .pubrel: receivedPubrel(packet, now: now)
        default: return
        }
    }

    /// PUBACK, PUBCOMP, or a PUBREC that refuses. One for what is not in flight is left unanswered: a resumed session may bring it.
    private mutating func complete(_ packet: AcknowledgementPacket, at step: OutgoingFlow.Step, now: UInt64) {
        guard let ticket = outgoing.complete(packet.packetIdentifier, at: step) else { return }
        identifiers.giveBack(packet.packetIdentifier)
        tell(.published(ticket, packet.reasonCode))
        sendWaiting(now: now)
    }

    private mutating func receivedPubrec(_ packet: AcknowledgementPacket, now: UInt64) {
        if packet.reasonCode.isError { return complete(packet, at: .awaitingPubrec, now: now) }
        var isKnown = true
        switch outgoing.release(packet.packetIdentifier) {
        case .first(let ticket): tell(.received(ticket))
        case .again: break
        case .unknown: isKnown = false
        }
        // [MQTT-4.3.3-4 v5]
        let answer = AcknowledgementPacket(
            type: .pubrel, packetIdentifier: packet.packetIdentifier, reasonCode: isKnown ? .success : .packetIdentifierNotFound)
        send(.acknowledgement(answer), now: now)
    }

    private mutating func receivedPubrel(_ packet: AcknowledgementPacket, now: UInt64) {
        let isKnown = incoming.release(packet.packetIdentifier)
        // [MQTT-4.3.3-11 v5]
        let answer = AcknowledgementPacket(
            type: .pubcomp, packetIdentifier: packet.packetIdentifier, reasonCode: isKnown ? .success : .packetIdentifierNotFound)
        send(.acknowledgement(answer), now: now)
    }
}
