import BrokerModel
import ClientCore
import MQTTCodec

/// A client's session by itself, MQTT 5: calls and a server's bytes in, events and bytes out. What remains out is all
/// that surrounds it, such as system calls and the hand-over to tasks.
func measureClient(_ meter: inout Meter) {
    measurePublishing(&meter)
    measureReceiving(&meter)
    measureIdle(&meter)
}

private let topic: TopicName = "building/7/room/42/temperature"
private let payload = Payload(Array(repeating: UInt8(0x78), count: 64))
/// Messages a turn. 65,535 is a multiple, so that the packet identifiers of a turn follow each other.
private let burst = 51

private func measurePublishing(_ meter: inout Meter) {
    var session = connected()
    meter.measure("client/publish QoS 0, 64 bytes", unit: "message") { count in
        for _ in 0..<max(1, count / burst) {
            for _ in 0..<burst { _ = try? session.publish(publication(.atMostOnce), now: 1) }
            session.withOutput { $0.count }
        }
    }
    let acknowledgements: [UInt8] = (1...UInt16.max).flatMap { [0x40, 2, UInt8($0 >> 8), UInt8(truncatingIfNeeded: $0)] }
    var first = 0
    meter.measure("client/publish QoS 1 with PUBACK, 64 bytes", unit: "message") { count in
        for _ in 0..<max(1, count / burst) {
            for _ in 0..<burst { _ = try? session.publish(publication(.atLeastOnce), now: 1) }
            session.withOutput { $0.count }
            acknowledgements.withUnsafeBytes {
                session.received(UnsafeRawBufferPointer(rebasing: $0[(first * 4)..<((first + burst) * 4)]), now: 1)
            }
            first = (first + burst) % Int(UInt16.max)
            while let event = session.nextEvent() { use(event) }
        }
    }
    precondition(session.unacknowledgedCount == 0)
}

private func measureReceiving(_ meter: inout Meter) {
    for (qos, topics) in [(QoS.atMostOnce, 1), (.atMostOnce, burst), (.atLeastOnce, 1)] {
        var session = connected()
        let bytes = messages(qos, topics: topics)
        let name = "client/receive QoS \(qos.rawValue), 64 bytes" + (topics > 1 ? ", \(topics) topics" : "")
        meter.measure(name, unit: "message") { count in
            var told = 0
            let turns = max(1, count / burst)
            for _ in 0..<turns {
                bytes.withUnsafeBytes { session.received($0, now: 1) }
                session.withOutput { $0.count }
                while let event = session.nextEvent() {
                    if case .message(let message) = event { told += message.payload.count }
                }
            }
            precondition(told == 64 * burst * turns)
        }
    }
    var session = connected { $0.acknowledgesAutomatically = false }
    let bytes = messages(.atLeastOnce, topics: 1)
    meter.measure("client/receive QoS 1, 64 bytes, acknowledged later", unit: "message") { count in
        for _ in 0..<max(1, count / burst) {
            bytes.withUnsafeBytes { session.received($0, now: 1) }
            while let event = session.nextEvent() {
                if case .message(let message) = event, let token = message.token { session.acknowledge(token, now: 1) }
            }
            session.withOutput { $0.count }
        }
    }
}

private func measureIdle(_ meter: inout Meter) {
    guard meter.wants("client/idle") else { return }
    let message = messages(.exactlyOnce, topics: 1)
    let before = liveBytes()
    let clients = (0..<1000).map { _ in
        // It has published and received, and then done nothing for a Keep Alive.
        var session = connected()
        for _ in 0..<burst { _ = try? session.publish(publication(.atLeastOnce), now: 1) }
        for identifier in 1...UInt8(burst) { session.received([0x40, 2, 0, identifier], now: 1) }
        session.received(message, now: 1)
        for identifier in 1...UInt8(burst) { session.received([0x62, 2, 0, identifier], now: 1) }
        while session.nextEvent() != nil {}
        session.withOutput { $0.count }
        session.advance(to: 100_000)
        session.withOutput { $0.count }
        session.received([0xD0, 0], now: 100_000)
        return session
    }
    withExtendedLifetime(clients) {
        meter.tell("client/idle, all of its memory", Double(liveBytes() - before) / 1000, "bytes")
    }
}

private func publication(_ qos: QoS) -> ClientCore.Publication {
    ClientCore.Publication(topic, payload, qos: qos, retain: false)
}

private func messages(_ qos: QoS, topics: Int) -> [UInt8] {
    (1...burst).flatMap { number in
        let name = topics == 1 ? topic.text : EncodedString("building/7/room/\(number)/temperature") ?? topic.text
        return ControlPacket.publish(
            PublishPacket(
                topic: name, packetIdentifier: UInt16(number), qos: qos, payload: payload.bytes)
        ).encoded(version: .v5)
    }
}

private func connected(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientSession {
    var options = ClientOptions()
    options.clientIdentifier = "bench"
    change(&options)
    var session = ClientSession(options)
    session.transportOpened(now: 0)
    session.received(ControlPacket.connack(ConnackPacket()).encoded(version: .v5), now: 0)
    while session.nextEvent() != nil {}
    session.withOutput { $0.count }
    return session
}
