import Glibc
import MartletClient

/// Prints for a tenth of the clients, and then for all: how many got their message; for each client bytes of heap and
/// of memory, and nanoseconds of the loop's work; the descriptors; the attempts that failed; how many seconds passed.
func crowd(_ server: ServerAddress, _ count: Int) async throws {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    // What is made once for all is not what each takes.
    try await crowd(server, of: 10, tells: false)
    try await crowd(server, of: count / 10, tells: true)
    try await crowd(server, of: count, tells: true)
}

private func crowd(_ server: ServerAddress, of count: Int, tells: Bool) async throws {
    let clock = ContinuousClock()
    let begin = clock.now
    let before = Stock.take()
    let members = try (0..<count).map { number in
        let client = try Client(settings(server, "member-\(number)"))
        let messages = client.messages(TopicFilter("crowd/\(number)") ?? "crowd")
        client.start()
        return (client, messages)
    }
    for (_, messages) in members { try await messages.granted() }
    let standing = Stock.take()
    let speaker = try Client(settings(server, "speaker"))
    try await speaker.connect()
    let heard = try await withThrowingTaskGroup(of: Bool.self) { group in
        for (number, member) in members.enumerated() {
            group.addTask {
                for try await message in member.1 { return message.payload.text == "\(number)" }
                return false
            }
        }
        for number in 0..<count {
            try await speaker.publish(Payload("\(number)"), to: TopicName("crowd/\(number)") ?? "crowd", qos: .atLeastOnce)
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    let after = Stock.take()
    var connections = 0
    for (client, messages) in members {
        if case .online(let facts) = client.state { connections += Int(facts.connectionNumber) }
        messages.cancel()
        await client.disconnect()
    }
    await speaker.disconnect()
    if tells {
        say(
            """
            clients_of count \(count) heard \(heard) heap \((standing.heap - before.heap) / count) resident \((standing.resident - before.resident) / count) \
            loop \((after.loopNanoseconds - before.loopNanoseconds) / count) descriptors \(standing.descriptors - before.descriptors) \
            connections \(connections) seconds \((clock.now - begin).seconds)
            """)
    }
}
