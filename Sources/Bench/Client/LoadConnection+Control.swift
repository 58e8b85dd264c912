import MQTTCodec

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
