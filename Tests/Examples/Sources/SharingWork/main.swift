import MartletClient

enum Pictures {
    static let resize = Endpoint(String.self, coding: .text, qos: .atLeastOnce) {
        "pictures"; Parameter("user", String.self); "resize"
    }
}

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")
let worker = try Client(ClientSettings(server: server))
try await worker.connect()

let jobs = worker.messages(
    Pictures.resize.matching(nil), SubscriptionSettings(acknowledging: .whenDone, sharedBy: "resizers"))
try await jobs.granted()

let office = try Client(ClientSettings(server: server))
try await office.connect()
for picture in ["a.jpg", "b.jpg", "c.jpg"] { try await office.publish(picture, to: Pictures.resize("anna")) }

var left = 3
for try await job in jobs {
    print("\(job.parameters): \(job.payload)")
    job.done()
    left -= 1
    if left == 0 { break }
}

await worker.disconnect()
await office.disconnect()
