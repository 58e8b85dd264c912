// Consumers that publish, ask, stop reading and come late, for tests that look whether their client goes on.
//
//   consumerclient relay PORT COUNT [HOLD]   passes on COUNT messages of QoS 0: `passed N dropped M`
//   consumerclient ask PORT JOBS             asks another service for the first 30 of JOBS messages of QoS 1:
//   `answered N` consumerclient chain PORT REQUESTS       the same of a responder that runs one request at a time:
//   `answered N` consumerclient full PORT                 does not read a subscription: each state, what comes for
//   another, and obeys its input consumerclient late PORT                 declares the subscription of a kept session
//   too late: `dropped N` consumerclient limit PORT VERSION BYTES  takes packets of so many bytes: what comes, and each
//   state
//
// `full` publishes, for a line `fill COUNT`, so many messages for the subscription that is not read, subscribes for
// `subscribe FILTER` and says `granted`, and publishes for `publish TEXT` to the one that is read. `full` and `limit`
// go on until their input ends.

import Glibc
import MartletClient

/// At once, and whole.
func say(_ line: String) {
    let bytes = Array("\(line)\n".utf8)
    _ = write(1, bytes, bytes.count)
}

func settings(_ port: String, _ name: String) throws -> ClientSettings {
    var settings = ClientSettings(server: try ServerAddress("mqtt://127.0.0.1:\(port)"), clientIdentifier: name)
    settings.reconnect = .exponential(from: .milliseconds(20), to: .milliseconds(200))
    return settings
}

func connected(_ settings: ClientSettings) async throws -> Client {
    let client = try Client(settings)
    try await client.connect()
    return client
}

/// Doubles a number.
struct Doubling: Request, LosslessStringConvertible {
    static let topic: TopicName = "services/doubling"
    static var coding: MessageCoding<Doubling> { .text }
    static var responseCoding: MessageCoding<Int> { .text }
    typealias Response = Int
    var number: Int

    init(number: Int) { self.number = number }

    init?(_ text: String) {
        guard let number = Int(text) else { return nil }
        self.number = number
    }

    var description: String { "\(number)" }
}

/// Doubles it by asking the other.
struct Passing: Request, LosslessStringConvertible {
    static let topic: TopicName = "services/passing"
    static var coding: MessageCoding<Passing> { .text }
    static var responseCoding: MessageCoding<Int> { .text }
    typealias Response = Int
    var number: Int

    init(number: Int) { self.number = number }

    init?(_ text: String) {
        guard let number = Int(text) else { return nil }
        self.number = number
    }

    var description: String { "\(number)" }
}

/// Asks until the service is there.
func waitForService<Asked: Request>(_ client: Client, _ request: Asked) async throws {
    while (try? await client.send(request, timeout: .seconds(1))) == nil { try await Task.sleep(for: .milliseconds(20)) }
}

func relay(_ port: String, _ count: Int, _ hold: Int?) async throws {
    let relay = try await connected(try settings(port, "relay"))
    let messages = relay.messages("in/#", SubscriptionSettings(backlog: hold.map { .hold($0) }))
    try await messages.granted()
    let sender = try await connected(try settings(port, "sender"))
    Task { for number in 1...count { try await sender.publish(Payload("\(number)"), to: "in/a") } }
    var passed = 0
    for try await message in messages {
        try await relay.publish(message.payload, to: "out", qos: .atLeastOnce)
        passed += 1
        if passed + messages.droppedCount == count { break }
    }
    say("passed \(passed) dropped \(messages.droppedCount)")
}

func ask(_ port: String, _ count: Int) async throws {
    let service = try await connected(try settings(port, "service"))
    let responding = Task { try await service.respond(to: Doubling.self) { request, _ in request.number * 2 } }
    let worker = try await connected(try settings(port, "worker"))
    let jobs = worker.messages("jobs/#", SubscriptionSettings(qos: .atLeastOnce))
    try await jobs.granted()
    let sender = try await connected(try settings(port, "sender"))
    try await waitForService(sender, Doubling(number: 1))
    try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 1...count {
            group.addTask { try await sender.publish(Payload("\(number)"), to: "jobs/1", qos: .atLeastOnce) }
        }
        try await group.waitForAll()
    }
    var answered = 0
    var seen = 0
    for try await _ in jobs {
        seen += 1
        if try await worker.send(Doubling(number: seen), timeout: .seconds(20)) == seen * 2 { answered += 1 }
        if seen == 30 { break }
    }
    say("answered \(answered)")
    responding.cancel()
}

