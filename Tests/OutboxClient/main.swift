// A client with a store, for tests that kill it and for measuring.
//
//   outboxclient run PORT STORE FIRST     enqueues numbered messages until its input ends, then waits until the outbox is empty
//   outboxclient measure PORT STORE       messages a second with 100 under way: published from memory, and enqueued
//
// `run` prints a line for each promise, `topic number` when enqueue has returned, and `drained` at its end. Topics out/0 and out/1 have QoS 1,
// out/2 and out/3 QoS 2; the numbers of each begin at FIRST and rise.

import Glibc
import MartletClient

/// At once, and whole: what is printed is promised.
func say(_ line: String) {
    let bytes = Array("\(line)\n".utf8)
    _ = write(1, bytes, bytes.count)
}

func settings(_ port: String, _ store: String?) throws -> ClientSettings {
    var settings = ClientSettings(server: try ServerAddress("mqtt://127.0.0.1:\(port)"), clientIdentifier: "outbox")
    settings.session = .kept(.seconds(3600))
    settings.reconnect = .exponential(from: .milliseconds(5), to: .milliseconds(50))
    settings.store = store.map { .file($0) }
    return settings
}

func run(_ port: String, _ store: String, _ first: Int) async throws {
    let client = try Client(try settings(port, store))
    client.start()
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
                }
            }
        }
        try await group.waitForAll()
    }
    for delivery in try await client.outbox.open() { try await delivery.arrival() }
    await client.disconnect()
    say("drained")
}

/// Whether anybody holds the other end of the standard input.
struct OpenInput: Sendable {
    var value: Bool {
        var input = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
        return poll(&input, 1, 0) == 0
    }
}

func measure(_ port: String, _ store: String) async throws {
    let payload = Payload([UInt8](repeating: 7, count: 64))
    for (name, path) in [("memory", nil), ("store", store), ("memory", nil), ("store", store)] as [(String, String?)] {
        let client = try Client(try settings(port, path))
        try await client.connect()
        let count = 60_000
        let clock = ContinuousClock()
        let time = try await clock.measure {
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
        let (seconds, attoseconds) = time.components
        say("\(name): \(Int(Double(count) / (Double(seconds) + Double(attoseconds) / 1e18))) messages a second")
        await client.disconnect()
    }
}

let arguments = CommandLine.arguments
switch (arguments.dropFirst().first, arguments.count) {
case ("run", 5): try await run(arguments[2], arguments[3], Int(arguments[4]) ?? 0)
case ("measure", 4): try await measure(arguments[2], arguments[3])
default:
    say("outboxclient run PORT STORE FIRST | measure PORT STORE")
    exit(2)
}
