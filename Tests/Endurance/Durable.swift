import MartletClient

/// Prints a line for each promise, `topic number` when enqueue has returned, and `drained` at its end. Topics out/0 and
/// out/1 have QoS 1, out/2 and out/3 QoS 2; the numbers of each begin at `first` and rise.
func run(_ server: ServerAddress, _ store: String, _ first: Int) async throws {
    let client = try Client(settings(server, "outbox", store: store))
    client.start()
    try await promise(by: client, from: first)
}

/// The same, slowly, with a Keep Alive of two seconds; prints a word for each state of the connection.
func follow(_ server: ServerAddress, _ store: String) async throws {
    var settings = settings(server, "outbox", store: store)
    settings.keepAlive = .seconds(2)
    settings.connectTimeout = .seconds(2)
    let client = try Client(settings)
    let states = client.states
    Task {
        for await state in states { say(state.isOnline ? "online" : "away") }
    }
    client.start()
    try await promise(by: client, from: 1, pause: .milliseconds(10))
}

private func promise(by client: Client, from first: Int, pause: Duration = .zero) async throws {
    let isOpen = OpenInput()
    try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<4 {
            group.addTask {
                let topic = TopicName("out/\(index)") ?? "out"
                var number = first
                while isOpen.value {
                    _ = try await client.enqueue(Payload("\(number)"), to: topic, qos: index < 2 ? .atLeastOnce : .exactlyOnce)
                    say("out/\(index) \(number)")
                    number += 1
                    if pause > .zero { try await Task.sleep(for: pause) }
                }
            }
        }
        try await group.waitForAll()
    }
    for delivery in try await client.outbox.open() { try await delivery.arrival() }
    await client.disconnect()
    say("drained")
}

/// Prints a line for each message that an inbox of `out/+` tells of, `topic payload`; when the input ends,
/// `stored topic payload` for all that it has, in order.
func inbox(_ server: ServerAddress, _ store: String) async throws {
    let client = try Client(settings(server, "inbox", store: store))
    let inbox = try client.inbox("all", of: "out/+")
    client.start()
    let isOpen = OpenInput()
    let listening = Task {
        for try await batch in inbox.arrivals {
            for item in batch { say("\(item.topic) \(item.payload)") }
        }
    }
    while isOpen.value { try await Task.sleep(for: .milliseconds(20)) }
    for conversation in try await inbox.conversations(limit: 100) {
        var items: [InboxItem<Payload>] = []
        while true {
            let page = try await inbox.messages(in: conversation.key, before: items.last?.number, limit: 1000)
            if page.isEmpty { break }
            items += page
        }
        for item in items.reversed() { say("stored \(item.topic) \(item.payload)") }
    }
    listening.cancel()
    await client.disconnect()
    say("drained")
}

func measure(_ server: ServerAddress, _ store: String) async throws {
    let payload = Payload([UInt8](repeating: 7, count: 64))
    for (name, path) in [("memory", nil), ("store", store), ("memory", nil), ("store", store)] as [(String, String?)] {
        let client = try Client(settings(server, "outbox", store: path))
        try await client.connect()
        let count = 60_000
        let time = try await ContinuousClock().measure {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<100 {
                    group.addTask {
                        for _ in 0..<(count / 100) {
                            if path == nil {
                                try await client.publish(payload, to: "out/0", qos: .atLeastOnce)
                            } else {
                                _ = try await client.enqueue(payload, to: "out/0", qos: .atLeastOnce)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            while try await client.outbox.measure().messages > 0 { await Task.yield() }
        }
        say("\(name): \(Int(Double(count) / time.seconds)) messages a second")
        await client.disconnect()
    }
}

// MARK: - Very many messages

/// Enqueues messages to a hundred topics with nobody to send them to; of each topic the numbers rise. Prints how long
/// each tenth took, and what the process held at most.
func fill(_ store: String, _ count: Int) async throws {
    let client = try Client(settings("mqtt://127.0.0.1:1", "backlog", store: store))
    let topics = 100
    var times: [Double] = []
    for tenth in 0..<10 {
        let numbers = (tenth * count / 10 / topics)..<((tenth + 1) * count / 10 / topics)
        let time = try await ContinuousClock().measure {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for topic in 0..<topics {
                    group.addTask {
                        let name = TopicName("backlog/\(topic)") ?? "backlog"
                        for number in numbers { _ = try await client.enqueue(Payload("\(number)"), to: name) }
                    }
                }
                try await group.waitForAll()
            }
        }
        times.append(time.seconds)
    }
    let stock = Stock.take()
    say("filled \(times.map { "\($0)" }.joined(separator: " "))")
    say("peak \(stock.peak)")
}

/// Prints how long it took to open the store and what the process held then, how long each tenth took to be delivered,
/// and what it held at most.
func drain(_ server: ServerAddress, _ store: String) async throws {
    let clock = ContinuousClock()
    var begin = clock.now
    let client = try Client(settings(server, "backlog", store: store))
    let (count, _) = try await client.outbox.measure()
    let first = try await client.outbox.open(limit: 10)
    say("opened \((clock.now - begin).seconds) \(count) \(first.count)")
    say("peak \(Stock.take().peak)")
    begin = clock.now
    client.start()
    var times: [Double] = []
    for tenth in 1...10 {
        while try await client.outbox.measure().messages > count * (10 - tenth) / 10 { try await Task.sleep(for: .milliseconds(5)) }
        times.append((clock.now - begin).seconds)
        begin = clock.now
    }
    await client.disconnect()
    say("drained \(times.map { "\($0)" }.joined(separator: " "))")
    say("peak \(Stock.take().peak)")
}
