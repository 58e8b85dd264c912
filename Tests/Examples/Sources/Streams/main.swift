import MartletClient
import Observation

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")
let client = try Client(ClientSettings(server: server))
let dial = client.messages("home/+/temperature", SubscriptionSettings(backlog: .latestPerTopic))
let chart = client.messages("home/+/temperature", SubscriptionSettings(backlog: .dropOldest(3)))
try await client.connect()
try await dial.granted()
try await chart.granted()

let lines = Task {
    for await state in client.states where state.isOnline {
        print("online")
        break
    }
}
await lines.value

for degrees in 20...24 {
    try await client.publish("\(degrees)", to: "home/kitchen/temperature", qos: .atLeastOnce, retain: true)
}
while dial.droppedCount < 4 || chart.droppedCount < 2 { try await Task.sleep(for: .milliseconds(10)) }

for try await reading in dial {
    print("dial: \(reading.payload), passed over: \(dial.droppedCount)")
    break
}
var points: [String] = []
for try await reading in chart {
    points.append("\(reading.payload)")
    if points.count == 3 { break }
}
print("chart: \(points.joined(separator: " ")), passed over: \(chart.droppedCount)")

@MainActor @Observable final class Panel {
    var degrees = ""
}
let panel = Panel()
let binding = client.messages("home/kitchen/temperature").map { "\($0.payload)" }.bind(to: panel, \.degrees)
while panel.degrees.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
print("panel: \(panel.degrees)")
binding.cancel()

try await client.withMessages("jobs/+", SubscriptionSettings(acknowledging: .whenDone)) { jobs in
    try await jobs.granted()
    try await client.publish("paint the door", to: "jobs/1", qos: .exactlyOnce)
    for try await job in jobs {
        print("job: \(job.payload)")
        job.done()
        break
    }
}

let quiet = Task {
    for try await message in client.messages("nothing/comes") { print(message.topic) }
    print("cancelled, and unsubscribed")
}
quiet.cancel()
try await quiet.value

try await client.clearRetained("home/kitchen/temperature")
await client.disconnect()
