import FoundationEssentials
import MartletClient
import MartletClientJSON
import Testing

/// What a program has as text at run time: topics, filters, payloads, User Properties, durations.
@Suite(.timeLimit(.minutes(10))) struct TextTests {
    private let room = "kitchen"

    @Test func `topics and payloads are texts with something in them`() async throws {
        let client = StubClient()
        let lamps = client.messages("home/\(room)/+")
        try await client.publish("on", to: "home/\(room)/lamp")
        try await client.publish("\(21.5)", to: "home/\(room)/temperature")
        let word = "off"
        try await client.publish(word, to: "home/\(room)/fan")
        var said: [String] = []
        for try await message in lamps {
            said.append("\(message)")
            if said.count == 3 { break }
        }
        #expect(said == ["home/kitchen/lamp on", "home/kitchen/temperature 21.5", "home/kitchen/fan off"])
    }

    @Test func `a topic of text and one of the program's own take payloads and texts`() async throws {
        let client = StubClient()
        let messages = client.messages(["a/#", "b/\(room)"])
        let (topic, text, payload): (TopicName, String, Payload) = ("a/b", "text", [1, 2])
        try await client.publish(text, to: topic)
        try await client.publish(payload, to: topic)
        try await client.publish(payload, to: "b/\(room)", qos: .atLeastOnce, retain: true)
        try await client.publish([1, 2, 3], to: "a/c")
        #expect(messages.waitingCount == 4)
    }

    @Test(arguments: [
        ("home/+/lamp", "“home/+/lamp” is no topic: the wildcards + and # belong to filters, for subscribers"),
        ("", "“” is no topic: it is empty"),
        ("a\0", "“a\0” is no topic: it has the character U+0000"),
        (
            String(repeating: "a", count: 65_536),
            "“\(String(repeating: "a", count: 100))…” is no topic: it has 65536 bytes, and 65,535 are the most"
        ),
    ])
    func `a text that is no topic is an error where it is used`(text: String, says: String) async throws {
        let client = StubClient(clock: ManualClock())
        let error = ClientError.topic(says)
        await #expect(throws: error) { try await client.publish("on", to: text) }
        await #expect(throws: error) { try await client.publish(Payload("on"), to: text) }
        await #expect(throws: error) { try await client.clearRetained(text) }
        #expect(throws: error) { try Publication(text, "on") }
        #expect(throws: error) { try Will(topic: text, payload: "on") }
        #expect(throws: error) { try CallTopic<PlaceSearch>(text).name }
        await #expect(throws: RequestError<Never>.client(error)) {
            try await client.send(PlaceSearch(region: "r", keyword: "k"), to: CallTopic(text))
        }
    }

    @Test(arguments: [
        (
            "home/lamp+",
            "“home/lamp+” is no topic filter: a wildcard is a level of its own, + anywhere and # as the last: home/+/lamp, home/#"
        ),
        (
            "#/lamp",
            "“#/lamp” is no topic filter: a wildcard is a level of its own, + anywhere and # as the last: home/+/lamp, home/#"
        ),
        (
            "$share/+/a",
            "“$share/+/a” is no topic filter: a shared subscription is $share/GROUP/FILTER, the group without wildcards"
        ),
        ("", "“” is no topic filter: it is empty"),
    ])
    func `a text that is no filter is an error where it is used`(text: String, says: String) async throws {
        let client = StubClient()
        let error = ClientError.topic(says)
        await #expect(throws: error) { try await client.messages(text).granted() }
        await #expect(throws: error) {
            for try await _ in client.messages(["a", text]) { Issue.record("there is nothing to come") }
        }
        await #expect(throws: error) {
            try await client.withMessages(text) { (messages) throws(ClientError) in try await messages.granted() }
        }
        await #expect(throws: error) { try await client.clearRetained(matching: text) }
        #expect(throws: error) { try client.collection(of: text) }
    }

    @Test func `a literal that is no topic or filter is an error as well`() async throws {
        let client = StubClient()
        await #expect(throws: ClientError.self) { try await client.publish("on", to: "home/#") }
        await #expect(throws: ClientError.self) { try await client.messages("home#").granted() }
    }

    @Test func `user properties are texts`() throws {
        let property = try UserProperty(name: "room", value: "the \(room)")
        #expect(property == UserProperty(name: "room", value: "the kitchen"))
        #expect(throws: ClientError.settings("“a\0b” cannot be said in MQTT: it has the character U+0000")) {
            try UserProperty(name: "room", value: "a\0b".description)
        }
    }

    @Test func `bytes of Foundation are a payload, and a payload is such bytes`() {
        let data = Data([1, 2, 255])
        #expect(Payload(data) == [1, 2, 255])
        #expect(Data(Payload(data)) == data)
    }

    @Test func `a message's expiry is a duration`() throws {
        var publication: Publication = Publication("a", "b")
        #expect(publication.messageExpiry == nil)
        publication.messageExpiry = .milliseconds(1500)
        #expect(publication.messageExpiry == .seconds(2))
        #expect(publication.properties.messageExpiryInterval == 2)
        publication.messageExpiry = .seconds(Int64(1) << 40)
        #expect(publication.properties.messageExpiryInterval == .max)
        publication.messageExpiry = .seconds(-1)
        #expect(publication.properties.messageExpiryInterval == 0)
        publication.messageExpiry = nil
        #expect(!publication.hasProperties)
    }

    @Test func `a will is made of a message, or of what a message is made of`() throws {
        let state: TopicName = "home/state"
        let will = Will(topic: "home/state", payload: "offline", qos: .atLeastOnce, retain: true)
        #expect(will == Will(topic: state, payload: Array("offline".utf8), qos: .atLeastOnce, retain: true))
        #expect(try Will(topic: "home/\(room)", payload: "offline") == Will(topic: "home/kitchen", payload: Payload("offline")))
        let publication = Publication("home/state", "offline", qos: .atLeastOnce, retain: true)
        #expect(Will(publication) == will)
        #expect(Will(publication, delay: .milliseconds(1)).properties.willDelayInterval == 1)
    }
}
