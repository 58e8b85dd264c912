import Bytes
import JSON
import JSONReader

@testable import NATSClient

/// A consumer of one of the engine's streams, on one of its servers, which may know less than the stream's leader for a
/// while.
final class EngineConsumer {
    weak var connection: EngineConnection?
    let name: String
    let server: Int
    let receive: (_ subject: String, _ reply: String, _ headers: String, _ payload: [UInt8]) -> Void
    /// The subject of its status; nil until something was asked for.
    var inbox: String?
    var next: UInt64
    var count: UInt64 = 0
    /// How many it was asked for and has not given.
    var wanted = 0
    /// What its server has, until when it has no more than that.
    let knownLast: UInt64
    let isBehindUntil: UInt64
    var gaveAt: UInt64 = 0
    var fifo = FIFO()

    init(
        _ connection: EngineConnection, name: String, server: Int, next: UInt64, knownLast: UInt64, isBehindUntil: UInt64,
        _ receive: @escaping (String, String, String, [UInt8]) -> Void
    ) {
        (self.connection, self.name, self.server, self.next) = (connection, name, server, next)
        (self.knownLast, self.isBehindUntil, self.receive) = (knownLast, isBehindUntil, receive)
    }
}

extension EngineStream {
    static let configuration = StreamConfiguration(name: "S", subjects: ["s"])

    /// What a follower asks for; `receive` gets answers, records and words of the consumer. Nothing comes where
    /// something on the way breaks.
    func ask(
        _ request: JetStreamRequest, inbox: String, by connection: EngineConnection,
        _ receive: @escaping (_ subject: String, _ reply: String, _ headers: String, _ payload: [UInt8]) -> Void
    ) {
        let words = (try? JSONValue(reading: request.payload))?.object
        let kind = request.subject.description.split(separator: ".").dropFirst(2).prefix(2).joined(separator: ".")
        connection.request { [self] reply in
            func answer(_ json: String) { reply { receive(inbox, "", "", Array(json.utf8)) } }
            guard let leader, engine.servers[leader].isUp, engine.isJoined(connection.server, leader) else {
                return reply { receive(inbox, "", "503", []) }
            }
            switch kind {
            case "STREAM.INFO":
                let (config, ends) = (String(decoding: Self.configuration.json.bytes, as: UTF8.self), ends)
                answer(
                    "{\"config\":\(config),\"created\":\"then\",\"state\":{\"first_seq\":\(ends.first),\"last_seq\":\(ends.last)}}")
            case "STREAM.MSG":
                let from = UInt64(words?["seq"]?.integer ?? 1)
                let found = records.dropFirst(Int(from) - 1).first { isThere($0) }
                answer(
                    found.map { "{\"message\":{\"seq\":\($0.sequence)}}" }
                        ?? "{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}")
            case "CONSUMER.CREATE":
                let config = words?["config"]?.object
                let name = config?["name"]?.string ?? ""
                guard let made = consume(name, from: UInt64(config?["opt_start_seq"]?.integer ?? 1), connection, receive) else {
                    return
                }
                answer("{\"num_pending\":\(pending(made, behind: made.next - 1))}")
            default:
                let name = request.subject.description.split(separator: ".").last.map { String($0) }
                guard let consumer = consumers.first(where: { $0.name == name && $0.connection === connection }) else { return }
                (consumer.inbox, consumer.wanted) = (inbox, consumer.wanted + Int(words?["batch"]?.integer ?? 0))
                feed(consumer)
            }
        }
    }

    private func consume(
        _ name: String, from sequence: UInt64, _ connection: EngineConnection,
        _ receive: @escaping (String, String, String, [UInt8]) -> Void
    ) -> EngineConsumer? {
        let there = replicas.filter { engine.servers[$0].isUp && engine.isJoined(connection.server, $0) }
        guard !there.isEmpty else { return nil }
        let isBehind = clock.random.oneIn(4)
        let made = EngineConsumer(
            connection, name: name, server: there[clock.random.below(there.count)], next: sequence,
            knownLast: isBehind ? UInt64(clock.random.below(Int(lastSequence) + 1)) : 0,
            isBehindUntil: isBehind ? clock.now + UInt64(clock.random.below(4_000_000)) : 0, receive)
        let follower = name.split(separator: "-").first
        consumers.removeAll { $0.connection === connection && $0.name.split(separator: "-").first == follower }
        consumers.append(made)
        if isBehind { clock.at(made.isBehindUntil) { [self] in feed(made) } }
        speak(made)
        return made
    }

