import MartletClient
import MartletTesting

/// What is to be tested: it knows no client but what it needs of one.
struct Thermostat<Network: Messaging> {
    let network: Network

    func set(_ celsius: Double, in room: String) async throws {
        try await network.publish("\(celsius)", to: "home/\(room)/target", qos: .atLeastOnce, retain: true)
    }
}

let stub = StubClient()
let targets = stub.messages("home/+/target")
try await Thermostat(network: stub).set(21, in: "kitchen")
for try await target in targets {
    print("with a stub: \(target)")
    break
}

let refusing = StubClient(answering: .failing(.notAuthorized))
do {
    try await Thermostat(network: refusing).set(21, in: "kitchen")
} catch {
    print("refused: \(error)")
}

let broker = try EmbeddedBroker()
let client = try Client(ClientSettings(server: .inProcess(broker), clientIdentifier: "thermostat"))
try await client.connect()
try await Thermostat(network: client).set(19.5, in: "cellar")
print("with a broker: \(await broker.retained.map { "\($0.topic) \($0.payload)" })")
await client.disconnect()
await broker.stop()

for seed in 1...20 as ClosedRange<UInt64> {
    try await Simulation.run(seed: seed) { world in
        let broker = world.broker()
        let client = try world.client("thermostat", of: broker)
        try await client.connect()
        world.cut(client, afterBytes: Int(seed))
        try await Thermostat(network: client).set(18, in: "hall")
        precondition(broker.retained.map(\.payload) == ["18.0"])
    }
}
print("with 20 connections that broke: all arrived")
