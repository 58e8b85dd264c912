// Keeps a collection, or reads it from its store, for tests that cut its connections, stop its server and kill it.
//
//   collectionclient keep PORT STORE [v311] [lost]   what the server retains at kept/+, told change by change
//   collectionclient read STORE                      the same from the store, beside the process that keeps it
//   collectionclient look STORE                      one look at the store
//
// `keep` prints a line for each change, such as `change +a=1:confirmed ~b=2:pending -c`, and obeys its input:
// `set NAME VALUE`, `remove NAME`, `show`. With `lost` it asks for everything again only when the server has lost its
// session. `read` prints a picture when it is another than the last one: its number of entries, the first and the last
// name, and the values that occur. Both go on until their input ends.

import Glibc
import MartletClient

/// At once, and whole.
func say(_ line: String) {
    let bytes = Array("\(line)\n".utf8)
    _ = write(1, bytes, bytes.count)
}

let filter: TopicFilter = "kept/+"

func topic(_ name: some StringProtocol) throws(ClientError) -> TopicName {
    guard let topic = TopicName("kept/\(name)") else { throw .topic("\(name)") }
    return topic
}

func name(_ entry: LiveCollection<Payload, TopicName>.Entry) -> String { String("\(entry.topic)".dropFirst(5)) }

func told(_ entry: LiveCollection<Payload, TopicName>.Entry) -> String { "\(name(entry))=\(entry.value):\(entry.state)" }

func keep(_ port: String, _ store: String, _ options: Set<String>) async throws {
    var settings = ClientSettings(server: try ServerAddress("mqtt://127.0.0.1:\(port)"), clientIdentifier: "keeper")
    settings.version = options.contains("v311") ? .v311 : .v5
    settings.reconnect = .exponential(from: .milliseconds(5), to: .milliseconds(50))
    settings.store = .file(store)
    var collecting = CollectionSettings()
    if options.contains("lost") {
        settings.session = .kept(.seconds(3600))
        collecting.resynchronize = .whenSessionLost
    }
    let client = try Client(settings)
    let collection = try client.collection(of: filter, collecting)
    // Not on this thread, which reads the input.
    let telling = Task.detached {
        for await change in collection.changes {
            let words = change.added.map { "+\(told($0))" } + change.changed.map { "~\(told($0))" }
            say("change " + (words + change.removed.map { "-\(name($0))" }).joined(separator: " "))
        }
    }
    let getting = Task.detached {
        try await collection.ready()
        say("ready \(collection.entries.count)")
    }
    client.start()
    while let line = readLine() {
        let words = line.split(separator: " ", maxSplits: 2)
        switch (words.first, words.count) {
        case ("set", 3): answer(line, try await collection.set(Payload("\(words[2])"), at: try topic(words[1])))
        case ("remove", 2): answer(line, try await collection.remove(at: try topic(words[1])))
        case ("show", 1): say("shown \(collection.entries.map(told).joined(separator: " "))")
        default: say("what is “\(line)”?")
        }
    }
    getting.cancel()
    telling.cancel()
    await client.disconnect()
}

/// Says what becomes of a write when that is decided.
func answer(_ line: String, _ write: CollectionWrite) {
    Task.detached {
        do throws(ClientError) {
            try await write.confirmed()
            say("confirmed: \(line)")
        } catch {
            say("\(error): \(line)")
        }
    }
}

/// Prints a picture if it is not the one of before.
struct Telling {
    let word: String
    private var last = ""

    init(_ word: String) { self.word = word }

    mutating func tell(_ picture: [(name: String, value: String)]) {
        let values = Set(picture.map(\.value)).sorted().joined(separator: ",")
        let line = "\(word) \(picture.count) \(picture.first?.name ?? "-") \(picture.last?.name ?? "-") \(values)"
        if line != last { say(line) }
        last = line
    }
}

/// Whether anybody holds the other end of the standard input.
func isInputOpen() -> Bool {
    var input = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
    return poll(&input, 1, 0) == 0
}

func read(_ store: String) async throws {
    let (changing, looking) = (try Client.readCollection(of: filter, in: store), try Client.readCollection(of: filter, in: store))
    let folding = Task.detached {
        var telling = Telling("folded")
        var known: [String: String] = [:]
        for await change in changing.changes {
            for entry in change.removed { known[name(entry)] = nil }
            for entry in change.added + change.changed { known[name(entry)] = "\(entry.value)" }
            telling.tell(known.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
        }
    }
    var telling = Telling("look")
    while isInputOpen() {
        telling.tell(try looking.entries().map { (name($0), "\($0.value)") })
    }
    folding.cancel()
    await folding.value
}

let arguments = CommandLine.arguments
switch (arguments.dropFirst().first, arguments.count) {
case ("keep", 4...): try await keep(arguments[2], arguments[3], Set(arguments.dropFirst(4)))
case ("read", 3): try await read(arguments[2])
case ("look", 3):
    var telling = Telling("look")
    telling.tell(try Client.readCollection(of: filter, in: arguments[2]).entries().map { (name($0), "\($0.value)") })
default:
    say("collectionclient keep PORT STORE [v311] [lost] | read STORE | look STORE")
    exit(2)
}