    /// Once a second, while it has nothing to give, it says that it is there.
    private func speak(_ consumer: EngineConsumer) {
        clock.after(1_000_000) { [self] in
            guard consumer.connection?.isOpen == true, consumers.contains(where: { $0 === consumer }) else { return }
            if let inbox = consumer.inbox, consumer.wanted > 0, consumer.gaveAt + 1_000_000 <= clock.now, isReached(consumer) {
                bring(consumer, inbox, "", "100 Idle Heartbeat\r\nNats-Last-Consumer: \(consumer.count)", [])
            }
            speak(consumer)
        }
    }

    private func isReached(_ consumer: EngineConsumer) -> Bool {
        consumer.connection.map { $0.isOpen && engine.servers[consumer.server].isUp && engine.isJoined(consumer.server, $0.server) }
            ?? false
    }

    /// What its server has.
    private func last(_ consumer: EngineConsumer) -> UInt64 {
        clock.now < consumer.isBehindUntil ? min(consumer.knownLast, lastSequence) : lastSequence
    }

    private func pending(_ consumer: EngineConsumer, behind sequence: UInt64) -> Int {
        let last = Int(last(consumer))
        return Int(sequence) < last ? records[Int(sequence)..<last].count { isThere($0) } : 0
    }

    func feed(_ consumer: EngineConsumer) {
        guard isReached(consumer) else { return }
        while consumer.wanted > 0, consumer.next <= last(consumer) {
            let record = records[Int(consumer.next) - 1]
            consumer.next += 1
            guard isThere(record) else { continue }
            consumer.wanted -= 1
            consumer.count += 1
            consumer.gaveAt = clock.now
            let left = pending(consumer, behind: record.sequence)
            bring(
                consumer, record.subject, "$JS.ACK.S.\(consumer.name).1.\(record.sequence).\(consumer.count).\(record.at).\(left)",
                "",
                record.payload)
        }
    }

    private func bring(_ consumer: EngineConsumer, _ subject: String, _ reply: String, _ headers: String, _ payload: [UInt8]) {
        // Now and then something is lost on the way, which shows by the next number.
        guard !clock.random.oneIn(200) else { return }
        clock.at(consumer.fifo.arrival(clock, after: clock.delay(100...1000, rareFactor: 10))) {
            if consumer.connection?.isOpen == true { consumer.receive(subject, reply, headers, payload) }
        }
    }
}

/// A node's follower, as it is, of one of the engine's streams.
final class EngineFollower {
    private let follower: StreamFollower
    private unowned let stream: EngineStream
    private var connection: EngineConnection?
    private var ticking: UInt64?
    private let give: (_ sequence: UInt64, _ payload: UnsafeRawBufferPointer) -> Void
    private let report: (FollowedStream.News) -> Void
    /// Whether it is left for another one.
    private var isOver = false

    init(
        _ name: String, from next: UInt64, of stream: EngineStream, give: @escaping (UInt64, UnsafeRawBufferPointer) -> Void,
        report: @escaping (FollowedStream.News) -> Void
    ) {
        follower = StreamFollower(name: name, from: next, batch: 8)
        (self.stream, self.give, self.report) = (stream, give, report)
    }

    var next: UInt64? { follower.next }
    private var now: UInt64 { stream.clock.milliseconds }

    func attached(_ connection: EngineConnection) {
        self.connection = connection
        follower.attached(EngineStream.configuration, now: now)
        perform()
    }

    func detached() {
        connection = nil
        follower.detached()
    }

    func end() {
        isOver = true
        detached()
    }

    private func received(_ subject: String, _ reply: String, _ headers: String, _ payload: [UInt8]) {
        guard !isOver, connection != nil else { return }
        let block = headers.isEmpty ? [] : Array("NATS/1.0 \(headers)\r\n\r\n".utf8)
        Array(subject.utf8).withUnsafeBytes { subject in
            Array(reply.utf8).withUnsafeBytes { reply in
                block.withUnsafeBytes { block in
                    payload.withUnsafeBytes { payload in
                        let view = MessageView(subscription: 1, subject: subject, reply: reply, headers: block, payload: payload)
                        follower.received(view, now: now) { give($0.metadata.sequence, $0.payload) }
                    }
                }
            }
        }
        perform()
    }

    private func perform() {
        for effect in follower.takeEffects() {
            switch effect {
            case .ask(let request, let reply):
                guard let connection else { continue }
                stream.ask(request, inbox: "\(reply)", by: connection) { [weak self] in self?.received($0, $1, $2, $3) }
            case .news(let news): report(news)
            case .otherReplicas: continue
            }
        }
        guard !isOver, let at = follower.nextDeadline, ticking != at else { return }
        ticking = at
        stream.clock.at(at * 1000) { [weak self] in
            guard let self, !isOver, ticking == at else { return }
            ticking = nil
            follower.advance(now: now)
            perform()
        }
    }
}
