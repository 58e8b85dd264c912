import MartletClient

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")

/// A meter whose readings arrive, even if this process ends before they are sent.
func meter(_ server: ServerAddress) -> ClientSettings {
    var settings = ClientSettings(server: server, clientIdentifier: "meter-7")
    settings.session = .kept(.seconds(86_400))
    settings.store = .file("meter-7.db")
    return settings
}

// A first run, without a server: it ends with this block, as if the process had been killed.
do {
    let client = try Client(meter("mqtt://127.0.0.1:1"))
    let delivery = try await client.enqueue("1017.3", to: "meters/7/pressure")
    print("stored for \(delivery.topic)")
    do {
        try await client.publish("running", to: "meters/7/state")
    } catch {
        print("not published at QoS 0: \(error)")
    }
}

let client = try Client(meter(server))
let waiting = try await client.outbox.open()
print("found after the restart: \(waiting.count)")
try await client.connect()
for delivery in waiting {
    try await delivery.arrival()
    print("arrived: \(delivery.topic)")
}

var displaySettings = ClientSettings(server: server, clientIdentifier: "display-7")
displaySettings.session = .kept(.seconds(86_400))
let display = try Client(displaySettings)
let levels = display.messages("meters/7/level")
try await display.connect()
try await levels.granted()
await display.disconnect()

for level in [41, 42] {
    try await client.publish("\(level)", to: "meters/7/level", qos: .atLeastOnce)
}

try await display.connect()
for try await level in levels {
    print("came meanwhile: \(level.payload)")
    if level.payload == "42" { break }
}

var alarm = Publication("meters/7/alarm", "high", qos: .atLeastOnce)
alarm.messageExpiry = .seconds(30)
try await client.publish(alarm)

await display.disconnect()
await client.disconnect()
