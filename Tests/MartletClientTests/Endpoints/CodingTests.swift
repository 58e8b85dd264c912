import FoundationEssentials
import MartletClient
import MartletClientJSON
import Testing

@Suite struct CodingTests {
    @Test func `text is what the value describes itself with`() throws {
        #expect(try MessageCoding<Double>.text.encode(21.5) == "21.5")
        #expect(try MessageCoding<Double>.text.decode("-3") == -3)
        #expect(try MessageCoding<String>.text.decode("é") == "é")
        #expect(try MessageCoding<Bool>.text.encode(true) == "true")
        #expect(throws: ClientError.undecodable("“warm” is no Double")) { try MessageCoding<Double>.text.decode("warm") }
        #expect(throws: ClientError.undecodable("2 bytes that are not UTF-8")) {
            try MessageCoding<String>.text.decode([0xC3, 0x28])
        }
    }

    @Test func `text of an enumeration is its raw value`() throws {
        #expect(try MessageCoding<Alarm>.text.encode(.smoke) == "smoke")
        #expect(try MessageCoding<Alarm>.text.decode("water") == .water)
        #expect(throws: ClientError.undecodable("“wind” is no Alarm")) { try MessageCoding<Alarm>.text.decode("wind") }
    }

    @Test func `what cannot be read is the default value, where there is one`() throws {
        let coding = MessageCoding<Double>.text.defaulting(to: 0)
        #expect(try coding.decode("21.5") == 21.5)
        #expect(try coding.decode("warm") == 0 && coding.decode("") == 0)
        #expect(try coding.encode(3) == "3.0")
        let both = MessageCoding<Double>.json.or(.text).defaulting(to: -1)
        #expect(try both.decode("x", contentType: "image/png") == -1)
        #expect(try both.decode("2", contentType: "text/plain") == 2)
    }

    @Test func `bytes are what they are`() throws {
        #expect(try MessageCoding<[UInt8]>.bytes.encode([1, 0, 255]) == [1, 0, 255])
        #expect(try MessageCoding<[UInt8]>.bytes.decode([1, 0, 255]) == [1, 0, 255])
        #expect(try MessageCoding<Payload>.bytes.decode("x") == "x")
        #expect(try MessageCoding<Data>.bytes.decode([7]) == Data([7]))
    }

    @Test func `JSON has its keys in order, no escaped slashes, and dates in ISO 8601`() throws {
        struct Reading: Codable, Hashable, Sendable {
            var unit: String
            var at: Date
        }
        let reading = Reading(unit: "m/s", at: Date(timeIntervalSince1970: 1_769_860_800))
        let payload = try MessageCoding<Reading>.json.encode(reading)
        #expect(payload == #"{"at":"2026-01-31T12:00:00Z","unit":"m/s"}"#)
        #expect(try MessageCoding<Reading>.json.decode(payload) == reading)
        #expect(throws: ClientError.self) { try MessageCoding<Reading>.json.decode("{}") }
        #expect(try MessageCoding<Int>.json.encode(3) == "3")
    }

    @Test func `with a choice, the Content Type of a message decides who reads it`() throws {
        struct Marked: PayloadCoding {
            let mark: String
            var contentType: EncodedString? { EncodedString("text/\(mark)") }
            func encode(_ value: String) -> Payload { Payload(mark + value) }
            func decode(_ payload: Payload) throws -> String { "\(mark) reads \(payload)" }
        }
        let coding = MessageCoding(Marked(mark: "a")).or(MessageCoding(Marked(mark: "b")).or(MessageCoding(Marked(mark: "c"))))
        #expect(try coding.decode("x", contentType: "text/b") == "b reads x")
        #expect(try coding.decode("x", contentType: "Text/C; charset=utf-8") == "c reads x")
        #expect(try coding.decode("x", contentType: "text/a") == "a reads x")
        #expect(try coding.decode("x", contentType: nil) == "a reads x")
        #expect(throws: ClientError.undecodable("no coding reads “text/unknown”")) {
            try coding.decode("x", contentType: "text/unknown")
        }
        #expect(try MessageCoding(Marked(mark: "a")).decode("x", contentType: "text/unknown") == "a reads x")
        #expect(try coding.encode("x") == "ax")
    }

    @Test func `messages say their Content Type where there is a choice, text alone says none`() throws {
        let alone = Endpoint(Double.self, coding: .text) { "a" }
        let choice = Endpoint(Double.self, coding: .text.or(.json)) { "a" }
        #expect(try !alone().publication(1).hasProperties)
        #expect(try choice().publication(1).properties.contentType == "text/plain")
        #expect(try choice().publication(1).properties.payloadFormatIndicator == 1)
    }

    @Test func `a value that cannot be written is an error`() {
        #expect(throws: ClientError.self) { try MessageCoding<Double>.json.encode(.infinity) }
    }
}
