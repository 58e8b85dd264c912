import MartletClient
import MartletClientJSON

enum Room: String, TopicParameter { case kitchen, cellar }

enum Alarm: String, Codable, Sendable { case smoke, water }

enum Home: EndpointCatalogue {
    static let temperature = Endpoint(Double.self, coding: .text, qos: .atLeastOnce, retain: true, sample: 21.5) {
        "home"; Parameter("room", Room.self); "sensor"; Parameter("number", Int.self); "temperature"
    }
    static let alarm = Endpoint(Alarm.self, qos: .exactlyOnce, sample: .smoke) {
        "home"; Parameter("room", Room.self); "alarm"
    }
    static var all: [any EndpointDeclaration] { [temperature, alarm] }
}

try Home.check()
print("the catalogue is sound")

let stub = StubClient(Home.self)
for try await reading in stub.messages(Home.temperature.matching(.kitchen, 1)) {
    print("sample:", reading.payload)
    break
}

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")
let client = try Client(ClientSettings(server: server))
let readings = client.messages(Home.temperature.matching(.kitchen, nil))
try await client.connect()
try await readings.granted()
try await client.publish(21.5, to: Home.temperature(.kitchen, 3))
try await client.publish(12, to: Home.temperature(.cellar, 1))
try await client.publish(22, to: Home.temperature(.kitchen, 1))

var count = 0
for try await reading in readings {
    let (room, number) = reading.parameters
    print("\(room) \(number): \(reading.payload) °C")
    count += 1
    if count == 2 { break }
}

print("cleared:", try await client.clearRetained(matching: "home/#"))
await client.disconnect()
