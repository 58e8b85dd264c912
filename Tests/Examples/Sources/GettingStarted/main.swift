import MartletClient

/// The greenhouse's sensor: what it is called, and what the server says of it when it is lost.
func greenhouse(_ server: ServerAddress) -> ClientSettings {
    var settings = ClientSettings(server: server, clientIdentifier: "greenhouse-1")
    settings.will = Will(topic: "house/greenhouse/state", payload: "offline", qos: .atLeastOnce, retain: true)
    return settings
}

/// The same over TLS, with a user name and a password.
func secureGreenhouse() -> ClientSettings {
    var settings = greenhouse("mqtts://broker.example")
    settings.login = .password(user: "anna", password: "secret")
    settings.tls.authoritiesFile = "/etc/ssl/house-ca.crt"
    return settings
}

/// With a certificate of its own, where the server requires one (`require_certificate true`).
func certifiedGreenhouse() -> ClientSettings {
    var settings = greenhouse("mqtts://broker.example")
    settings.tls.authoritiesFile = "/etc/ssl/house-ca.crt"
    settings.tls.certificate = .files("/etc/ssl/greenhouse.crt", key: "/etc/ssl/greenhouse.key")
    return settings
}

/// Messages of QoS 1 and 2 wait at the server for an hour while the client is away.
func displayThatMissesNothing(_ server: ServerAddress) -> ClientSettings {
    var settings = ClientSettings(server: server, clientIdentifier: "display")
    settings.session = .kept(.seconds(3600))
    settings.reconnect = .exponential(from: .seconds(1), to: .seconds(30))
    return settings
}

// Both have to be legal settings: the initializer throws what is wrong with them.
for settings in [secureGreenhouse(), certifiedGreenhouse()] { _ = try Client(settings) }

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")

let display = try Client(displayThatMissesNothing(server))
let news = display.messages("house/greenhouse/#")
try await display.connect()
try await news.granted()

let sensor = try Client(greenhouse(server))
try await sensor.connect()
try await sensor.publish("online", to: "house/greenhouse/state", qos: .atLeastOnce, retain: true)
try await sensor.publish("21.5", to: "house/greenhouse/temperature", qos: .atLeastOnce)

// A disconnect that has the will published, as a lost connection does.
await sensor.disconnect(.disconnectWithWillMessage)

for try await message in news {
    print(message.topic, message.payload)
    if message.payload == "offline" { break }
}

let lost = try Client(ClientSettings(server: "mqtt://127.0.0.1:1"))
do {
    try await lost.connect()
} catch {
    print("not connected: \(error)")
}

lost.start()
watching: for await state in lost.states {
    switch state {
    case .waiting(_, let error):
        print("trying again: \(error)")
        break watching
    case .refused(let error):
        print("refused: \(error)")
        break watching
    case .online(let facts): print("online: \(facts)")
    case .offline, .connecting, .ended: continue
    }
}
await lost.disconnect()

try await display.clearRetained("house/greenhouse/state")
await display.disconnect()
