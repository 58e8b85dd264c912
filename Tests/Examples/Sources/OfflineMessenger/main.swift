import MartletClient
import MartletClientJSON

struct Chat: Codable, Sendable {
    var from: String
    var text: String
}

enum Rooms {
    static let message = Endpoint(Chat.self, qos: .exactlyOnce) {
        "rooms"; Parameter("room", String.self); "message"
    }
}

let server = try ServerAddress(CommandLine.arguments.dropFirst().first ?? "mqtt://127.0.0.1")

func makeClient(_ name: String) throws -> Client {
    var settings = ClientSettings(server: server, clientIdentifier: "messenger-\(name)")
    settings.session = .kept(.seconds(7 * 86_400))
    settings.store = .file("\(name).db")
    return try Client(settings)
}

let ben = try makeClient("ben")
let inbox = try ben.inbox("chat", of: Rooms.message, by: \.self)
try await ben.connect()
try await inbox.granted()
await ben.disconnect()

let anna = try makeClient("anna")
let delivery = try await anna.enqueue(Chat(from: "anna", text: "hi"), to: Rooms.message("lobby"))
print("stored, and under way: \(try await anna.outbox.open().count)")

try await anna.connect()
for await status in delivery.statuses {
    switch status {
    case .queued, .sent, .received: continue
    case .acknowledged: print("delivered to the server")
    case .failed(let reason): print("refused: \(reason)")
    case .expired: print("too old")
    }
}
try await anna.enqueue(Chat(from: "anna", text: "are you there?"), to: Rooms.message("lobby")).arrival()
print("under way: \(try await anna.outbox.open().count)")

try await ben.connect()
var count = 0
for try await batch in inbox.arrivals {
    for item in batch { print("\(item.conversation): \(item.payload.from) says “\(item.payload.text)”") }
    count += batch.count
    if count == 2 { break }
}

for room in try await inbox.conversations(limit: 20) {
    print("\(room.key): “\(room.last.payload.text)”, \(room.unread) unread")
}
let page = try await inbox.messages(in: "lobby", limit: 50)
try await inbox.markRead("lobby", through: page[0].number)
print("unread: \(inbox.unread)")

let reply = try await inbox.send(Chat(from: "ben", text: "here I am"), to: Rooms.message("lobby"))
print("“\(reply.payload.text)” is sent from here: \(reply.isOwn), unread: \(inbox.unread)")
try await reply.delivery?.arrival()
let latest = try await inbox.messages(in: "lobby", limit: 1)[0]
print("the last message: \(latest.delivery.map { "\($0.status)" } ?? "another's")")

try await inbox.remove("lobby", 1...2)
print("left: \(try await inbox.messages(in: "lobby", limit: 50).count)")

await ben.disconnect()
await anna.disconnect()
