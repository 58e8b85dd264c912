import MartletClient
import MartletClientJSON

enum Room: String, TopicParameter { case kitchen, cellar }

struct SetTarget: Request, Codable {
    enum Failure: String, Error, Codable { case tooHot }
    struct Response: Codable, Sendable { var celsius: Double }
    var celsius: Double
}

enum Home {
    static let setTarget = Call(SetTarget.self) {
        "home"; Parameter("room", Room.self); "target"
    }
    static let temperature = Endpoint(Double.self, coding: .text, qos: .atLeastOnce, retain: true) {
        "home"; Parameter("room", Room.self); "temperature"
    }
}

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")
let heating = try Client(ClientSettings(server: server))
try await heating.connect()
let responder = try await heating.responder(for: Home.setTarget, sharedBy: "heating") { request, context in
    guard request.celsius < 28 else { throw SetTarget.Failure.tooHot }
    try await heating.publish(request.celsius, to: Home.temperature(context.parameters))
    return SetTarget.Response(celsius: request.celsius)
}
let answering = Task { try await responder.run() }

let panel = try Client(ClientSettings(server: server))

func setTarget(_ celsius: Double) async {
    do {
        let answer = try await panel.send(SetTarget(celsius: celsius), to: Home.setTarget(.kitchen), timeout: .seconds(5))
        print("set to \(answer.celsius)")
    } catch .answered(.tooHot) {
        print("too hot")
    } catch {
        print("no answer: \(error)")
    }
}

let temperatures = try panel.collection(of: Home.temperature)
try await panel.connect()
try await temperatures.ready()
print("ready: \(temperatures.entries.count) rooms")

func show(_ change: LiveCollection<Double, Room>.Change?) {
    for entry in change?.added ?? [] { print("added: \(entry.key) \(entry.value) \(entry.state)") }
    for entry in change?.changed ?? [] { print("changed: \(entry.key) \(entry.value) \(entry.state)") }
    for entry in change?.removed ?? [] { print("removed: \(entry.key)") }
}

await setTarget(30)
await setTarget(21)
do {
    var changes = temperatures.changes.makeAsyncIterator()
    show(await changes.next())

    let write = try await temperatures.set(22, at: .kitchen)
    show(await changes.next())
    try await write.confirmed()
    show(await changes.next())

    try await temperatures.update(at: .kitchen) { $0 += 0.5 }?.confirmed()
    show(await changes.next())
    show(await changes.next())

    try temperatures.setLocal(18, at: .cellar)
    show(await changes.next())
    let warmest = temperatures.entries(limit: 10) { $0.value > $1.value }
    print("by temperature: \(warmest.map { "\($0.key) \($0.state)" })")

    try await temperatures.remove(at: .kitchen).confirmed()
    show(await changes.next())
}

answering.cancel()
try await answering.value
await panel.disconnect()
await heating.disconnect()