func chain(_ port: String, _ count: Int) async throws {
    let service = try await connected(try settings(port, "service"))
    let middle = try await connected(try settings(port, "middle"))
    let responding = [
        Task { try await service.respond(to: Doubling.self) { request, _ in request.number * 2 } },
        Task {
            try await middle.respond(to: Passing.self, concurrency: 1) { request, _ in
                try await middle.send(Doubling(number: request.number), timeout: .seconds(20))
            }
        },
    ]
    let asker = try await connected(try settings(port, "asker"))
    try await waitForService(asker, Passing(number: 1))
    let answered = try await withThrowingTaskGroup(of: Bool.self) { group in
        for number in 1...count {
            group.addTask { try await asker.send(Passing(number: number), timeout: .seconds(60)) == number * 2 }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    say("answered \(answered)")
    for task in responding { task.cancel() }
}

/// Settings of a client that is followed: between attempts it waits so long that a busy machine sees each state.
func followedSettings(_ port: String, _ name: String) throws -> ClientSettings {
    var settings = try settings(port, name)
    settings.reconnect = .exponential(from: .seconds(2), to: .seconds(2))
    return settings
}

/// Says the states of a client, until it ends. Who is slow misses those that have changed since.
func follow(_ client: Client) {
    Task.detached {
        for await state in client.states {
            switch state {
            case .online(let facts):
                say("online \(facts.connectionNumber) held by \(state.heldBy.map(\.description).joined(separator: " "))")
            case .waiting(_, let error): say("waiting \(error)")
            default: break
            }
        }
    }
}

func full(_ port: String) async throws {
    var panelSettings = try followedSettings(port, "panel")
    panelSettings.keepAlive = .seconds(2)
    let panel = try Client(panelSettings)
    let idle = panel.messages("farm/idle/#", SubscriptionSettings(backlog: .hold(10)))
    let other = panel.messages("farm/other")
    follow(panel)
    try await panel.connect()
    try await idle.granted()
    try await other.granted()
    Task.detached { for try await message in other { say("came \(message.payload)") } }
    let sender = try Client(try settings(port, "sender"))
    try await sender.connect()
    say("ready")
    var rest: [Messages] = []
    while let line = readLine() {
        let words = line.split(separator: " ").map(String.init)
        switch words.first {
        case "fill": for number in 1...(Int(words[1]) ?? 1) { try await sender.publish(Payload("\(number)"), to: "farm/idle/1") }
        case "subscribe":
            guard let filter = TopicFilter(words[1]) else { return say("\(words[1]) is no filter") }
            let messages = panel.messages(filter)
            rest.append(messages)
            try await messages.granted()
            say("granted")
        case "publish": try await sender.publish(Payload(words[1]), to: "farm/other", qos: .atLeastOnce)
        default: say("dropped \(idle.droppedCount) waiting \(idle.waitingCount)")
        }
    }
}

func late(_ port: String) async throws {
    var kept = try settings(port, "late")
    kept.session = .kept(.seconds(3600))
    kept.graceTime = .milliseconds(200)
    // Its session and its subscription stay when it leaves: nobody unsubscribes before that.
    let first = try await connected(kept)
    let messages = first.messages("jobs/#")
    try await messages.granted()
    await first.disconnect()
    let sender = try await connected(try settings(port, "sender"))
    for number in 1...5 { try await sender.publish(Payload("\(number)"), to: "jobs/1", qos: .atLeastOnce) }
    let second = try await connected(kept)
    while second.dropped.noSubscription < 5 { try await Task.sleep(for: .milliseconds(20)) }
    say("dropped \(second.dropped.noSubscription)")
    withExtendedLifetime((first, messages)) {}
}

func limit(_ port: String, _ version: String, _ bytes: UInt32?) async throws {
    var limited = try followedSettings(port, "limited")
    limited.version = version == "v311" ? .v311 : .v5
    if let bytes { limited.maximumPacketSize = bytes }
    let client = try Client(limited)
    let messages = client.messages("large/#")
    follow(client)
    try await client.connect()
    try await messages.granted()
    Task.detached { for try await message in messages { say("came \(message.payload.count)") } }
    say("ready")
    while readLine() != nil {}
}

let arguments = Array(CommandLine.arguments.dropFirst())
let number = arguments.count > 2 ? Int(arguments[2]) ?? 0 : 0
switch arguments.first {
case "relay": try await relay(arguments[1], number, arguments.count > 3 ? Int(arguments[3]) : nil)
case "ask": try await ask(arguments[1], number)
case "chain": try await chain(arguments[1], number)
case "full": try await full(arguments[1])
case "late": try await late(arguments[1])
case "limit": try await limit(arguments[1], arguments[2], arguments.count > 3 ? UInt32(arguments[3]) : nil)
default: say("consumerclient relay|ask|chain|full|late|limit PORT …")
}
