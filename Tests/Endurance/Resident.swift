import Glibc
import MartletClient
import Platform

/// A client of the soak that lives as long as the process, and its store.
final class Resident: Sendable {
    let client: Client
    let tally = Locked(Tally())
    private let number: Int
    private let inbox: Inbox<Payload>
    private let topic: TopicName

    /// What was done, so that a soak in which nothing happens is seen.
    struct Tally {
        var published = 0, enqueued = 0, received = 0, answered = 0, subscribed = 0

        var line: String { "\(published)/\(enqueued)/\(received)/\(answered)/\(subscribed)" }
    }

    struct Ask: Request {
        static var topic: TopicName { "soak/ask" }
        static var coding: MessageCoding<Ask> { MessageCoding(AskCoding()) }
        static var responseCoding: MessageCoding<String> { .text }
        typealias Response = String
        var text: String
    }

    struct AskCoding: PayloadCoding {
        var contentType: EncodedString? { nil }
        func encode(_ value: Ask) -> Payload { Payload(value.text) }
        func decode(_ payload: Payload) -> Ask { Ask(text: payload.text ?? "") }
    }

    init(_ number: Int, _ server: ServerAddress, _ folder: String) throws {
        self.number = number
        var settings = settings(server, "resident-\(number)", store: "\(folder)/\(number).db")
        settings.keepAlive = .seconds(1)
        settings.offlineAtMostOnce = number == 0 ? .drop : .queue
        settings.queue = ClientSettings.QueueLimits(messages: 200, whenFull: number == 1 ? .dropOldest : .wait)
        client = try Client(settings)
        topic = TopicName("soak/\(number)") ?? "soak"
        inbox = try client.inbox("kept", of: TopicFilter("kept/\(number)") ?? "kept")
    }

    /// What goes on through all parts.
    func begin() {
        let (client, tally) = (client, tally)
        // By way of the store, and held.
        for messages in [client.messages("soak/+"), client.messages(["soak/+"], SubscriptionSettings(backlog: .hold(100)))] {
            Task {
                for try await _ in messages { tally.withLock { $0.received += 1 } }
            }
        }
        Task { [inbox] in
            for try await batch in inbox.arrivals {
                for item in batch where item.number.isMultiple(of: 10) {
                    try await inbox.markRead(item.conversation, through: item.number)
                }
            }
        }
        if number == 0 {
            Task { try await client.respond(to: Ask.self) { request, _ in request.text } }
        }
        client.start()
    }

    /// What it does in a part.
    func work(_ group: inout TaskGroup<Void>, until end: ContinuousClock.Instant) {
        let (client, tally, topic) = (client, tally, topic)
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            until(end, &group) {
                try await client.publish(Payload("0123456789"), to: topic, qos: qos)
                tally.withLock { $0.published += 1 }
                try await Task.sleep(for: .milliseconds(1))
            }
        }
        let kept = TopicName("kept/\(number)") ?? "kept"
        until(end, &group) {
            let delivery = try await client.enqueue("kept", to: kept, qos: .exactlyOnce)
            if Int.random(in: 0..<4) == 0 { try await delivery.arrival() }
            tally.withLock { $0.enqueued += 1 }
        }
        if number > 0 {
            until(end, &group) {
                _ = try await client.send(Ask(text: "?"), timeout: .milliseconds(500))
                tally.withLock { $0.answered += 1 }
            }
        }
        let own = TopicFilter("soak/own/\(number)") ?? "soak/own"
        until(end, &group) {
            let messages = client.messages([own], SubscriptionSettings(backlog: Bool.random() ? .spill : .dropOldest(10)))
            try await messages.granted()
            tally.withLock { $0.subscribed += 1 }
            try await Task.sleep(for: .milliseconds(5))
        }
        // Somebody who follows its states and leaves, and one who has it connect anew.
        until(end, &group) {
            let states = Task { for await _ in client.states {} }
            try await Task.sleep(for: .milliseconds(20))
            states.cancel()
            if Int.random(in: 0..<10) == 0 {
                await client.disconnect()
                client.start()
            }
        }
    }

    private func until(
        _ end: ContinuousClock.Instant, _ group: inout TaskGroup<Void>, _ body: @escaping @Sendable () async throws -> Void
    ) {
        group.addTask {
            // A slow machine's part is longer: each thing is done in it at least once.
            var isDone = false
            while ContinuousClock.now < end || !isDone {
                do {
                    try await body()
                    isDone = true
                } catch {
                    // The connection was cut.
                    await Task.yield()
                }
            }
        }
    }

    /// Waits until all is sent.
    func rest() async throws {
        for await state in client.states where state.isOnline { break }
        while try await client.outbox.measure().messages > 0 { try await Task.sleep(for: .milliseconds(5)) }
        try await client.publish("last", to: "soak/last", qos: .exactlyOnce)
    }
}
